"""The runs below a folder with their figures, filtered and sorted: what `roambench runs` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import ConfigError, RoambenchError, RunError
from roambench.report.quantities import QUANTITIES
from roambench.report.run_columns import COLUMNS, SHOWN, Column, ListedRun, json_cell
from roambench.report.run_figures import figures_for
from roambench.runs.folder import RunFolder
from roambench.runs.groups import is_run, run_folders
from roambench.runs.settings import names_in_sweeps

#: Folders that a run may lie below the one that is listed: those of a sweep's points are five deep.
_DEPTH: Final = 6
_GAP: Final = "  "


def listed_runs(folder: Path) -> list[ListedRun]:
    """All runs below the folder, or the run itself, in the order of their paths; a damaged one with its
    problem. RunError where it is no folder."""
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; expected a folder of runs, as runs is")
    paths = [folder] if is_run(folder) else list(run_folders(folder, _DEPTH, half=True))
    settings = names_in_sweeps(paths)
    return [
        replace(
            listed(path, path.name if path == folder else str(path.relative_to(folder))),
            setting=settings.get(path.resolve(), ""),
        )
        for path in paths
    ]


def listed(path: Path, name: str) -> ListedRun:
    """A run as a row of a list; with a problem where its folder is damaged."""
    info, problem = None, ""
    try:
        with RunFolder.open(path) as folder:
            info = folder.info
    except (RoambenchError, OSError) as error:
        problem = str(error).splitlines()[0]
    figures, without = figures_for(path, info)
    return ListedRun(name, info, figures, problem or without)


def chosen_columns(names: Sequence[str], runs: Sequence[ListedRun] = ()) -> list[Column]:
    """The columns of these names; for none the usual ones, with the setting where one of `runs` has one.
    ConfigError names those that are known."""
    if unknown := [name for name in names if name not in COLUMNS]:
        raise ConfigError([f"no column {name}; known: {', '.join(COLUMNS)}" for name in unknown])
    usual = list(SHOWN)
    if any(run.setting for run in runs):
        usual.insert(1, "setting")
    return [COLUMNS[name] for name in names or usual]


def lines(runs: Sequence[ListedRun], columns: Sequence[Column], width: int) -> list[str]:
    """A heading and a line for each run; two for each where the width does not hold them: its name stands
    alone then."""
    rows = [[column.title for column in columns]]
    rows += [[column.text(run) for column in columns] for run in runs]
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    folded = sum(widths) + len(_GAP) * (len(widths) - 1) > width and len(columns) > 1
    gap = " " if folded and len(_GAP) + sum(widths[1:]) + len(_GAP) * (len(widths) - 2) > width else _GAP
    found = []
    for number, row in enumerate(rows):
        cells = [
            cell.rjust(size) if column.kind == "number" else cell.ljust(size)
            for cell, size, column in zip(row, widths, columns, strict=True)
        ]
        if folded:
            found += [row[0], f"{_GAP}{gap.join(cells[1:])}".rstrip()]
        else:
            found.append(_GAP.join(cells).rstrip())
        if number and runs[number - 1].problem:
            found.append(f"{_GAP}! {runs[number - 1].problem}")
    return found


def meaning_of(runs: Sequence[ListedRun], columns: Sequence[Column]) -> str:
    """A sentence on the joules that are listed; "" where none are."""
    if not any(column.name in ("joules", "wasted") for column in columns):
        return ""
    bases = {run.figures.basis for run in runs} - {""}
    how = {frozenset(("measured",)): "measured", frozenset(("modelled",)): "modelled"}.get(
        frozenset(bases), "measured, or on virtual devices (simulated) modelled"
    )
    return f"joules: used for learning, waste included; {how}" if bases else ""


def documents(runs: Sequence[ListedRun]) -> list[dict[str, Any]]:
    """The runs for JSON: every fact, every figure that a run has, and the uncertainty of its energies."""
    facts = [name for name in COLUMNS if name not in QUANTITIES]
    return [
        {
            **{name: json_cell(COLUMNS[name], run) for name in facts},
            "figures": dict(run.figures.figures),
            "u": dict(run.figures.u),
            "problem": run.problem,
        }
        for run in runs
    ]
