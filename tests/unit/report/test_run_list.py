"""Runs in a list: their columns, filters, order, and what is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.contract.errors import ConfigError
from roambench.live.folders import WatchedFolder
from roambench.report.quantities import QUANTITIES
from roambench.report.run_columns import COLUMNS, SHOWN, ListedRun, sorted_by
from roambench.report.run_figures import RunFigures, write_figures
from roambench.report.run_filter import run_filter
from roambench.report.run_list import chosen_columns, lines, listed_runs
from roambench.runs.info import RunInfo, RunState
from small_runs import measured, simulated


def a_run(name: str, accuracy: float | None, when: str = "2026-11-28T18:00:00+00:00") -> ListedRun:
    figures = {} if accuracy is None else {"final_accuracy": accuracy, "consumed_j": 100.0 * accuracy}
    info = RunInfo(
        run_id=name, system="mohawk", seed=1, trace_hash="", fleet="bench", device_names=(), created_utc=when,
        state=RunState.FINISHED,
    )  # fmt: skip
    return ListedRun(name, info, RunFigures(basis="measured", figures=figures))


RUNS = [a_run("low", 0.5), a_run("high", 0.95, "2026-11-27T23:59:59+00:00"), a_run("none", None)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("accuracy > 0.9", ["high"]),
        ("accuracy >= 95%", ["high"]),
        ("accuracy < 90 % or name = none", ["low", "none"]),
        ("not accuracy > 0.9", ["low", "none"]),
        ("final_accuracy > 0.4 and (joules < 60 or wasted > 1)", ["low"]),
        ("system = 'mohawk' and fleet != local and name ~ HIGH", ["high"]),
        ("when = 2026-11-28", ["low", "none"]),
        ("when < 2026-11-28T00:00", ["high"]),
        ('state = finished AND reason = ""', ["low", "high", "none"]),
        ("accuracy > -1e3", ["low", "high"]),
    ],
)
def test_a_filter_compares_numbers_texts_and_dates(text: str, found: list[str]) -> None:
    assert [run.name for run in RUNS if run_filter(text)(run)] == found


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("acuracy > 0.9", "character 1 .*no column acuracy, did you mean accuracy.* known: name, when"),
        ("accuracy > much", "character 12 .*expected a number for accuracy"),
        ("when > yesterday", "expected a date for when"),
        ("accuracy", "it ends there.*expected one of = == !="),
        ("accuracy > ", "expected a number for accuracy"),
        ("accuracy > 0.9 name = x", "expected and, or, or the end"),
        ("(accuracy > 0.9", r"expected \)"),
        ("accuracy ~ 0.9", "expected a text column before ~"),
        ("__import__('os').system('true')", "no column __import__"),
        ("(" * 100, "expected at most 40 levels"),
        ("not " * 100, "expected at most 40 levels"),
        ("name = 'x" + "x" * 3000, "expected at most 2,000 characters"),
        ("name\x1b[2J = x", r"no column name\?\[2J"),
        ("", "expected a column"),
    ],
)
def test_a_wrong_filter_names_the_place_and_what_was_expected(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as refused:
        run_filter(text)
    assert str(refused.value).startswith("--where: ")
    assert str(refused.value).isprintable()


def test_runs_without_a_figure_are_last_either_way() -> None:
    by = COLUMNS["accuracy"]
    assert [run.name for run in sorted_by(by, RUNS, descending=True)] == ["high", "low", "none"]
    assert [run.name for run in sorted_by(by, RUNS, descending=False)] == ["low", "high", "none"]


def test_every_quantity_is_a_column_and_an_unknown_one_lists_them() -> None:
    assert QUANTITIES.keys() <= COLUMNS.keys()
    assert [column.name for column in chosen_columns([])] == list(SHOWN)
    with pytest.raises(ConfigError, match=r"no column loss; known: .*final_loss"):
        chosen_columns(["loss"])


def test_eighty_columns_hold_every_line() -> None:
    long = ListedRun("demo/2026-11-28T1804/hierfavg", *(getattr(RUNS[0], it) for it in ("info", "figures")))
    printed = lines([long, *RUNS], chosen_columns([]), 80)
    assert max(map(len, printed)) <= 80
    assert printed[2] == "demo/2026-11-28T1804/hierfavg"
    assert len(lines([long, *RUNS], chosen_columns([]), 200)) == 5


def test_the_command_lists_what_ends_wrote_what_records_give_and_what_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated(tmp_path / "runs/written")
    write_figures(tmp_path / "runs/written")
    simulated(tmp_path / "runs/points/a=1/runs/older")
    measured(tmp_path / "runs/board")
    (tmp_path / "runs/bad").mkdir()
    (tmp_path / "runs/bad/run.json").write_text("{")
    with pytest.raises(SystemExit) as ended:
        main(["runs", str(tmp_path / "runs"), "--json", "--sort", "accuracy"])
    assert ended.value.code == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(found) == ["points/a=1/runs/older", "written", "board", "bad"]
    assert found["written"]["figures"] == found["points/a=1/runs/older"]["figures"]
    assert (found["written"]["accuracy"], found["written"]["basis"]) == (0.75, "modelled")
    assert (found["board"]["state"], found["board"]["basis"]) == ("finished", "measured")
    assert found["board"]["u"]["whole_run_j"] > 0.0
    assert "not JSON" in found["bad"]["problem"]
    assert listed_runs(tmp_path / "runs/board")[0].name == "board"


def test_points_of_a_sweep_are_listed_by_what_varies_in_it(tmp_path: Path) -> None:
    for number, alpha in enumerate((0.1, 100.0)):
        place = tmp_path / f"sweep/points/mohawk-{number}/runs/mohawk"
        place.parent.mkdir(parents=True)
        simulated(place)
        file = place / "experiment.json"
        experiment = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**experiment, "learning": {"alpha": alpha}}))
    found = listed_runs(tmp_path / "sweep")
    assert [run.setting.split(" seed=")[0] for run in found] == ["mohawk alpha=0.1", "mohawk alpha=100.0"]
    assert "setting" in [column.name for column in chosen_columns([], found)]
    simulated(tmp_path / "alone")
    assert [run.setting for run in listed_runs(tmp_path / "alone")] == [""]
    served = WatchedFolder(tmp_path / "sweep").listed(1.0)
    assert {run.setting for _, run in served} == {run.setting for run in found}
