"""Studies that are run: mistakes are told before, and a page is made of the runs that there are."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from rehearsed_sweep import SWEEP
from roambench.cli.main import app
from roambench.contract.errors import ConfigError, RunError
from roambench.extras.reproduce.figures_csv import read_rows

STUDY = """\
[[study]]
name = "{name}"
title = "Study {name}"
gap.small = "much"
small = {{ file = "{name}.toml", lasts = "1 min" }}
[[study.claim]]
says = "MOHAWK aggregates more"
metric = "aggregated_per_step"
of = {{ systems = "mohawk" }}
against = [{{ systems = "hierfavg" }}]
better = "more"
"""


def studies(folder: Path, **sweeps: str) -> None:
    """A checkout with these studies, by name, and their sweeps."""
    home = folder / "experiments"
    home.mkdir()
    for name, sweep in sweeps.items():
        (home / f"{name}.toml").write_text(sweep)
    (home / "reproduction.toml").write_text(
        "item = []\n" + "".join(STUDY.format(name=name) for name in sweeps)
    )


def reproduce(*words: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", *words, "--jobs", "2", "--pages", "pages"])


def point_folders(study: str) -> list[Path]:
    return sorted(Path(f"runs/reproduce/{study}-small/points").iterdir())


@pytest.fixture(autouse=True)
def _in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_mistakes_of_all_studies_are_told_before_anything_runs(tmp_path: Path) -> None:
    varied = SWEEP + "rounds.cloud_every_steps = [2]\n"
    studies(tmp_path, first=SWEEP, second=varied, third=varied.replace("agents = 4", "agents = -1"))
    refused = reproduce("first", "second", "third", "--set", "rounds.cloud_every_steps=3")
    assert isinstance(refused.exception, ConfigError)
    told = str(refused.exception)
    for name in ("second", "third"):
        key = "rounds.cloud_every_steps"
        assert f"--set {key}: expected a key that {name}.toml does not vary" in told
    refused = reproduce("first", "third")
    assert isinstance(refused.exception, ConfigError)
    assert "fleet.agents" in str(refused.exception)
    refused = reproduce("first", "--trace", "absent.parquet")
    assert isinstance(refused.exception, ConfigError)
    assert "absent.parquet does not exist" in str(refused.exception)
    assert not (tmp_path / "runs").exists()


def test_all_names_that_are_no_studies_are_told_at_once(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP)
    for more in ([], ["--list"]):
        words = ["reproduce", "frist", "second", *more]
        refused = CliRunner().invoke(app, words)
        assert isinstance(refused.exception, ConfigError)
        assert refused.exception.problems == (
            "no study 'frist': expected one of first, did you mean first?",
            "no study 'second': expected one of first",
        )


def test_kept_figures_that_cannot_be_renewed_are_told_before_anything_runs(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "README.md").write_text("no markers\n")
    (kept / "ran.csv").write_text("study,scale,day (UTC),runs,of\nfirst,small,2026-11-28,few,4\n")
    refused = reproduce("--verdicts", "kept")
    assert isinstance(refused.exception, ConfigError)
    ran, page = refused.exception.problems
    assert ran == "kept/ran.csv: row 2: runs: expected how many runs, got few"
    assert page.startswith("kept/README.md: expected the lines <!-- verdicts")
    (tmp_path / "file").write_text("")
    refused = reproduce("--verdicts", "file")
    assert "--verdicts file: expected a folder, got a file" in str(refused.exception)
    assert not (tmp_path / "runs").exists()
    assert sorted(path.name for path in kept.iterdir()) == ["README.md", "ran.csv"]


def test_a_study_that_is_named_twice_runs_once(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP)
    made = reproduce("first", "first")
    assert made.exit_code == 0, made.output
    assert made.output.count("study 1 of 1: Study first") == 1
    assert "study 2" not in made.output


def test_a_data_set_that_is_missing_is_told_once_for_all_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROAMBENCH_DATA", str(tmp_path / "data"))
    trained = SWEEP.replace('"rehearsal"', '"simulated"')
    mixed = trained + 'learning.dataset = ["digits", "mnist"]\n'
    studies(tmp_path, first=SWEEP, second=mixed, third=mixed.replace("seeds = 2", "seeds = 3"))
    refused = reproduce()
    assert isinstance(refused.exception, ConfigError)
    *files, way = refused.exception.problems
    assert len(files) == 4
    assert all(line.startswith(f"{tmp_path / 'data' / 'mnist'}/") for line in files)
    assert way == "learning.dataset: mnist is not there yet: learning.download=true fetches it (--set)"
    assert not (tmp_path / "runs").exists()


def test_a_trace_that_is_none_is_told_once(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP, second=SWEEP)
    (tmp_path / "words.md").write_text("no trace\n")
    refused = reproduce("first", "second", "--trace", "words.md")
    assert isinstance(refused.exception, ConfigError)
    (problem,) = refused.exception.problems
    assert problem.startswith("words.md: expected a trace (Parquet)")
    assert not (tmp_path / "runs").exists()


def test_a_page_is_written_of_the_other_runs_where_some_failed(tmp_path: Path) -> None:
    """A step that no trace has fails when it is run; the study behind is run all the same."""
    studies(tmp_path, first=SWEEP + "trace.offset = [0, 50]\n", second=SWEEP)
    for more in ([], ["--finished"]):
        made = reproduce("--verdicts", "kept", *more)
        assert isinstance(made.exception, RunError)
        assert made.exit_code == 1
        assert str(made.exception).splitlines()[-1] == "first: 4 of 8 runs failed"
        page = Path("pages/first-small.md")
        assert "4 of 8 runs have ended so far." in page.read_text("utf-8")
        page.unlink()
        assert Path("pages/second-small.md").is_file()
        # Of a sweep with failed runs figures are kept only where that was asked for.
        kept = [row[0] for row in read_rows(Path("kept/ran.csv"))[1:]]
        assert kept == (["second", "first"] if more else ["second"])


def test_studies_of_which_nothing_ran_keep_no_page_from_the_others(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP, second=SWEEP.replace("seeds = 2", "seeds = 1"), third=SWEEP)
    early = reproduce("--finished")
    sentence = "runs/reproduce: no run has finished at small of "
    assert str(early.exception) == f"{sentence}first, second, third"
    assert reproduce("second").exit_code == 0
    made = reproduce("--finished")
    assert made.exit_code == 0, made.output
    assert f"{sentence}first, third\n" in made.output
    assert [path.name for path in Path("pages").glob("*.md")] == ["second-small.md"]


def test_a_stopped_run_that_is_damaged_is_left_out_with_a_warning(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP)
    assert reproduce().exit_code == 0
    gone, damaged, *_ = point_folders("first")
    for point in (gone, damaged):
        (point / "result.json").unlink()
    for file in ("run.json", "experiment.json", "events.sqlite"):
        runs = [next(point.glob("runs/*")) for point in (gone, damaged)]
        before = (runs[0] / file).read_bytes(), (runs[1] / file).read_bytes()
        (runs[0] / file).unlink()
        (runs[1] / file).write_text("no longer what it was")
        made = reproduce("--finished")
        assert made.exit_code == 0, made.output
        for run, content in zip(runs, before, strict=True):
            assert f"{run}: left out: " in made.output
            (run / file).write_bytes(content)
        assert "2 of 4 runs have ended so far." in Path("pages/first-small.md").read_text("utf-8")
    assert "left out" not in reproduce("--finished").output


def test_a_finished_run_whose_description_is_lost_is_run_again(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP)
    assert reproduce().exit_code == 0
    gone, damaged, *_ = point_folders("first")
    (gone / "point.json").unlink()
    (damaged / "point.json").write_text("{")
    again = reproduce()
    assert again.exit_code == 0, again.output
    assert "2 finished already, 2 to run" in again.output
    assert all(json.loads((point / "point.json").read_text()) for point in (gone, damaged))


def test_a_page_has_the_command_with_the_options_that_were_given(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP)
    (tmp_path / "mnist").mkdir()
    made = reproduce("--set", "trace.steps=4", "--set", f'learning.data_path="{tmp_path / "mnist"}"')
    assert made.exit_code == 0, made.output
    page = Path("pages/first-small.md").read_text("utf-8")
    options = "--set trace.steps=4 --set 'learning.data_path=\"mnist\"'"
    assert f"`roambench reproduce first {options}` makes this page" in page


def test_the_day_is_that_of_the_sweeps_own_runs_whatever_became_of_their_files(tmp_path: Path) -> None:
    studies(tmp_path, first=SWEEP)
    assert reproduce("--set", "trace.steps=4").exit_code == 0  # a trial in the same folder
    trial = point_folders("first")
    assert reproduce().exit_code == 0
    days = iter(
        ["2026-01-05T10:00:00+00:00", "2026-01-06T23:59:59+00:00", *2 * ["2026-01-03T10:00:00+00:00"]]
    )
    for point in point_folders("first"):
        path = point / "result.json"
        result = json.loads(path.read_text())
        result["began"] = "2026-02-01T00:00:00+00:00" if point in trial else next(days)
        result["wall_s"], result["ended"] = 2.0, ""  # the second one ended on the day after it began
        path.write_text(json.dumps(result))
        os.utime(path, (0.0, 0.0))
    shutil.copytree("runs", "copied")
    made = reproduce("--finished", "-o", "copied/reproduce", "--verdicts", "kept")
    assert made.exit_code == 0, made.output
    assert read_rows(Path("kept/ran.csv"))[1] == ["first", "small", "2026-01-07", "4", "4"]
    # A run that was interrupted for days says when it ended.
    path = Path("copied/reproduce/first-small/points", point_folders("first")[-1].name, "result.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended": "2026-01-09T10:00:00+00:00"}))
    assert reproduce("--finished", "-o", "copied/reproduce", "--verdicts", "kept").exit_code == 0
    assert read_rows(Path("kept/ran.csv"))[1][2] == "2026-01-09"
