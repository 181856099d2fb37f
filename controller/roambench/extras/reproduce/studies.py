"""Reproduce studies: run what is open of their sweeps, write their pages."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.errors import ConfigError, RunError
from roambench.extras.papers.finished_runs import stopped_runs
from roambench.extras.reproduce.catalogue import Catalogue, Study
from roambench.extras.reproduce.figures_csv import Rows, differences, figures_of, renew
from roambench.extras.reproduce.scale import Scale
from roambench.extras.reproduce.study_page import study_page
from roambench.extras.reproduce.verdicts import renew_page, unfit_folder
from roambench.fleet.fork_server import ForkServer
from roambench.report.report import write_text
from roambench.runner.screen import in_any_case, say, warn
from roambench.runs.database import naming
from roambench.study.sweep.inputs import absent_inputs
from roambench.study.sweep.points import Point, points_of, rows_beside
from roambench.study.sweep.pool import fork_server
from roambench.study.sweep.session_notes import options_of
from roambench.study.sweep.sweep_file import SweepFile, read_sweep
from roambench.study.sweep.sweep_folder import SweepFolder, described_outcome
from roambench.study.sweep.sweep_runner import NothingFinished, RunsFailed, run_sweep, tabulate

#: Keys that change no figure of a study.
_SAME_FIGURES: Final = frozenset(
    {"learning.data_path", "learning.download", "simulated.backend", "simulated.workers"}
)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A reproduction: `catalogue` was read from `path`; runs go to a folder of each study below `out`,
    pages to `pages`. `overrides` and `trace_file` as for a sweep. Figures go to the files in the
    folder `verdicts`, if any; with `check` they are compared with what these have. `finished`: nothing runs,
    and pages are of the runs that have finished."""

    catalogue: Catalogue
    path: Path
    scale: Scale
    out: Path
    pages: Path
    overrides: tuple[str, ...] = ()
    trace_file: Path | None = None
    verdicts: Path | None = None
    check: bool = False
    finished: bool = False


@dataclass(frozen=True, slots=True)
class _Work:
    """A study's sweep, read; `sweep` was read with the options of the command."""

    study: Study
    sweep: SweepFile
    points: list[Point]
    folder: Path


def reproduce(
    choice: Reproduction, names: Sequence[str], *, jobs: int, console: Console
) -> tuple[dict[str, Path], list[str]]:
    """Run what is open of each study's sweep, then write its page, then keep the figures; gives the pages by
    study, and lines on what failed: that study's page is of the other runs, and the same command goes on. All
    studies with this scale where no names are given. ConfigError, with all mistakes of all studies, before
    anything runs; RunError where nothing is there to make a page of."""
    work = _prepared(choice, names)
    pages, figures = dict[str, Path](), dict[str, dict[str, Rows]]()
    failed, nothing = list[str](), list[str]()
    with fork_server(choice.out) as server:  # loaded once for all: 5 s of CPU, while all cores wait
        for number, one in enumerate(work, start=1):
            name = one.study.name
            say(console, f"study {number} of {len(work)}: {one.study.title}")
            try:
                _run(choice, one, server, jobs=jobs, console=console)
                whole = True
            except NothingFinished:
                nothing.append(name)
                continue
            except RunsFailed as error:
                failed += [f"{name}: {line}" for line in str(error).splitlines()]
                whole = False
            try:
                made = _page(choice, one, console)
            except RunError as error:
                if whole:
                    raise
                failed.append(str(error))
                continue
            pages[name], found = made
            if whole or choice.finished:
                figures[name] = found
    if nothing:
        sentence = f"{choice.out}: no run has finished at {choice.scale} of {', '.join(nothing)}"
        if not pages and not failed:
            raise RunError(sentence)
        with in_any_case(console):
            say(console, sentence)
    if choice.verdicts is not None:
        failed += _keep(choice, choice.verdicts, figures)
    return pages, failed


def _prepared(choice: Reproduction, names: Sequence[str]) -> list[_Work]:
    """The sweeps of the studies; ConfigError has all that is wrong with them, with what they read and with
    the folder of the figures."""
    problems, work = _mistakes(choice), list[_Work]()
    all_of_scale = [study.name for study in choice.catalogue.studies if study.sweep(choice.scale) is not None]
    for name in dict.fromkeys(names or all_of_scale):
        try:
            work.append(_read(choice, choice.catalogue.study(name), of_all=not names))
        except ConfigError as error:
            problems += error.problems
    if not choice.finished:
        problems += absent_inputs(
            point for one in work for point in one.points if not _is_there(point, one.folder)
        )
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return work


def _mistakes(choice: Reproduction) -> list[str]:
    """Mistakes of options that are of no single study."""
    if choice.verdicts is None:
        return ["--check: expected --verdicts DIR, the folder to compare with"] if choice.check else []
    free = ", ".join(sorted(_SAME_FIGURES))
    keys = [text.partition("=")[0].strip() for text in choice.overrides]
    problems = [
        f"--set {key}: expected none with --verdicts, but of {free}: kept figures are those of the sweep's "
        "file"
        for key in keys
        if key not in _SAME_FIGURES
    ]
    return problems + unfit_folder(choice.verdicts, choice.catalogue)


