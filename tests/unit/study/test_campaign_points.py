"""A campaign's points on disk: tries that survive a kill, attempts kept aside, tables that tell doubts."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from rich.console import Console

from roambench.cli.main import main
from roambench.contract.errors import ConfigError, RunError
from roambench.experiment.sections import Experiment
from roambench.runner.bench_options import BenchOptions
from roambench.runner.places.bench import BenchPlace
from roambench.runner.places.table import place_of
from roambench.runs.info import RunInfo, RunState
from roambench.study.campaign.campaign import CampaignOptions, Ended, campaign_in, run_campaign
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignLog, End, read_campaign
from roambench.study.campaign.cooling import Clock, Cooled
from roambench.study.campaign.disk_room import GIB, MOST_S, DiskRoom
from roambench.study.sweep.campaign_point import CampaignPoint, is_done
from roambench.study.sweep.left_runs import left_of
from roambench.study.sweep.metrics import METRICS
from roambench.study.sweep.points import Point, points_of
from roambench.study.sweep.results import table_of
from roambench.study.sweep.results_files import print_table, write_results
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder, write_outcome

FIGURES = dict.fromkeys(METRICS, 1.0)


def points(folder: Path, count: int = 1, fleet: str = "rehearsal") -> list[Point]:
    (folder / "s.toml").write_text(
        f'fleet = "{fleet}"\nmetrics = ["final_accuracy"]\n[experiment]\nsystems = ["mohawk"]\n'
        f"trace = {{ steps = 4 }}\nfleet = {{ agents = 4 }}\n[grid]\nseeds = {count}\n"
    )
    return points_of(read_sweep(folder / "s.toml"))


def ended(point: Point, *unfit: str, reason: str = "", without: tuple[str, ...] = ()) -> PointEnd:
    figures = {} if reason else FIGURES
    return PointEnd(
        point.key, figures, reason, unfit=unfit, without=without, boards=("pi1",) if unfit else ()
    )


@dataclass
class Played:
    """A point whose tries end as was written down, without a process."""

    inner: CampaignPoint
    ends: list[PointEnd]
    began: list[int] = field(default_factory=list)

    name = property(lambda self: self.inner.name)
    label = property(lambda self: self.inner.label)
    folder = property(lambda self: self.inner.folder)
    tried = property(lambda self: self.inner.tried)
    attempt = property(lambda self: self.inner.attempt)

    def put_aside(self, *, counts: bool) -> None:
        self.inner.put_aside(counts=counts)

    def cooled(self, cooled: Cooled) -> None:
        self.inner.cooled(cooled)

    def run(self, left_out: tuple[str, ...]) -> Ended:
        self.began.append(self.attempt)
        path = self.inner.sweep.prepare(self.inner.point, 0)
        (path / "runs" / "r").mkdir(parents=True, exist_ok=True)
        (path / "runs" / "r" / "run.json").write_text(str(self.attempt))
        outcome = self.ends.pop(0)
        write_outcome(path, outcome)
        end = End.FAILED if outcome.reason else End.UNFIT if outcome.unfit else End.FINISHED
        return Ended(end, outcome.reason or "; ".join(outcome.unfit), outcome.boards)


def play(out: Path, point: Point, tries: int, ends: list[PointEnd]) -> Played:
    folder = SweepFolder(out)
    played = Played(CampaignPoint(point, folder, lambda point, outcome: None), ends)
    out.mkdir(exist_ok=True)
    with campaign_in(
        out,
        "a test",
        point.fleet,
        CampaignOptions(heard=lambda row: None, tries=tries),
        points=1,
        open_points=lambda: int(not is_done(folder, point, tries)),
        report=lambda line: None,
    ) as session:
        run_campaign(session, [played], lambda report: nullcontext(), lambda line: None)
    return played


def test_an_unfit_point_is_repeated_and_its_attempts_are_kept_with_their_reasons(tmp_path: Path) -> None:
    (point,) = points(tmp_path)
    out = tmp_path / "out"
    played = play(out, point, 3, [ended(point, "coverage 90 %"), ended(point, reason="gone"), ended(point)])
    assert played.began == [1, 2, 3]
    folder = SweepFolder(out)
    assert is_done(folder, point, 3)
    path = folder.folder_of(point)
    first = json.loads((path / "attempts/001/result.json").read_text())
    assert first["unfit"] == ["coverage 90 %"]
    assert (path / "attempts/001/runs/r/run.json").read_text() == "1"
    assert json.loads((path / "attempts/002/result.json").read_text())["reason"] == "gone"
    assert (path / "runs/r/run.json").read_text() == "3"
    rows = read_campaign(out)
    assert [row.end for row in rows if row.event is CampaignEvent.POINT_ENDED] == [
        End.UNFIT, End.FAILED, End.FINISHED
    ]  # fmt: skip
    assert (rows[0].event, rows[-1].event, rows[-1].end) == (
        CampaignEvent.BEGAN, CampaignEvent.ENDED, End.FINISHED
    )  # fmt: skip
    assert (rows[0].open_points, rows[-1].open_points) == (1, 0)


def test_the_tries_of_a_killed_session_count_and_an_unfit_point_stays_with_its_doubt(tmp_path: Path) -> None:
    (point,) = points(tmp_path)
    out = tmp_path / "out"

    played = [ended(point, "coverage 90 %")]
    with pytest.raises(IndexError):  # nothing more was written down: the session dies in its second try
        play(out, point, 3, played)
    assert not is_done(SweepFolder(out), point, 3)
    again = play(out, point, 3, [ended(point, "coverage 91 %"), ended(point, "coverage 92 %")])
    assert again.began == [2, 3]
    assert is_done(SweepFolder(out), point, 3)
    assert not is_done(SweepFolder(out), point, 4)  # who asks for more tries gets them
    assert [row.event for row in read_campaign(out) if row.event is CampaignEvent.RESUMED]


def test_a_kill_while_an_attempt_is_put_aside_counts_it_once(tmp_path: Path) -> None:
    (point,) = points(tmp_path)
    folder = SweepFolder(tmp_path / "out")
    path = folder.prepare(point, 0)
    write_outcome(path, ended(point, "coverage"))
    (path / "attempts" / "001" / "runs").mkdir(parents=True)  # killed before result.json was moved
    assert len(folder.tries_of(point)) == 1
    folder.put_aside(point)
    assert len(folder.tries_of(point)) == 1
    assert folder.attempt_of(point) == 2


@pytest.mark.parametrize(("state", "stays"), [(RunState.INTERRUPTED, True), (RunState.FINISHED, False)])
def test_the_run_of_a_point_that_failed_stays_where_it_can_go_on(
    tmp_path: Path, state: RunState, stays: bool
) -> None:
    (point,) = points(tmp_path, fleet="simulated")
    folder = SweepFolder(tmp_path / "out")
    path = folder.prepare(point, 0)
    run = path / "runs" / "mohawk"
    run.mkdir(parents=True)
    info = RunInfo("r", "mohawk", 0, "", "simulated", (), state=state)
    (run / "run.json").write_text(info.to_json())
    write_outcome(path, ended(point, reason="no order was fruitful"))
    folder.put_aside(point)
    assert run.exists() == stays
    assert (path / "attempts/001/runs/mohawk").exists() != stays


def test_a_run_that_failed_and_cannot_go_on_is_kept_with_the_attempt_that_failed(tmp_path: Path) -> None:
    (point,) = points(tmp_path, fleet="simulated")
    folder = SweepFolder(tmp_path / "out")
    path, said = folder.prepare(point, 0), list[str]()
    run = path / "runs" / "mohawk"
    run.mkdir(parents=True)
    info = RunInfo("r", "mohawk", 0, "", "simulated", (), state=RunState.INTERRUPTED)
    (run / "run.json").write_text(info.to_json())
    write_outcome(path, ended(point, reason="no order was fruitful"))
    folder.put_aside(point)
    place = place_of(point.experiment, point.fleet, BenchOptions())
    assert left_of(place, path, point.key, point.code, said.append).to_resume == {}
    assert (path / "attempts/001/runs/mohawk").exists()
    assert not run.exists()
    assert "attempts/001/runs" in said[0]
    assert [end.reason for end in folder.tries_of(point)] == ["no order was fruitful"]
    assert folder.attempt_of(point) == 2


def test_a_start_that_does_not_count_is_no_try(tmp_path: Path) -> None:
    (point,) = points(tmp_path)
    folder = SweepFolder(tmp_path / "out")
    write_outcome(folder.prepare(point, 0), ended(point, reason="pi1 was off"))
    folder.put_aside(point, counts=False)
    assert folder.tries_of(point) == []
    assert folder.attempt_of(point) == 2


def test_of_many_attempts_only_the_latest_keep_their_runs(tmp_path: Path) -> None:
    (point,) = points(tmp_path)
    out = tmp_path / "out"
    play(out, point, 8, [ended(point, f"no {n}") for n in range(8)])
    attempts = sorted((SweepFolder(out).folder_of(point) / "attempts").iterdir())
    assert [(path / "runs").exists() for path in attempts] == [False, False, True, True, True, True, True]
    assert all((path / "result.json").exists() for path in attempts)


def test_what_is_not_sure_is_in_no_mean_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = points(tmp_path, 3)
    figures = [
        replace(ended(point), figures={**FIGURES, "final_accuracy": n / 10}) for n, point in enumerate(found)
    ]
    outcomes = [
        figures[0],
        replace(figures[1], unfit=("pi2: coverage 90.0 %",)),
        replace(figures[2], without=("pi3",)),
    ]
    table = table_of(found, outcomes, ["final_accuracy"])
    (row,) = table.rows
    assert (row.finished, row.sure, row.metrics["final_accuracy"].mean) == (3, True, 0.0)
    print_table(table, Console(width=200))
    shown = capsys.readouterr().out
    assert f"! {found[1].label}: not fit: pi2: coverage 90.0 %" in shown
    assert f"! {found[2].label}: with fewer boards: without pi3" in shown
    folder = SweepFolder(tmp_path)
    write_results(folder, table, found, outcomes)
    document = json.loads((tmp_path / "table.json").read_text())
    assert [point["doubts"] for point in document["points"]][1] == ["not fit: pi2: coverage 90.0 %"]

    (row,) = table_of(found[1:2], outcomes[1:2], ["final_accuracy"]).rows
    assert (row.sure, row.metrics["final_accuracy"].mean) == (False, 0.1)
    print_table(table_of(found[1:2], outcomes[1:2], ["final_accuracy"]), Console(width=200))
    assert "10.0 % ?" in capsys.readouterr().out


def test_without_room_a_campaign_waits_and_goes_on_or_says_why_not(tmp_path: Path) -> None:
    free = [4, 4, 7]
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    clock = Clock(lambda: passed[0], sleep)
    log = CampaignLog(tmp_path, lambda row: None)
    room = DiskRoom(tmp_path, 5 * GIB, log, lambda line: None, GIB, lambda folder: free.pop(0) * GIB, clock)
    room.wait()
    assert free == []
    rows = read_campaign(tmp_path)
    assert [row.event for row in rows] == [CampaignEvent.DISK_LOW, CampaignEvent.DISK_ENOUGH]
    assert (rows[0].free_bytes, rows[0].wanted_bytes, rows[1].wall_s) == (4 * GIB, 6 * GIB, passed[0])
    room.free = lambda folder: GIB
    with pytest.raises(RunError, match="no room was made within 24 h"):
        room.wait()
    assert passed[0] >= MOST_S
    room.keep_free_bytes = 0
    room.wait()


def test_the_largest_point_so_far_is_what_the_next_one_may_take(tmp_path: Path) -> None:
    for name, size in (("a", 1000), ("b", 5000), ("b/attempts/001", 9000)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "records").write_bytes(b"x" * size)
    room = DiskRoom(tmp_path, GIB, CampaignLog(tmp_path, lambda row: None), lambda line: None)
    for name in ("a", "b"):
        room.ended(tmp_path / name)
    assert 5000 <= room.largest_bytes < 9000 + 5000


BENCH = """
name = "b"
[controller]
address = "10.0.0.1"
[[hosts]]
name = "pi1"
address = "10.0.0.11"
meter.driver = "none"
[[hosts]]
name = "pi2"
address = "10.0.0.12"
meter.driver = "none"
[[hosts]]
name = "pi3"
address = "10.0.0.13"
tags = ["spare"]
meter.driver = "none"
"""


def on_bench(folder: Path, fleet: str) -> str:
    (folder / "on").mkdir(exist_ok=True)
    (folder / "on" / "s.toml").write_text(f'fleet = "{fleet}"\n[experiment]\nsystems = ["mohawk"]\n')
    return read_sweep(folder / "on" / "s.toml").fleet


def test_the_bench_of_a_sweep_is_beside_its_file(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text(BENCH)
    assert on_bench(tmp_path, "bench:../bench.toml") == f"bench:{(tmp_path / 'bench.toml').resolve()}"
    with pytest.raises(
        ConfigError, match=r"fleet: expected the file of a bench, .*/on/bench\.toml does not exist"
    ):
        on_bench(tmp_path, "bench:bench.toml")


def test_a_bench_carries_one_run_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bench.toml").write_text(BENCH)
    on_bench(tmp_path, "bench:../bench.toml")
    with pytest.raises(SystemExit) as ended:
        main(["sweep", str(tmp_path / "on" / "s.toml"), "--jobs", "2", "-o", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert "--jobs 2: expected 1: a bench carries one run at a time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "agents", "names", "fewer_by"),
    [
        (BenchOptions(), 3, ("pi1", "pi2", "pi3"), ()),
        (BenchOptions(spares_wait=True), 3, ("pi1", "pi2"), ()),
        (BenchOptions(spares_wait=True, left_out=("pi1",)), 2, ("pi2",), ("pi1",)),
        (BenchOptions(spares_wait=True, left_out=("pi1",)), 1, ("pi2",), ()),  # as many devices as without it
        (BenchOptions(("pi3",), spares_wait=True), 1, ("pi3",), ()),  # called for by its name
    ],
)
def test_who_plays_with_spares_that_wait_and_boards_left_out(
    tmp_path: Path, options: BenchOptions, agents: int, names: tuple[str, ...], fewer_by: tuple[str, ...]
) -> None:
    (tmp_path / "bench.toml").write_text(BENCH)
    experiment = Experiment.model_validate({"fleet": {"agents": agents}})
    place = BenchPlace.of(experiment, str(tmp_path / "bench.toml"), options)
    assert (place.names(9), place.fewer_by) == (names, fewer_by)
    assert place.without_meter == names
