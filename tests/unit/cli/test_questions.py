"""Commands that ask something: without a terminal, and where a wrong key is typed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

_MAIN = [sys.executable, "-m", "roambench.cli.main"]


@pytest.fixture
def bench(tmp_path: Path) -> str:
    """A bench whose one host cannot be reached."""
    path = tmp_path / "bench.toml"
    path.write_text(
        'name = "bench"\n[controller]\naddress = "127.0.0.1"\n[[hosts]]\nname = "pi-01"\n'
        'address = "127.0.0.1"\nssh_port = 1\nmeter.driver = "none"\n'
    )
    return str(path)


def said(words: list[str], text: str) -> tuple[int, str]:
    """What a command without a terminal ends with and complains of, with `text` as its input."""
    ended = subprocess.run([*_MAIN, *words], input=text, capture_output=True, text=True, check=False)
    return ended.returncode, " ".join(ended.stderr.split())


def typed(words: list[str], keys: bytes) -> tuple[int, str]:
    """The same on a terminal, where `keys` are typed once it has asked; colours are not told."""
    line = ["script", "-qec", shlex.join([*_MAIN, *words]), "/dev/null"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        shown = b""
        while not re.search(rb"(password: |]: ?)$", shown):
            piece = process.stdout.read1()
            assert piece, shown
            shown += piece
        rest, _ = process.communicate(keys, timeout=120)
    return process.returncode, " ".join(re.sub(r"\x1b\[[0-9;]*m", "", (shown + rest).decode()).split())


@pytest.mark.parametrize("text", ["", "y\n", "y\ny\n"])
def test_without_a_terminal_unprovision_wants_yes_and_reads_no_answer(bench: str, text: str) -> None:
    for more in ([], ["-K"]) if text else ([],):
        code, complaint = said(["fleet", "unprovision", bench, *more], text)
        assert code == 2
        assert complaint.endswith(
            "Remove everything from 1 host of bench? Expected --yes, since there is no terminal to ask on"
        )


def test_without_a_terminal_a_password_that_is_not_there_is_told_where_it_is_expected(bench: str) -> None:
    code, complaint = said(["fleet", "reboot", bench, "-K"], "")
    assert code == 2
    assert complaint.endswith(
        "-K: expected the password on the first line of the input, since there is no terminal to ask on"
    )


@pytest.mark.parametrize("keys", [b"\n", b"\x04"])
def test_on_a_terminal_no_password_and_no_answer_end_in_a_sentence(bench: str, keys: bytes) -> None:
    code, shown = typed(["fleet", "reboot", bench, "-K"], keys)
    assert code == 2
    assert shown.endswith("-K: expected a password")
    code, shown = typed(["fleet", "unprovision", bench], keys)
    assert code == 1
    assert shown.endswith("Aborted.")
