"""Commands print to any stream, to none, and files may have any name."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roambench.cli.main import main
from tiny_experiment import TINY


def roambench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([os.fspath(word) for word in words])
    return int(ended.value.code or 0)


def test_a_document_is_printed_to_a_stream_without_an_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert roambench("list", "readers", "--json") == 0
    assert json.loads(out.getvalue())


def test_a_nul_in_a_name_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert roambench("trace", "import", "--detect", "a\0b") == 2
    assert capsys.readouterr().err == "roambench: a?b: expected a path without NUL\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_a_command_ends_well_without_its_standard_streams(closed: str) -> None:
    command = f'"$0" -m roambench.cli.main list readers {closed}'
    ran = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert bool(ran.stdout) == (">&-" not in closed or closed == "2>&-")


def test_files_whose_names_are_no_text_are_read_written_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path(os.fsdecode(b"n\xff"))
    folder.mkdir()
    trace, file = folder / os.fsdecode(b"x\xfd.parquet"), folder / os.fsdecode(b"t\xfe.toml")
    file.write_text(TINY)
    assert roambench("trace", "generate", "city", "-o", trace, "--set", "devices=6", "--set", "steps=4") == 0
    assert roambench("trace", "plot", trace, "-o", folder / "page") == 0
    assert roambench("run", file, "--trace", trace, "--fleet", "rehearsal", "-q") == 0
    capsys.readouterr()
    latest = next((tmp_path / "runs").glob("*/latest"))
    assert roambench("report", "--json", latest) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert len(runs) == 2
    assert roambench("report", latest, "-o", folder / "page.html") == 0
