"""The points of a study in one folder: what is open is run, resumed or repeated, what is there is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from roambench.fleet.fork_server import ForkServer
from roambench.runner.screen import detail, in_any_case, say
from roambench.runner.stopping import STOPPING, run_async
from roambench.runs.database import naming
from roambench.runs.lock import WriterLock
from roambench.study.campaign.campaign import Campaign, CampaignOptions, campaign_in, lease_of, run_campaign
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignRow
from roambench.study.campaign.cooling import Thermometer
from roambench.study.sweep.campaign_point import CampaignPoint, ended_of, is_done
from roambench.study.sweep.inputs import refuse_absent_inputs
from roambench.study.sweep.left_runs import tell_which_begin_again
from roambench.study.sweep.points import Point
from roambench.study.sweep.pool import Listener, forks_of, run_points
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder

Made = TypeVar("Made")


def play(
    points: Sequence[Point],
    folder: SweepFolder,
    what: str,
    *,
    campaign: CampaignOptions,
    console: Console,
    begin: Callable[[Sequence[Point]], None],
    conclude: Callable[[], Made],
    jobs: int = 1,
    thermometer: Thermometer | None = None,
    server: ForkServer | None = None,
) -> Made:
    """Run every point that has not finished, or is not fit and may be tried again, in their order, then
    `conclude`. One at a time they are a `campaign`, on a bench under its lease from the first to the last.

    `what`: the study's name in its log and its lease. `begin` is called with the points to run. `server`
    forks points of other studies, too. ConfigError where a data set or a trace of theirs is missing or does
    not fit, RunError where another process plays in this folder; KeyboardInterrupt leaves what finished.
    """
    fleet, report = points[0].fleet, partial(say, console)

    def left() -> list[Point]:
        return [point for point in points if not is_done(folder, point, campaign.tries)]

    if is_new := not folder.path.exists():
        refuse_absent_inputs(points)  # before a folder is made that would stay
    with naming(folder.path):
        folder.path.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(folder.path / "lock")
    try:
        folder.rename_of_fewer_keys(points)
        if not is_new:
            refuse_absent_inputs(filter(folder.is_open, points))  # before anything finished is put aside
        folder.put_aside_of_other_inputs(points, report)
        todo = left()
        if not folder.fresh:
            tell_which_begin_again(todo, folder, report)
        begin(todo)
        with campaign_in(
            folder.path,
            what,
            fleet,
            campaign,
            points=len(points),
            open_points=lambda: len(left()),
            report=report,
            bench=folder.bench,
            thermometer=thermometer,
        ) as session:
            if todo:
                with (
                    forks_of(todo, folder, server) as forks,
                    _Shown(console, folder, len(points), len(points) - len(todo)) as shown,
                ):
                    if jobs == 1:
                        tasks = [CampaignPoint(point, folder, shown.report, forks) for point in todo]
                        ours = lease_of(fleet, what, campaign.wait_s, session.log, folder.bench)
                        run_campaign(session, tasks, ours, report)
                    else:
                        _at_once(todo, jobs, folder, session, campaign.tries, shown.report, forks)
            return conclude()
    except KeyboardInterrupt:
        finished = sum(o is not None and o.finished for o in map(folder.outcome_of, points))
        with in_any_case(console):
            say(
                console,
                f"interrupted: {finished} of {len(points)} runs are kept; the same command goes on from here",
            )
        raise
    finally:
        lock.release()


def _at_once(
    points: Sequence[Point],
    jobs: int,
    folder: SweepFolder,
    session: Campaign,
    tries: int,
    shown: Listener,
    server: ForkServer | None,
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
        run_async(run_points(todo, jobs, folder, heard, server=server), STOPPING)
        todo = [point for point in todo if _is_worth_another(folder, point, tries)]


def _is_worth_another(folder: SweepFolder, point: Point, tries: int) -> bool:
    outcome = folder.outcome_of(point)
    fit = outcome is not None and outcome.finished and not outcome.unfit
    return not fit and len(folder.tries_of(point)) < tries


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