def _read(choice: Reproduction, study: Study, *, of_all: bool) -> _Work:
    """The study's sweep at this scale; ConfigError has its mistakes."""
    scale, sweep = choice.scale, study.sweep(choice.scale)
    if sweep is None:
        scales = ", ".join(scale for scale in Scale if study.sweep(scale) is not None)
        raise ConfigError([f"{study.name}: no sweep at scale {scale}: expected one of {scales}"])
    path = choice.path.parent / sweep.file
    if sweep.trace and choice.trace_file is None:
        why = f"{study.name}: at {scale} it runs on a recorded trace"
        raise ConfigError([f"{why}: expected --trace {sweep.trace}; {path} has how that is made"])
    trace_file = choice.trace_file if sweep.trace or not of_all else None
    if choice.verdicts is not None and trace_file and not sweep.trace:
        why = f"{study.name}: --trace: expected none with --verdicts at {scale}"
        raise ConfigError([f"{why}: figures are those of the sweep's own movement"])
    file = read_sweep(path, choice.overrides, trace_file)
    points = points_of(file)
    rows_beside(file, points)
    return _Work(study, file, points, choice.out / f"{study.name}-{scale}")


def _run(choice: Reproduction, one: _Work, server: ForkServer, *, jobs: int, console: Console) -> None:
    """Run what is open of the study's sweep, or only tabulate it."""
    if choice.finished:
        tabulate(one.sweep, out=one.folder, console=console)
        return
    if shared := _share(one.points, one.folder):
        say(console, f"{count(shared, 'run')} of other studies")
    run_sweep(one.sweep, jobs=jobs, out=one.folder, console=console, server=server)


def _page(choice: Reproduction, one: _Work, console: Console) -> tuple[Path, dict[str, Rows]]:
    """Write the study's page and curves."""
    name, folder = f"{one.study.name}-{choice.scale}", SweepFolder(one.folder)
    page = choice.pages / f"{name}.md"
    curves = page.with_suffix(".svg")
    made = study_page(
        choice.catalogue,
        one.study,
        choice.scale,
        one.folder,
        one.sweep.metrics,
        curves_name=curves.name,
        options=options_of(one.sweep),
        runs_in_all=len(one.points),
        stopped=stopped_runs(folder, one.points, partial(warn, console)) if choice.finished else (),
    )
    write_text(page, made.text)
    try:
        if drawing := made.curves:
            write_text(curves, drawing)
    except RunError as error:  # the other studies do without, too
        say(console, f"{curves}: not drawn: {error}")
    with in_any_case(console):
        say(console, str(page))
    day = _day(folder, one.points)
    return page, figures_of(made, one.study.name, choice.scale, day, len(one.points))


def _day(folder: SweepFolder, points: Sequence[Point]) -> str:
    """The UTC day on which the last of these runs ended, as the runs tell it: files may have been copied."""
    ends = []
    for point in points:
        outcome = folder.outcome_of(point)
        if outcome is not None and outcome.finished:
            if outcome.ended:
                ends.append(datetime.fromisoformat(outcome.ended).astimezone(UTC))
            elif outcome.began:
                began = datetime.fromisoformat(outcome.began).astimezone(UTC)
                ends.append(began + timedelta(seconds=outcome.wall_s))
            else:  # an older version did not note it
                written = (folder.folder_of(point) / "result.json").stat().st_mtime
                ends.append(datetime.fromtimestamp(written, UTC))
    return max(ends).date().isoformat()


def _keep(choice: Reproduction, folder: Path, figures: dict[str, dict[str, Rows]]) -> list[str]:
    """Renew the figures of each study in `folder`; with `check` give a line for each that differs."""
    if choice.check:
        return [
            line for study, rows in figures.items() for line in differences(folder, study, choice.scale, rows)
        ]
    if problems := unfit_folder(folder, choice.catalogue):  # it may have changed meanwhile
        raise RunError("\n".join(problems))
    for study, rows in figures.items():
        renew(folder, study, choice.scale, rows)
    renew_page(folder, choice.catalogue)
    return []


def _is_there(point: Point, folder: Path) -> bool:
    """Return whether the point has finished, here or in another study, with the files that are there now."""
    mine = SweepFolder(folder)
    if mine.folder_of(point).exists():
        return not mine.is_open(point)
    theirs = _elsewhere(point, folder)
    return theirs is not None and not SweepFolder(theirs.parents[1]).is_open(point)


def _elsewhere(point: Point, folder: Path) -> Path | None:
    """The folder of another study's run that is this point, to the last key, and finished."""
    for theirs in sorted(folder.parent.glob(f"*/points/{glob.escape(point.folder_name)}")):
        outcome = described_outcome(theirs, point.key)
        if outcome is not None and outcome.finished:
            return theirs
    return None


def _share(points: Sequence[Point], folder: Path) -> int:
    """Copy finished runs of other studies that are these points; returns how many."""
    shared = 0
    for point in points:
        mine = SweepFolder(folder).folder_of(point)
        if mine.exists() or (theirs := _elsewhere(point, folder)) is None:
            continue
        with naming(folder):
            copied = mine.with_name(f".{mine.name}")
            shutil.rmtree(copied, ignore_errors=True)
            shutil.copytree(theirs, copied)
            copied.replace(mine)
        shared += 1
    return shared
