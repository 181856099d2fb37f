"""Messages say what to do next, and what people type first exists."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from roambench.cli.bench_choice import completing
from roambench.cli.common_options import keep_inputs
from roambench.cli.main import main
from roambench.contract.errors import ConfigError
from roambench.learning.datasets.catalogue import require_files
from roambench.runs.crates import unpacked
from tiny_experiment import TINY


def roambench(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def test_help_and_version_are_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert roambench("help", "trace", "show") == 0
    assert "Usage: roambench trace show" in capsys.readouterr().out
    assert roambench("version") == 0
    assert capsys.readouterr().out.startswith("roambench ")


def test_missing_data_name_their_download_before_the_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROAMBENCH_DATA", str(tmp_path))
    (tmp_path / "m.toml").write_text(TINY)
    changes = ("--set", "learning.dataset=mnist", "--set", "learning.model=mohawk_cnn")
    assert roambench("run", "m.toml", "--fleet", "simulated", *changes) == 2
    told = capsys.readouterr()
    assert "learning.download=true fetches it" in told.err
    assert "[2/" not in told.out
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("dataset", "fetched"),
    [("imagefolder", False), ("spokendigits", False), ("huggingface", False), ("har", True)],
)
def test_a_download_is_proposed_where_there_is_one(tmp_path: Path, dataset: str, fetched: bool) -> None:
    with pytest.raises(ConfigError) as refused:
        require_files(dataset, tmp_path)
    assert any("learning.download=true fetches it" in line for line in refused.value.problems) is fetched


def test_a_table_as_a_trace_says_how_it_becomes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.csv").write_text("device,time,lat,lon\n")
    assert roambench("trace", "show", "a b.csv") == 2
    assert "roambench trace import --detect 'a b.csv' -o t.parquet" in capsys.readouterr().err


def test_fleets_are_completed_in_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rack.toml").write_text("")
    assert completing("local", "bench:")("bench:") == ["bench:rack.toml"]
    words = {
        "_ROAMBENCH_COMPLETE": "complete_bash",
        "COMP_WORDS": "roambench run --fleet ",
        "COMP_CWORD": "3",
    }
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'roambench'; import roambench.cli.main as m; m.main()",
    ]
    ran = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["local", "simulated", "rehearsal", "bench:"]


@pytest.mark.parametrize(
    "words",
    [
        ["trace", "import", "csv", "s.csv", "-o", "s.csv"],
        ["trace", "import", "csv", "s.csv", "-o", "./s.csv"],
        ["trace", "import", "csv", "folder", "-o", "folder/t.csv"],
        ["trace", "import", "csv", "s.csv", "--ap-source", "aps.csv", "-o", "aps.csv"],
        ["trace", "export", "t.parquet", "-o", "t.parquet", "--format", "csv"],
        ["trace", "plot", "plots/trace.html", "-o", "plots"],
        ["data", "show", "m.toml", "-o", "m.toml"],
        ["run", "m.toml", "--fleet", "simulated", "-o", "m.toml"],
        ["calibrate", "m.toml", "-o", "m.toml"],
        ["calibrate", "m.toml", "-o", "l.json", "--page", "m.toml"],
    ],
    ids=" ".join,
)
def test_a_file_that_a_command_reads_is_no_output_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(TINY)
    rows = "".join(f"d,{3600 * at},52.5,13.4\n" for at in range(3))
    (tmp_path / "s.csv").write_text(f"device,time,lat,lon\n{rows}")
    (tmp_path / "aps.csv").write_text("ap,lat,lon\na,52.5,13.4\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "t.csv").write_bytes((tmp_path / "s.csv").read_bytes())
    assert roambench("trace", "import", "csv", "s.csv", "-o", "t.parquet") == 0
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "trace.html").write_bytes((tmp_path / "t.parquet").read_bytes())
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert roambench(*words) == 2
    assert "expected another file than those that the command reads" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_a_crate_and_the_records_of_a_run_are_no_output_of_a_report(tmp_path: Path) -> None:
    packed, run = tmp_path / "crate.zip", tmp_path / "run"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("runs/a/run.json", "{}")
    run.mkdir()
    for name in ("events.sqlite", "report.html"):
        (run / name).write_text("")
    inputs = (unpacked(packed) / "runs" / "a", run)
    for refused in (packed, run / "events.sqlite"):
        with pytest.raises(ConfigError, match="expected another file than those that the command reads"):
            keep_inputs(refused, *inputs)
    for written in (run / "report.html", tmp_path / "new.html", None):
        keep_inputs(written, *inputs)


def test_the_records_of_a_calibration_are_no_link_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "experiment.json").write_text("{}")
    assert roambench("calibrate", str(tmp_path), "-o", str(tmp_path / "experiment.json")) == 2
    assert "expected another file than those that the command reads" in capsys.readouterr().err
