"""Commands beside the older releases of typer and rich that flwr wants in one environment."""

from __future__ import annotations

import subprocess
import sysconfig

import pytest

from flower_apps import PYTHON

pytestmark = pytest.mark.lengthy

#: Our environment behind the other one: its own typer and rich come first.
_MAIN = f"""
import site, sys
site.addsitedir({sysconfig.get_path("purelib")!r})
import typer
assert typer.__version__ < "0.21", typer.__version__
from roambench.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["flower", "run"], ["APP_DIR", "--agents", "N [x>=1]", "--trace", "PATH", "KEY=VALUE..."]),
        (["run"], ["FILE|RUN", "--fleet", "FLEET", "--wait", "S"]),
        (["fleet", "provision"], ["BENCH", "--dry-run"]),
    ],
)
def test_a_command_has_its_help(words: list[str], expected: list[str]) -> None:
    done = subprocess.run(
        [str(PYTHON), "-c", _MAIN, *words, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(word in done.stdout for word in expected), done.stdout
