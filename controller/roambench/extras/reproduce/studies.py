"""Reproduce studies: run what is open of their sweeps, write their pages."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
from roambench.extras.reproduce.verdicts import renew_page
from roambench.fleet.fork_server import ForkServer
from roambench.report.report import write_text
from roambench.runner.screen import in_any_case, say
from roambench.runs.database import naming
from roambench.study.sweep.points import Point, points_of
from roambench.study.sweep.pool import fork_server
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import SweepFolder, read_outcome
from roambench.study.sweep.sweep_runner import run_sweep, tabulate

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


def reproduce(choice: Reproduction, names: Sequence[str], *, jobs: int, console: Console) -> dict[str, Path]:
    """Run what is open of each study's sweep, then write its page, then
    keep the figures; gives the pages by study. All studies with
    this scale where no names are given. ConfigError before anything runs, RunError where runs failed: the
    same command goes on."""
    chosen = [choice.catalogue.study(name) for name in names]
    if not names:
        chosen = [study for study in choice.catalogue.studies if study.sweep(choice.scale) is not None]
    problems = [
        f"{study.name}: no sweep at scale {choice.scale}: expected one of "
        f"{', '.join(scale for scale in Scale if study.sweep(scale) is not None)}"
        for study in chosen
        if study.sweep(choice.scale) is None
    ]
    problems += [
        f"{study.name}: at {choice.scale} it runs on a recorded trace: expected --trace {sweep.trace}; "
        f"{choice.path.parent / sweep.file} has how that is made"
        for study in chosen
        if (sweep := study.sweep(choice.scale)) and sweep.trace and choice.trace_file is None
    ]
    if choice.verdicts is not None:
        problems += [
            f"--set {key}: expected none with --verdicts, but of {', '.join(sorted(_SAME_FIGURES))}: kept "
            "figures are those of the sweep's file"
            for text in choice.overrides
            if (key := text.partition("=")[0].strip()) not in _SAME_FIGURES
        ]
        problems += [
            f"{study.name}: --trace: expected none with --verdicts at {choice.scale}: figures are those of "
            "the sweep's own movement"
            for study in chosen
            if names and choice.trace_file and (sweep := study.sweep(choice.scale)) and not sweep.trace
        ]
    if choice.check and choice.verdicts is None:
        problems.append("--check: expected --verdicts DIR, the folder to compare with")
    if problems:
        raise ConfigError(problems)
    pages, figures = dict[str, Path](), dict[str, dict[str, Rows]]()
    with fork_server(choice.out) as server:  # loaded once for all: 5 s of CPU, while all cores wait
        for number, study in enumerate(chosen, start=1):
            say(console, f"study {number} of {len(chosen)}: {study.title}")
            pages[study.name], figures[study.name] = _one(
                choice, study, server, of_all=not names, jobs=jobs, console=console
            )
    if choice.verdicts is not None:
        _keep(choice, choice.verdicts, figures)
    return pages


def _one(
    choice: Reproduction, study: Study, server: ForkServer, *, of_all: bool, jobs: int, console: Console
) -> tuple[Path, dict[str, Rows]]:
    sweep = study.sweep(choice.scale)
    assert sweep is not None  # looked at before
    trace_file = choice.trace_file if sweep.trace or not of_all else None
    file = read_sweep(choice.path.parent / sweep.file, choice.overrides, trace_file)
    folder = choice.out / f"{study.name}-{choice.scale}"
    points = points_of(file)
    if choice.finished:
        tabulate(file, out=folder, console=console)
    else:
        shared = _share(points, folder)
        if shared:
            say(console, f"{count(shared, 'run')} of other studies")
        run_sweep(file, jobs=jobs, out=folder, console=console, server=server)
    page = choice.pages / f"{study.name}-{choice.scale}.md"
    curves = page.with_suffix(".svg")
    made = study_page(
        choice.catalogue,
        study,
        choice.scale,
        folder,
        file.metrics,
        curves_name=curves.name,
        runs_in_all=len(points),
        stopped=stopped_runs(SweepFolder(folder), points) if choice.finished else (),
    )
    write_text(page, made.text)
    try:
        if drawing := made.curves:
            write_text(curves, drawing)
    except RunError as error:  # the other studies do without, too
        say(console, f"{curves}: not drawn: {error}")
    with in_any_case(console):
        say(console, str(page))
    return page, figures_of(made, study.name, choice.scale, _day(folder), len(points))


def _day(folder: Path) -> str:
    """The UTC day on which the last run of the sweep ended."""
    last = max(path.stat().st_mtime for path in folder.glob("points/*/result.json"))
    return datetime.fromtimestamp(last, UTC).date().isoformat()


def _keep(choice: Reproduction, folder: Path, figures: dict[str, dict[str, Rows]]) -> None:
    """Renew the figures of each study in `folder`, or with `check` raise RunError where one differs."""
    if choice.check:
        found = [
            line for study, rows in figures.items() for line in differences(folder, study, choice.scale, rows)
        ]
        if found:
            raise RunError("\n".join(found))
        return
    for study, rows in figures.items():
        renew(folder, study, choice.scale, rows)
    renew_page(folder, choice.catalogue)


def _share(points: Sequence[Point], folder: Path) -> int:
    """Copy finished runs of other studies that are these points, to the last key; returns how many."""
    shared = 0
    for point in points:
        mine = SweepFolder(folder).folder_of(point)
        if mine.exists():
            continue
        for theirs in sorted(folder.parent.glob(f"*/points/{glob.escape(point.folder_name)}")):
            outcome = read_outcome(theirs, point.key)
            if outcome is not None and outcome.finished:
                with naming(folder):
                    copied = mine.with_name(f".{mine.name}")
                    shutil.rmtree(copied, ignore_errors=True)
                    shutil.copytree(theirs, copied)
                    copied.replace(mine)
                shared += 1
                break
    return shared
