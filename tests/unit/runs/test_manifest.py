"""The manifest of a run folder: when it is written, and what it finds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from roambench.contract.errors import RunError
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.manifest import MANIFEST, differences, read_manifest
from small_runs import folder_of, simulated


def found(run: Path) -> list[str]:
    manifest = read_manifest(run)
    assert manifest is not None
    return differences(run, manifest)


def test_the_end_of_a_run_writes_what_sha256sum_confirms(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    checked = subprocess.run(
        ["sha256sum", "-c", MANIFEST], cwd=tmp_path / "run", capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    assert "events.sqlite: OK" in checked.stdout
    assert found(tmp_path / "run") == []


def test_what_was_changed_lost_and_added_is_named(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    with (tmp_path / "run/run.json").open("a") as file:
        file.write(" ")
    (tmp_path / "run/experiment.json").unlink()
    (tmp_path / "run/truth/more.csv").write_text("")
    (tmp_path / "run/link").symlink_to("/etc/passwd")
    assert found(tmp_path / "run") == [
        "run.json was changed",
        "experiment.json is missing",
        "link was added",
        "truth/more.csv was added",
    ]


def test_readers_change_nothing_of_it_and_only_a_run_that_goes_on_renews_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", "simulated", [])
    with RunFolder.open(tmp_path / "run") as reader:  # its log cannot be emptied by closing alone
        reader.read_log()
        folder.close(RunState.INTERRUPTED)
        assert found(tmp_path / "run") == []
    (tmp_path / "run/experiment.json").write_text("{}")
    RunFolder.open(tmp_path / "run", write=True).close()
    assert found(tmp_path / "run") == ["experiment.json was changed"]
    with RunFolder.open(tmp_path / "run", write=True) as again:
        again.update(state=RunState.RUNNING)
        assert not (tmp_path / "run" / MANIFEST).exists()
        again.update(state=RunState.FINISHED)
    assert found(tmp_path / "run") == []


@pytest.mark.parametrize("text", ["no digest\n", f"{'0' * 64}\n"])
def test_a_manifest_that_is_none_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(f"{'0' * 64}  a{os.linesep}{text}")
    with pytest.raises(RunError, match="line 2: expected a SHA-256"):
        read_manifest(tmp_path)
