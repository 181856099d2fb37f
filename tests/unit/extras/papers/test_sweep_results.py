"""`roambench results`: the page of a real sweep on a hand-made trace, and what it is made from."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

import forked_commands
from roambench.contract.errors import RunError
from roambench.experiment.sections import Experiment, resolved
from roambench.extras.papers.alike import taken_together
from roambench.extras.papers.finished_runs import doubtful, finished_runs, unfinished
from roambench.extras.papers.mohawk_page import mohawk_page
from roambench.extras.papers.peer_page import peer_page
from roambench.extras.papers.results_page import accuracy_charts
from roambench.mobility.files import write_trace
from roambench.report.figures.print_charts import small_multiples_svg
from roambench.report.numbers import seconds
from roambench.study.sweep.metrics import METRICS
from roambench.study.sweep.points import points_of
from roambench.study.sweep.session_notes import SessionNotes, command_of, note_session, read_notes
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder, read_outcome, write_outcome
from small_traces import two_walks

pytestmark = pytest.mark.lengthy

CLI = [sys.executable, "-m", "roambench.cli.main"]
SWEEP = """\
[experiment]
seed = 1
systems = ["mohawk", "hierfavg"]
fleet = { agents = 2, aps = 0 }
[experiment.learning]
model = "mlp"
images_per_device = 16
test_images = 100
[experiment.rounds]
cloud_every_steps = 2
accuracy_threshold = 0.01
stop_at_threshold = true
"""


def roambench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return forked_commands.roambench(*arguments, cwd=cwd, env=environment)


@pytest.mark.timeout(600)
def test_a_sweep_becomes_a_page_beside_the_papers_tables(tmp_path: Path) -> None:
    """Everybody has 1 % at the first cloud aggregation, t = 2 of eight steps. Until then MOHAWK used one
    model in two steps (Bob's, who came back to an AP), HierFAVG none."""
    (tmp_path / "data").mkdir()
    write_trace(two_walks(8), tmp_path / "data" / "walks.parquet")
    (tmp_path / "tiny.toml").write_text(SWEEP)
    sweep = ("sweep", "tiny.toml", "--trace", "data/walks.parquet")
    killed_after_a_run(*sweep, "--jobs", "1", cwd=tmp_path)
    done = roambench(*sweep, "--jobs", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "1 finished already, 1 to run" in done.stdout
    made = roambench("results", "runs/tiny", "-o", "results/page.md", cwd=tmp_path)
    assert made.stdout.split() == ["results/page.md", "results/page.svg"], made.stderr
    page = (tmp_path / "results" / "page.md").read_text()
    lines = page.splitlines()
    assert lines[0] == "# tiny: beside MOHAWK's tables"
    assert "$ roambench sweep tiny.toml --trace walks.parquet --jobs 2" in lines
    # The run of the session that was killed counts, as it is listed below; so does its time.
    times_s = [
        json.loads(path.read_text())["wall_s"] for path in tmp_path.glob("runs/tiny/points/*/result.json")
    ]
    told = f"{seconds(sum(times_s))} of wall time, added up over them."
    assert re.search(rf"^2 runs on \d+ cores of .*, torch .*: {told}$", page, re.MULTILINE)
    assert "| images per device | 16 | 500 (CIFAR-100: 2,500) |" in lines
    assert "| test images | 100, drawn by class | all |" in lines
    assert (
        "| trace | walks.parquet; 2 devices, 2 APs, 8 steps of 3600 s; present per step: mean 0.38, 0 to 2 "
        "| 1,000 devices, 100 APs, 744 steps of 3600 s; present per step: 0 to 76 |"
    ) in lines
    assert "| digits | IID | 2 | ours | 2 | – | 2 | 1 : 1.00 : – | – |" in lines
    assert "| 2 | ours | 0.000 | – | 0.500 | – | – |" in lines
    # This seed gives HierFAVG's Ann AP1 (970.8 m) and Bob AP0 (900 and 1000 m); nearest: 50, 100 and 0 m.
    assert "| ours | 0.96 ± 0.04 | – | 0.05 ± 0.04 | – |" in lines
    points = [re.split(r" *\| *", line)[1:] for line in lines if re.match(r"\| (mohawk|hierfavg) \|", line)]
    # system, data, k2, seed, steps, rounds ... trainings, computed, wasted
    assert [[*row[:6], *row[10:13]] for row in points] == [
        ["mohawk", "IID", "2", "1", "3", "2", "3", "1", "66.7 %"],
        ["hierfavg", "IID", "2", "1", "3", "2", "3", "0", "100.0 %"],
    ]
    assert "MOHAWK's Table 3" not in page  # has accuracies after a month; these runs end at a threshold
    assert "![Accuracy over rounds](page.svg)" in lines
    assert str(tmp_path) not in page

    roambench("results", "runs/tiny", "-o", "results/again.md", cwd=tmp_path)
    again = (tmp_path / "results" / "again.md").read_text()
    assert again == page.replace("page.svg", "again.svg")
    shown = roambench("results", "runs/tiny", cwd=tmp_path)
    assert "Rounds to the threshold of 1 % (MOHAWK's Table 4)" in shown.stdout

    report = roambench(
        "report", "--full", *map(str, tmp_path.glob("runs/tiny/points/*/runs/*")), cwd=tmp_path
    )
    assert "Ratios beside MOHAWK's Tables 4 to 6" not in report.stdout  # of digits the paper has none
    assert "accuracy 0." in report.stdout  # why the runs ended early
    assert "reached the threshold of 0.01" in " ".join(report.stdout.split())


def killed_after_a_run(*arguments: str, cwd: Path) -> None:
    """The command with all its processes, as a power cut ends them, once one of its two runs has finished."""
    until_s = time.monotonic() + 200.0
    while True:
        process = subprocess.Popen(
            [*CLI, *arguments], cwd=cwd, start_new_session=True, stdout=subprocess.DEVNULL
        )
        while not any(cwd.glob("runs/*/points/*/result.json")):
            assert process.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if len([*cwd.glob("runs/*/points/*/result.json")]) == 1:
            return
        shutil.rmtree(cwd / "runs")  # a busy machine looked too late: the other one has finished, too


def finished(folder: Path, name: str, seed: int, system: str = "d_psgd", **sections: dict) -> None:
    """A run as a sweep leaves it (peers: 20 static clients): 70 % with seed 1, 80 % with seed 2."""
    values = {"name": name, "seed": seed, "systems": [system], "mobility": {"model": "static"}, **sections}
    config = resolved(Experiment.model_validate(values))
    point = folder / "points" / name
    point.mkdir(parents=True)
    (point / "point.json").write_text(json.dumps({"key": name, "fleet": "simulated", "config": config}))
    figures = dict.fromkeys(METRICS) | {"steps": 5.0, "final_accuracy": 0.6 + 0.1 * seed}
    write_outcome(point, PointEnd(name, figures))
    names = sorted(path.name for path in (folder / "points").iterdir())
    rows = [{"state": "finished", "folder": f"points/{each}"} for each in names]
    (folder / "table.json").write_text(json.dumps({"points": rows}))


def accuracy_row(folders: list[Path]) -> tuple[str, ...]:
    page = peer_page(folders, "dam", title="t", curves_name="t.svg")
    (row,) = next(table for table in page.tables if table.key == "dam-accuracy").rows
    return row


def test_only_seeds_are_averaged(tmp_path: Path) -> None:
    sweep, other = tmp_path / "sweep", tmp_path / "other"
    finished(sweep, "a", 1, learning={"data_path": "here/mnist"})
    finished(sweep, "b", 2, learning={"data_path": "there/mnist"})
    assert accuracy_row([sweep])[2] == "75.00 ± 7.07 %"
    finished(other, "b", 2, learning={"data_path": "there/mnist"})  # the same run in a second sweep
    assert accuracy_row([sweep, other])[2] == "75.00 ± 7.07 %"
    finished(other, "c", 2, contacts={"radius": 4.0})  # another place of the paper's figures
    assert accuracy_row([sweep, other])[2] == "75.00 ± 7.07 %"
    finished(other, "d", 2, decentralised={"evaluate_every": 3})
    with pytest.raises(RunError) as refused:
        accuracy_row([sweep, other])
    assert "decentralised.evaluate_every = " in str(refused.value)
    assert "seed = " not in str(refused.value)


def test_a_table_of_one_seed_is_not_called_a_mean(tmp_path: Path) -> None:
    walk = {"model": "reflected_walk", "fast_share": 0.2}
    said = []
    for number, (share, seed) in enumerate(((0.2, 1), (0.2, 2), (0.4, 1))):
        finished(tmp_path, f"run{number}", seed, mobility={**walk, "fast_share": share})
        (table, _) = peer_page([tmp_path], "de-heredia", title="t", curves_name="t.svg").tables
        said.append(table.caption.rpartition("points, ")[2])
    mean = "mean ± sd over the seeds"
    assert said == ["of one seed.", f"{mean}.", f"{mean} (those without ± of one seed)."]
    assert [row[1] for row in table.rows] == ["75.00 ± 7.07 %", "70.00 %"]


def test_only_seeds_are_averaged_beside_mohawks_tables_too(tmp_path: Path) -> None:
    for number, (system, seed) in enumerate((("mohawk", 1), ("mohawk", 2), ("hierfavg", 1))):
        finished(tmp_path, f"run{number}", seed, system)
    mohawk_page([tmp_path], title="t", curves_name="t.svg")
    finished(tmp_path, "run3", 3, "mohawk", learning={"local_epochs": 5})
    with pytest.raises(RunError, match=r"learning\.local_epochs = 1, 5: expected sweeps of one value each"):
        mohawk_page([tmp_path], title="t", curves_name="t.svg")


def test_a_folder_that_is_no_sweeps_is_refused_in_one_line(tmp_path: Path) -> None:
    done = roambench("results", "nowhere", cwd=tmp_path)
    assert done.returncode == 1
    expected = "nowhere/table.json: cannot be read: No such file or directory; is nowhere a sweep's folder?"
    assert done.stderr == f"roambench: {expected}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not the table of a sweep"),
        ("[]", "not the table of a sweep"),
        ('{"points": [{"state": "finished"}]}', "not the table of a sweep"),
        ('{"points": [{"state": "open", "folder": "a"}]}', "no run of this sweep has finished"),
        ('{"points": [{"state": "finished", "folder": "a"}]}', "a/point.json: missing, damaged or"),
    ],
)
def test_a_table_that_is_none_is_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(RunError, match=told):
        finished_runs(tmp_path)


