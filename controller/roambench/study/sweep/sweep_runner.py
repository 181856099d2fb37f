"""A sweep from its file to its table: what is open is run, what is there is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.errors import RunError
from roambench.fleet.fork_server import ForkServer
from roambench.runner.bench_options import BenchOptions
from roambench.runner.screen import SWEEP_PHASES, in_any_case, phase, print_json, say
from roambench.study.campaign.campaign import ONE_TRY, CampaignOptions
from roambench.study.sweep.inputs import refuse_absent_inputs
from roambench.study.sweep.metrics import usual
from roambench.study.sweep.play import play
from roambench.study.sweep.points import Point, own_metrics, points_of, rows_beside
from roambench.study.sweep.results import SweepTable, table_of
from roambench.study.sweep.results_files import print_table, sweep_document, write_results
from roambench.study.sweep.session_notes import note_session
from roambench.study.sweep.sweep_file import SweepFile
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder


class RunsFailed(RunError):
    """Some runs of a sweep failed; the table is of the others."""


class NothingFinished(RunError):
    """No run of a sweep has ended."""


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
    server: ForkServer | None = None,
) -> None:
    """Run every point that has not finished, or is not fit and may be tried again, then write and print the
    table. One at a time they are a `campaign`, on a `bench` under its lease from the first to the last.
    A `server` forks points of other sweeps, too.

    Raises ConfigError before anything runs, RunsFailed at the end if points failed (they are tried again
    next time), RunError if another process runs this sweep. KeyboardInterrupt leaves what finished.
    """
    points = points_of(sweep)
    rows_beside(sweep, points)
    folder = SweepFolder(out, bench, fresh=fresh)

    def begin(todo: Sequence[Point]) -> None:
        phase(console, 2, SWEEP_PHASES, f"run {_counted(points, len(todo), min(jobs, len(todo)))}")
        if todo:
            note_session(folder, sweep, jobs=jobs)
            table, outcomes = _tabled(sweep, points, folder)
            write_results(folder, table, points, outcomes)  # of which runs it is, should it not end

    def conclude() -> None:
        phase(console, SWEEP_PHASES, SWEEP_PHASES, "table")
        _conclude(sweep, points, folder, console, write=True, as_json=as_json)

    play(
        points,
        folder,
        f"sweep {sweep.path.name}",
        campaign=campaign,
        console=console,
        begin=begin,
        conclude=conclude,
        jobs=jobs,
        server=server,
    )


def tabulate(sweep: SweepFile, *, out: Path, console: Console) -> None:
    """Write and print the table of what there is; nothing is run. Folders that an older version named get
    their names. NothingFinished where there is nothing, RunsFailed as `run_sweep`."""
    points, folder = points_of(sweep), SweepFolder(out)
    if out.is_dir():
        folder.rename_of_fewer_keys(points)
    if not any(map(folder.outcome_of, points)):
        raise NothingFinished(f"{out}: no run of this sweep has finished")
    _conclude(sweep, points, folder, console, write=True, as_json=False)


def show_sweep(sweep: SweepFile, *, out: Path, console: Console, as_json: bool = False) -> None:
    """Print the table of what there is; nothing is run or written."""
    points = points_of(sweep)
    _conclude(sweep, points, SweepFolder(out), console, write=False, as_json=as_json)


def check_sweep(sweep: SweepFile, *, out: Path, console: Console, as_json: bool = False) -> None:
    """Check the file and tell which runs it asks for and which are there already."""
    points = points_of(sweep)
    beside = rows_beside(sweep, points)
    folder = SweepFolder(out)
    outcomes = [folder.outcome_of(point) for point in points]
    refuse_absent_inputs(filter(folder.is_open, points))
    if as_json:
        print_json(
            sweep_document(folder, table_of(points, outcomes, sweep.metrics, beside), points, outcomes)
        )
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
    seeds = count(len({point.seed for point in points}), "seed")
    text = f"{count(len(points), 'run')}: {count(rows, 'point')} of the grid, {seeds}"
    text += f"; {len(points) - todo:,} finished already, {todo:,} to run"
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
    table, outcomes = _tabled(sweep, points, folder)
    with in_any_case(console):
        if as_json:
            print_json(sweep_document(folder, table, points, outcomes))
        else:
            print_table(table, console)
        if write:
            for path in write_results(folder, table, points, outcomes):
                say(console, str(path))
    failed = defaultdict[str, list[str]](list)
    for point, outcome in zip(points, outcomes, strict=True):
        if outcome is not None and not outcome.finished:
            failed[outcome.reason].append(point.label)
    if failed:
        lines = [f"{first}{_and_more(more)}: {reason}" for reason, (first, *more) in failed.items()]
        runs = sum(map(len, failed.values()))
        raise RunsFailed("\n".join([*lines, f"{runs} of {len(points)} runs failed"]))


def _and_more(labels: Sequence[str]) -> str:
    return f" and {count(len(labels), 'more run')}" if labels else ""


def _tabled(
    sweep: SweepFile, points: Sequence[Point], folder: SweepFolder
) -> tuple[SweepTable, list[PointEnd | None]]:
    outcomes = [folder.outcome_of(point) for point in points]
    metrics = sweep.metrics or usual(own_metrics(points))
    return table_of(points, outcomes, metrics, rows_beside(sweep, points)), outcomes
