"""Runs that tables may take for one setting with several seeds, and those that they must not."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import RunError
from roambench.experiment.sections import resolved
from roambench.extras.papers.finished_runs import FinishedRun, finished_runs
from roambench.study.sweep.points import FREE

#: Of these the name counts: the folder is another one on every machine.
_FILES: Final = frozenset({"trace.file", "learning.data_path", "links.model"})
_MOST_SHOWN: Final = 5


def taken_together(folders: Sequence[Path]) -> list[FinishedRun]:
    """The finished runs of these sweeps, a run that stands in two of them once. RunError names each folder
    that has none."""
    runs, problems = list[FinishedRun](), list[str]()
    for folder in folders:
        try:
            runs += finished_runs(folder)
        except RunError as error:
            problems.append(str(error))
    if problems:
        raise RunError("\n".join(problems))
    return list({run.outcome.key: run for run in runs}.values())


def refuse_unlike(runs: Sequence[FinishedRun], cell: Callable[[FinishedRun], Hashable | None]) -> None:
    """RunError where runs of one cell of a table differ in more than the seed: no mean of theirs tells much.

    `cell` tells what the table keeps apart; None: the run is not in it.
    """
    cells: dict[Hashable, list[FinishedRun]] = {}
    for run in runs:
        if (place := cell(run)) is not None:
            cells.setdefault(place, []).append(run)
    differing: dict[str, dict[str, None]] = {}
    for together in cells.values():
        found = [dict(leaves(resolved(run.experiment))) for run in together]
        for key in dict.fromkeys(key for keys in found for key in keys):
            values = dict.fromkeys(_shown(key, keys.get(key)) for keys in found)
            if len(values) > 1 and key not in FREE:
                differing.setdefault(key, {}).update(values)
    if differing:
        keys = "; ".join(f"{key} = {_some(list(values))}" for key, values in differing.items())
        raise RunError(
            f"runs that the tables would take for seeds of one setting differ in {keys}: expected sweeps of "
            "one value each"
        )


def _shown(key: str, value: Any) -> str:
    return Path(value).name if key in _FILES and isinstance(value, str) else str(value)


def _some(values: Sequence[str]) -> str:
    return ", ".join(values[:_MOST_SHOWN]) + (", ..." if len(values) > _MOST_SHOWN else "")


def leaves(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted key, however tables are nested."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