def test_results_are_of_the_finished_runs_that_are_there(tmp_path: Path) -> None:
    """Whatever the table says, which the sweep wrote before; without one, as an older version left a sweep
    that was interrupted, of all."""
    for seed in (1, 2, 3):
        finished(tmp_path, f"run{seed}", seed)
    table = json.loads((tmp_path / "table.json").read_text())
    for point in table["points"]:
        point["state"] = "open"
    (tmp_path / "table.json").write_text(json.dumps(table))
    (tmp_path / "points" / "run3" / "result.json").unlink()
    for _ in range(2):
        assert [run.experiment.seed for run in finished_runs(tmp_path)] == [1, 2]
        assert doubtful(tmp_path) == []
        assert unfinished(tmp_path) == f"{tmp_path}: 2 of 3 runs have finished"
        (tmp_path / "table.json").unlink(missing_ok=True)
    done = roambench("results", str(tmp_path), cwd=tmp_path)  # of these runs MOHAWK's tables have none
    assert done.returncode == 1
    first, *_ = done.stderr.splitlines()
    assert first == f"{tmp_path}: 2 of 3 runs have finished"


@pytest.mark.parametrize("file", ["point.json", "result.json"])
def test_a_finished_run_that_lost_a_file_is_left_out_and_named(tmp_path: Path, file: str) -> None:
    for seed in (1, 2):
        finished(tmp_path, f"run{seed}", seed)
    lost = tmp_path / "points" / "run2" / file
    for damage in (lambda: lost.write_text("{"), lost.unlink):
        damage()
        assert [run.experiment.seed for run in finished_runs(tmp_path)] == [1]
        (reason,) = doubtful(tmp_path)
        assert reason.startswith(f"{lost}: missing, damaged or of another version: give the sweep's command")


