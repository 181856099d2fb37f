"""A sweep from its file to its table: what is open is run, what is there is kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from roambench.contract.errors import RunError
from roambench.runner.bench_options import BenchOptions
from roambench.runner.screen import SWEEP_PHASES, detail, in_any_case, phase, print_json, say
from roambench.runner.stopping import STOPPING, run_async
from roambench.runs.database import naming
from roambench.runs.lock import WriterLock
from roambench.study.campaign.campaign import (
    ONE_TRY,
    Campaign,
    CampaignOptions,
    campaign_in,
    lease_of,
    run_campaign,
)
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignRow
from roambench.study.sweep.campaign_point import CampaignPoint, ended_of, is_done
from roambench.study.sweep.metrics import usual
from roambench.study.sweep.points import Point, own_metrics, points_of
from roambench.study.sweep.pool import Listener, run_points
from roambench.study.sweep.results import table_of
from roambench.study.sweep.results_files import print_table, sweep_document, write_results
from roambench.study.sweep.session_notes import note_session
from roambench.study.sweep.sweep_file import SweepFile
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder


def run_sweep(
    sweep: SweepFile,
    *,
    jobs: int,
    out: Path,
    console: Console,
    fresh: bool = False,
    campaign: CampaignOptions = ONE_TRY,
    bench: BenchOptions | None = None,
    as_json: bool = False,
) -> None:
    """Run every point that has not finished, or is not fit and may be tried again, then write and print the
    table. One at a time they are a `campaign`, on a `bench` under its lease from the first to the last.

    Raises ConfigError before anything runs, RunError at the end if points failed (they are tried again
    next time) or if another process runs this sweep. KeyboardInterrupt leaves what finished.
    """
    points = points_of(sweep)
    folder = SweepFolder(out, bench, fresh=fresh)
    report = partial(say, console)

    def open_points() -> int:
        return sum(not is_done(folder, point, campaign.tries) for point in points)

    with naming(out):
        out.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(out / "lock")
    try:
        folder.put_aside_of_other_inputs(points, report)
        todo = [point for point in points if not is_done(folder, point, campaign.tries)]
        phase(console, 2, SWEEP_PHASES, f"run {_counted(points, len(todo), min(jobs, len(todo)))}")
        if todo:
            note_session(folder, sweep, jobs=jobs)
        what = f"sweep {sweep.path.name}"
        with campaign_in(
            out,
            what,
            sweep.fleet,
            campaign,
            points=len(points),
            open_points=open_points,
            report=report,
            bench=bench,
        ) as session:
            if todo:
                with _Shown(console, folder, len(points), len(points) - len(todo)) as shown:
                    if jobs == 1:
                        tasks = [
                            CampaignPoint(point, folder, point.label, shown.report, lambda: None)
                            for point in todo
                        ]
                        ours = lease_of(sweep.fleet, what, campaign.wait_s, session.log, bench)
                        run_campaign(session, tasks, ours, report)
                    else:
                        _at_once(todo, jobs, folder, session, campaign.tries, shown.report)
            phase(console, SWEEP_PHASES, SWEEP_PHASES, "table")
            _conclude(sweep, points, folder, console, write=True, as_json=as_json)
    except KeyboardInterrupt:
        kept = sum(o is not None and o.finished for o in map(folder.outcome_of, points))
        line = f"interrupted: {kept} of {len(points)} runs are kept; the same command goes on from here"
        with in_any_case(console):
            say(console, line)
        raise
    finally:
        lock.release()


def _at_once(
    points: Sequence[Point], jobs: int, folder: SweepFolder, session: Campaign, tries: int, shown: Listener
) -> None:
    """Run `jobs` points at a time, on fleets without boards; failed and unfit ones are tried again after
    the others."""

    def heard(point: Point, outcome: PointEnd | None) -> None:
        shown(point, outcome)
        row = CampaignRow(
            CampaignEvent.POINT_BEGAN,
            point=point.folder_name,
            label=point.label,
            attempt=folder.attempt_of(point),
        )
        if outcome is not None:
            ended = ended_of(outcome)
            row = replace(
                row,
                event=CampaignEvent.POINT_ENDED,
                end=ended.end,
                reason=ended.reason,
                wall_s=ended.wall_s,
            )
        session.log.note(row)

    todo = list(points)
    while todo:
        for point in todo:
            folder.put_aside(point)
        session.disk.wait()
        run_async(run_points(todo, jobs, folder, heard), STOPPING)
        todo = [point for point in todo if _is_worth_another(folder, point, tries)]


def _is_worth_another(folder: SweepFolder, point: Point, tries: int) -> bool:
    outcome = folder.outcome_of(point)
    fit = outcome is not None and outcome.finished and not outcome.unfit
    return not fit and len(folder.tries_of(point)) < tries


def show_sweep(sweep: SweepFile, *, out: Path, console: Console, as_json: bool = False) -> None:
    """Print the table of what there is; nothing is run or written."""
    points = points_of(sweep)
    _conclude(sweep, points, SweepFolder(out), console, write=False, as_json=as_json)


def check_sweep(sweep: SweepFile, *, out: Path, console: Console, as_json: bool = False) -> None:
    """Check the file and tell which runs it asks for and which are there already."""
    points = points_of(sweep)
    folder = SweepFolder(out)
    outcomes = [folder.outcome_of(point) for point in points]
    if as_json:
        print_json(sweep_document(folder, table_of(points, outcomes, sweep.metrics), points, outcomes))
        return
    for point, outcome in zip(points, outcomes, strict=True):
        state = "open" if outcome is None else "finished" if outcome.finished else f"failed: {outcome.reason}"
        if outcome is not None and outcome.finished and outcome.changes:
            state = f"open: runs again, as since it finished {'; '.join(outcome.changes)}"
        say(console, f"{point.label}  {state}")
    todo = sum(outcome is None or not outcome.finished or bool(outcome.changes) for outcome in outcomes)
    say(console, _counted(points, todo, 0))


def _counted(points: Sequence[Point], todo: int, at_a_time: int) -> str:
    rows = len({repr(point.row) for point in points})
    text = f"{len(points)} runs: {rows} points of the grid, {len({point.seed for point in points})} seeds"
    text += f"; {len(points) - todo} finished already, {todo} to run"
    return text + (f", {at_a_time} at a time" if at_a_time else "")


def _conclude(
    sweep: SweepFile,
    points: Sequence[Point],
    folder: SweepFolder,
    console: Console,
    *,
    write: bool,
    as_json: bool,
) -> None:
    outcomes = [folder.outcome_of(point) for point in points]
    table = table_of(points, outcomes, sweep.metrics or usual(own_metrics(points)))
    with in_any_case(console):
        if as_json:
            print_json(sweep_document(folder, table, points, outcomes))
        else:
            print_table(table, console)
        if write:
            for path in write_results(folder, table, points, outcomes):
                say(console, str(path))
    failed = [
        f"{point.label}: {outcome.reason}"
        for point, outcome in zip(points, outcomes, strict=True)
        if outcome is not None and not outcome.finished
    ]
    if failed:
        raise RunError("\n".join([*failed, f"{len(failed)} of {len(points)} runs failed"]))


class _Shown:
    """A line per run that ended, and on a terminal a bar with what is running below them."""

    def __init__(self, console: Console, folder: SweepFolder, total: int, kept: int) -> None:
        self._console = console
        self._folder = folder
        self._total = total
        self._ended: set[str] = set()  # a point that is tried again counts once
        self._kept = kept
        self._running: list[Point] = []
        self._bar: Progress | None = None
        context: AbstractContextManager[object] = nullcontext()
        if console.is_terminal and not console.quiet:
            context = self._bar = Progress(
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.description}", markup=False),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=total, completed=kept)
        self._context = context
        self.report: Listener = self._report

    def __enter__(self) -> _Shown:
        self._context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)

    def _report(self, point: Point, outcome: PointEnd | None) -> None:
        if outcome is None:
            self._running.append(point)
            detail(self._console, f"{point.label}  begins: {self._folder.folder_of(point) / 'log.txt'}")
        else:
            self._running.remove(point)
            self._ended.add(point.key)
            done = self._kept + len(self._ended)
            line = Text(f"{done}/{self._total} {point.label}  ")
            if outcome.finished:
                line.append("finished")
            else:
                line.append("failed", "red").append(f": {outcome.reason}")
            if outcome.doubts:
                line.append("; ").append("; ".join(outcome.doubts), "yellow")
            self._console.print(line, soft_wrap=True)
        if self._bar is not None:
            running = ", ".join(f"{point.system} seed {point.seed}" for point in self._running)
            self._bar.update(self._task, completed=self._kept + len(self._ended), description=running)
