"""The run that an earlier session of a sweep left of a point: one to go on with, or to keep apart."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from roambench.contract.errors import RoambenchError
from roambench.runner.agents.checkpoints import PUT_BACK
from roambench.runner.bench_options import BenchOptions
from roambench.runner.foreign_code import ForeignCode, digest_of
from roambench.runner.places.place import Place
from roambench.runner.places.table import place_of
from roambench.runner.resuming import Unfinished, has_recorded, left_in
from roambench.runs.database import naming
from roambench.runs.folder import RunFolder
from roambench.runs.groups import Group, run_folders
from roambench.runs.lock import WriterLock, is_held
from roambench.study.sweep.points import Point
from roambench.study.sweep.sweep_folder import (
    PointEnd,
    SweepFolder,
    attempt_of_run,
    forget_old_runs,
    next_attempt,
    write_outcome,
)


def left_of(place: Place, folder: Path, key: str, code: str, report: Callable[[str], None]) -> Unfinished:
    """Return what the point's folder holds of its run: one to go on with, or one that was finished already
    and had no result yet. One that recorded steps and cannot go on becomes an attempt of the point, and
    `report` gets the reason; anything else is removed. RunError where another process writes it."""
    group, reasons = Group(folder / "runs"), list[str]()
    found = left_in(place, group, reasons.append)
    for system, path in found.finished.items():
        if digest_of([ForeignCode(**one) for one in RunFolder.open(path).info.code]) == code:
            return Unfinished({}, {system: path})
    # On a bench the next point's preflight ends what is left there of a dead one.
    if found.to_resume and not place.kind.has_file:
        return Unfinished(found.to_resume, {})
    paths = list(run_folders(group.path))
    for path in paths:
        WriterLock(path / "lock").release()
    if reasons or any(map(_has_recorded, paths)):
        why = "; ".join(reasons).replace(f"; {PUT_BACK}", "")
        _keep(folder, PointEnd(key, {}, why or _of_another(place), counts=False), report)
    shutil.rmtree(group.path, ignore_errors=True)
    return Unfinished({}, {})


def _keep(folder: Path, end: PointEnd, report: Callable[[str], None]) -> None:
    """Move the point's run to its attempts: to the one that failed in it, else to one that ends so."""
    failed = attempt_of_run(folder, end.key)
    aside = failed or next_attempt(folder)
    if failed is None and (aside / "runs").exists():  # of a session that died before it wrote the result
        write_outcome(aside, end)
        aside = next_attempt(folder)
    with naming(aside):
        aside.mkdir(parents=True, exist_ok=True)
        if failed is None:
            write_outcome(aside, end)
        (folder / "runs").replace(aside / "runs")
    forget_old_runs(folder)
    report(f"begins again; what it recorded is kept in {aside / 'runs'}: {end.reason}")


def _of_another(place: Place) -> str:
    whole = "a run on a bench is measured as a whole"
    return whole if place.kind.has_file else "it was begun with other settings, or finished with other code"


def _has_recorded(path: Path) -> bool:
    try:
        return has_recorded(RunFolder.open(path))
    except RoambenchError:
        return True  # what cannot be read is not ours to remove


def tell_which_begin_again(
    points: Iterable[Point], sweep: SweepFolder, report: Callable[[str], None]
) -> None:
    """Report each of the points whose run was interrupted and cannot go on. What keeps one from being looked
    at is left to its own process."""
    for point in points:
        folder, reasons = sweep.folder_of(point), list[str]()
        try:
            if (
                sweep.outcome_of(point) is not None
                or is_held(folder / "lock")
                or not any(run_folders(folder / "runs"))
            ):
                continue
            place = place_of(point.experiment, point.fleet, sweep.bench or BenchOptions())
            left_of(place, folder, point.key, point.code, reasons.append)
        except Exception:
            continue
        for why in reasons:
            report(f"{point.label} {why}")