def test_results_name_every_folder_that_is_no_sweeps(tmp_path: Path) -> None:
    finished(tmp_path / "sweep", "run1", 1)
    with pytest.raises(RunError) as refused:
        taken_together([tmp_path / "a", tmp_path / "sweep", tmp_path / "b"])
    assert [line.partition("/table.json: cannot be read")[0] for line in str(refused.value).splitlines()] == [
        str(tmp_path / "a"),
        str(tmp_path / "b"),
    ]


def test_the_command_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    overrides = ('learning.data_path="/data/of/mine/mnist"', "fleet.agents=3", "learning.data_path=../mnist")
    sweep = read_sweep(tmp_path / "s.toml", overrides, Path("/data/nyc city.parquet"))
    assert command_of(sweep, 2) == (
        "roambench sweep s.toml --trace 'nyc city.parquet' --set 'learning.data_path=\"mnist\"' "
        "--set fleet.agents=3 --set learning.data_path=mnist --jobs 2"
    )


def test_a_session_is_noted_as_it_begins_and_the_latest_one_counts(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    sweep = read_sweep(tmp_path / "s.toml")
    assert read_notes(tmp_path) == SessionNotes()
    note_session(SweepFolder(tmp_path), sweep, jobs=2)
    note_session(SweepFolder(tmp_path), sweep, jobs=1)
    found = read_notes(tmp_path)
    assert found.command == "roambench sweep s.toml --jobs 1"
    assert re.match(r"\d+ cores of .+, torch ", found.machine)
    (tmp_path / "sweep.json").write_text('{"command": 1}')
    assert read_notes(tmp_path) == SessionNotes()


def test_a_try_that_dies_before_it_begins_is_not_told_by_the_failure_before_it(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SWEEP)
    folder, point = SweepFolder(tmp_path / "out"), points_of(read_sweep(tmp_path / "s.toml"))[0]
    write_outcome(folder.prepare(point, 1), PointEnd(point.key, {}, "the disk was full"))
    failed = folder.outcome_of(point)
    assert failed is not None
    assert failed.reason == "the disk was full"
    folder.prepare(point, 1)
    assert folder.outcome_of(point) is None


def test_curves_have_a_panel_per_setting_and_a_colour_per_system() -> None:
    curves = [
        ("IID <k2>", "mohawk", ((1, 0.0), (10, 1.0))),
        ("IID <k2>", "macfl", ((5, 0.5), (10, 0.75))),
        ("non-IID", "mohawk", ((5, 0.5), (10, 0.25))),
    ]
    charts = accuracy_charts(curves, "rounds", 0.5)
    assert [chart.title for chart in charts] == ["IID <k2>", "non-IID"]
    assert [[(line.x, line.y) for line in chart.series] for chart in charts] == [
        [([1, 10], [0.0, 100.0]), ([5, 10], [50.0, 75.0])],
        [([5, 10], [50.0, 25.0])],
    ]
    colours = [[line.colour for line in chart.series] for chart in charts]
    assert colours[0][0] == colours[1][0] != colours[0][1]
    text = small_multiples_svg(charts, 7.16)
    assert text == small_multiples_svg(charts, 7.16)
    lines = {
        group.get("id", ""): path.get("d", "")
        for group in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}g")
        for path in group
        if group.get("id", "").startswith("panel-")
    }
    assert set(lines) == {"panel-0-0", "panel-0-1", "panel-1-0"}
    (_, bottom), (_, top) = ends(lines["panel-0-0"])
    at = [bottom + (top - bottom) * share for share in (0.5, 0.75, 0.25)]  # shares of 0 to 100 %
    assert [y for _, y in ends(lines["panel-0-1"])] == pytest.approx([at[0], at[1]], abs=0.01)
    assert "<!-- IID &lt;k2&gt; -->" in text or "<!-- IID <k2> -->" in text


def ends(path: str) -> list[tuple[float, float]]:
    """The points of a path of straight lines."""
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", path)]
    return list(zip(numbers[0::2], numbers[1::2], strict=True))


def test_a_run_that_is_not_fit_is_in_no_table_of_a_paper_and_is_told(tmp_path: Path) -> None:
    finished(tmp_path, "a", 1)
    finished(tmp_path, "b", 2)
    path = tmp_path / "points" / "b"
    outcome = read_outcome(path, "b")
    assert outcome is not None
    write_outcome(path, replace(outcome, unfit=("pi2: coverage 90.0 %",)))
    assert [run.folder.name for run in finished_runs(tmp_path)] == ["a"]
    done = roambench("results", str(tmp_path), "--paper", "dam", cwd=tmp_path)
    assert "left out: b: not fit: pi2: coverage 90.0 %" in done.stderr
    write_outcome(tmp_path / "points" / "a", PointEnd("a", outcome.figures, without=("pi3",)))
    with pytest.raises(RunError, match="no finished run is fit: with fewer boards: without pi3"):
        finished_runs(tmp_path)
