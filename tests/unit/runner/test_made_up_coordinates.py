"""A log of phones at cells, as base stations write it: it names the cells and not where they stand."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from page_data import page_data
from roambench.cli.main import main
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.extras.papers.beside import ratios_of_report
from roambench.mobility.files import read_trace
from roambench.plan.plan import plan_experiment
from roambench.plan.tables import print_plans
from roambench.report.documents.report import json_text
from roambench.report.numbers import NONE
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.run import summarise
from roambench.report.tables.report import comparison_tables
from roambench.rounds.records import StepOpened
from roambench.runner.composition import run_experiment
from roambench.runner.world import movement_of
from roambench.runs.folder import RunFolder

SENTENCE = "access-point coordinates are made up: distances mean nothing"


def roambench(*arguments: str | Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """40 phones, each for six hours at one of 30 cells and then for six at the next."""
    rows = ["device,lac,ci,start,end"]
    for phone in range(40):
        for half in (0, 1):
            cell = 100 + (phone + half) % 30
            rows.append(
                f"P{phone},431{cell},7,2015-07-31 {6 * half:02d}:00:00,2015-07-31 {6 * half + 6:02d}:00:00"
            )
    (tmp_path / "cdr.csv").write_text("\n".join(rows) + "\n")
    file = tmp_path / "cdr.parquet"
    command = ("trace", "import", "intervals", tmp_path / "cdr.csv", "-o", file, "--steps", "12")
    roambench(*command, "--columns", "ap=lac+ci", "--from", "2015-07-31")
    return file


@pytest.fixture
def experiment(tmp_path: Path, trace: Path) -> Path:
    path = tmp_path / "e.toml"
    path.write_text(
        f'name = "e"\nsystems = ["mohawk"]\n[trace]\nfile = "{trace.name}"\nwindow = "first"\nsteps = 12\n'
        "[fleet]\nagents = 40\n"
    )
    return path


def test_statistics_of_it_give_no_distance_and_say_why(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    roambench("trace", "stats", trace)
    told = capsys.readouterr().out
    assert SENTENCE in told
    cells = [re.split(r" {2,}", row.strip()) for row in told.splitlines()]
    rows = {row[0]: row[2] for row in cells if len(row) > 5}
    assert {name: ours for name, ours in rows.items() if "distance" in name or "100 m" in name} == {
        **{
            f"distance to {kind} AP, {what}": "--"
            for kind in ("nearest", "fixed", "ring-walk")
            for what in ("mean", "sd")
        },
        **{f"distance to nearest AP, {what}": "--" for what in ("median", "p90", "most")},
        "within 100 m of it": "--",
    }
    roambench("trace", "stats", trace, "--json")
    found = json.loads(capsys.readouterr().out)["statistics"]
    assert found["made_up"] is True
    assert (found["nearest_m"]["mean"], found["fixed_m"]["max"], found["share_on_wifi"]) == (None, None, None)
    assert found["occupied_aps"]["mean"] == 30


def test_its_page_draws_no_map_and_no_distance(trace: Path, tmp_path: Path) -> None:
    roambench("trace", "plot", trace, "-o", tmp_path / "pictures")
    page = (tmp_path / "pictures" / "trace.html").read_text()
    assert SENTENCE in page
    data = page_data(page)
    assert [figure["key"] for figure in data["figures"]] == [
        "fig3",
        "steps-per-device",
        "ap-occupancy",
    ]
    assert f"{NONE} ±\u00a0{NONE} (7.08 ±\u00a03.92)" in page
    assert 'id="places"' not in page


def test_one_step_of_it_shows_cells_and_no_kilometres(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roambench("trace", "show", trace, "--step", "0")
    row = next(line for line in capsys.readouterr().out.splitlines() if "P0" in line)
    assert re.split(r" {2,}", row.strip()) == ["P0", "431100 7", "--", "--", "--"]


def test_writing_it_for_another_program_says_so(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roambench("trace", "export", trace, "-o", tmp_path / "t.csv", "--format", "csv")
    assert SENTENCE in capsys.readouterr().err


def test_a_run_keeps_the_recorded_cells_and_says_that_distances_mean_nothing(
    experiment: Path, tmp_path: Path, trace: Path
) -> None:
    console = Console(file=StringIO(), width=200)
    loaded = load_experiment(experiment, [])
    (run,) = run_experiment(loaded, fleet="rehearsal", runs_dir=tmp_path / "runs", console=console)
    told = console.file.getvalue()  # type: ignore[attr-defined]
    assert "40 devices, 30 APs" in told
    assert SENTENCE in told
    recorded = read_trace(trace)
    opened = [row for row in RunFolder.open(run).read_log() if isinstance(row, StepOpened)]
    played = read_trace(run / "trace.parquet")
    for row in opened:
        names = {
            recorded.device_names[d]: recorded.ap_names[a]
            for d, a in zip(
                recorded.present(row.step).tolist(),
                recorded.ap[recorded.rows(row.step)].tolist(),
                strict=True,  # type: ignore[index]
            )
        }
        assert {
            played.device_names[d]: played.ap_names[a] for d, a in zip(row.devices, row.aps, strict=True)
        } == names
    report = json.loads(json_text([summarise(evidence) for evidence in read_runs([run])]))
    assert f"{SENTENCE}, nor does energy that depends on them" in report["runs"][0]["flags"]
    assert report["runs"][0]["distance_m"] is None


@pytest.mark.usefixtures("workers_of_one_server")
def test_no_report_sets_its_distances_beside_the_papers(experiment: Path, tmp_path: Path) -> None:
    console = Console(file=StringIO(), width=200)
    changes = ['systems=["mohawk","hierfavg"]', "learning.train_images=400", "trace.steps=4"]
    changes += ['learning.model="mlp"', "learning.test_images=100"]
    loaded = load_experiment(experiment, changes)
    runs = run_experiment(loaded, fleet="simulated", runs_dir=tmp_path / "runs", console=console)
    found = [summarise(evidence) for evidence in read_runs(list(runs))]
    tables = {table.key: table for table in comparison_tables(found)}
    learning = {row[0]: row[1:] for row in tables["learning"].rows}
    assert learning["device to AP"] == (NONE, NONE)
    assert {row[-1] for row in tables["modelled-threshold"].rows} == {NONE}
    (ratios,) = ratios_of_report(found)
    assert not [row for row in ratios.rows if "km" in row[1]]


def test_access_points_are_not_drawn_where_none_has_a_place(experiment: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"fleet\.aps: expected 0 or nothing, got 20: .* not where these stand"
    ):
        movement_of(load_experiment(experiment, ["fleet.aps=20"]))
    assert movement_of(load_experiment(experiment, ["fleet.aps=0"])).trace.ap_names[:2] == (
        "431100 7",
        "431101 7",
    )


def test_without_a_number_a_trace_keeps_the_access_points_that_it_recorded(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text('[trace]\ngenerator = "edge-hopping"\nparameters = { devices = 9, aps = 4 }\n')
    moved = movement_of(load_experiment(path, [])).trace
    assert (len(moved.ap_names), moved.ap is None) == (4, False)
    path.write_text("[trace]\nparameters = { devices = 30, steps = 40 }\n")
    moved = movement_of(load_experiment(path, [])).trace
    assert (len(moved.ap_names), moved.ap is None) == (20, True)


def test_a_run_that_draws_others_than_the_recorded_ones_says_so(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        '[trace]\ngenerator = "edge-hopping"\nparameters = { devices = 9, aps = 4 }\n[fleet]\naps = 2\n'
    )
    (doubt,) = movement_of(load_experiment(path, [])).doubts
    assert doubt.startswith(
        "the trace recorded who was at which of 4 access points, and fleet.aps drew 2 others"
    )
    assert movement_of(load_experiment(path, ["fleet.aps=0"])).doubts == ()
    parameters = "{ devices = 30, steps = 40, places = 12, aps = 5 }"
    (tmp_path / "plain.toml").write_text(f"[trace]\nparameters = {parameters}\n")
    assert len(movement_of(load_experiment(tmp_path / "plain.toml", [])).trace.ap_names) == 12
    with pytest.raises(
        ConfigError, match=r"fleet\.aps: expected at most 12, the places of the trace \(0: its own"
    ):
        movement_of(load_experiment(tmp_path / "plain.toml", ["fleet.aps=13"]))


def test_a_plan_says_so_too(experiment: Path) -> None:
    console = Console(file=StringIO(), width=200)
    loaded = load_experiment(experiment, ["learning.train_images=400", "trace.steps=2"])
    print_plans(plan_experiment(loaded, "rehearsal"), console)
    assert f"! {SENTENCE}" in console.file.getvalue()  # type: ignore[attr-defined]
