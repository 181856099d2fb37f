"""docs/cli.md: the codes on it are those of the command, ended in each way by a real process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text("utf-8")
ROWS = {int(code): text for code, text in re.findall(r"^\| (\d+) \| (.*)$", PAGE, re.M)}
#: `roambench` with a command that gets the signal while it works.
SIGNALLED = """
import os
from roambench.cli import main as cli
@cli.app.command("stopped")
def stopped(number: int) -> None:
    os.kill(os.getpid(), number)
    import time
    time.sleep(60)
cli.main(["stopped", "NUMBER"])
"""


def ended(*words: str) -> int:
    return subprocess.run([sys.executable, *words], capture_output=True, check=False).returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_signal_ends_a_command_as_the_page_says(number: signal.Signals) -> None:
    code = ended("-c", SIGNALLED.replace("NUMBER", str(int(number))))
    assert ("Ctrl-C" if number == signal.SIGINT else number.name) in ROWS[code]


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["run", "nothere.toml"], 2)])
def test_a_command_ends_as_the_page_says(words: list[str], code: int) -> None:
    assert ended("-m", "roambench.cli.main", *words) == code
    assert code in ROWS
