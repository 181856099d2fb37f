"""The columns of a list of runs: what a run is, and its figures, by the names that filters and sorts use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from roambench.report import numbers
from roambench.report.quantities import QUANTITIES, Quantity
from roambench.report.run_figures import RunFigures
from roambench.runs.info import RunInfo

#: A number, a text or a time as ISO 8601 has it; None where a run has none.
Cell = float | str | None
Kind = Literal["number", "text", "date"]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run folder of a list. `name`: its path below the folder that is listed; `problem` says why `info` is
    None, or which figures are not there and why; `setting`: of a sweep's point, what varies in the sweep."""

    name: str
    info: RunInfo | None
    figures: RunFigures
    problem: str = ""
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `of`: its cell; `text`: the cell as it is printed."""

    name: str
    title: str
    kind: Kind
    of: Callable[[ListedRun], Cell]
    text: Callable[[ListedRun], str]
    share: bool = False


def _fact(name: str, title: str, of: Callable[[RunInfo], Cell], kind: Kind = "text") -> Column:
    def cell(run: ListedRun) -> Cell:
        return None if run.info is None else of(run.info)

    def text(run: ListedRun) -> str:
        found = cell(run)
        if kind == "date" and isinstance(found, str):
            return found[:16].replace("T", " ")
        return numbers.NONE if found in (None, "") else f"{found}"

    return Column(name, title, kind, cell, text)


def _figure(name: str, title: str, row: Quantity) -> Column:
    def cell(run: ListedRun) -> Cell:
        return run.figures.figures.get(row.name)

    def text(run: ListedRun) -> str:
        found = run.figures.figures.get(row.name)
        if found is None:
            return numbers.NONE
        if row.unit == "J":
            return numbers.joules(found)
        return numbers.percent(found) if row.share else numbers.number(found, row.places)

    return Column(name, title, "number", cell, text, row.share)


#: The short names of the quantities that a list shows.
SHORT: Final[Mapping[str, str]] = MappingProxyType(
    {"accuracy": "final_accuracy", "joules": "consumed_j", "wasted": "wasted_j"}
)
_FACTS: Final = (
    Column("name", "name", "text", lambda run: run.name, lambda run: run.name),
    _fact("when", "when (UTC)", lambda info: info.created_utc, "date"),
    _fact("system", "system", lambda info: info.system),
    _fact("fleet", "fleet", lambda info: info.fleet),
    _fact("state", "state", lambda info: str(info.state)),
    _fact("seed", "seed", lambda info: info.seed, "number"),
    _fact("devices", "devices", lambda info: len(info.device_names), "number"),
    _fact("reason", "reason", lambda info: info.reason),
    Column(
        "basis", "basis", "text", lambda run: run.figures.basis, lambda run: run.figures.basis or numbers.NONE
    ),
    Column(
        "setting", "setting", "text", lambda run: run.setting or None, lambda run: run.setting or numbers.NONE
    ),
)
#: By name: facts, the short names, and every quantity.
COLUMNS: Final[Mapping[str, Column]] = MappingProxyType(
    {column.name: column for column in _FACTS}
    | {short: _figure(short, short, QUANTITIES[name]) for short, name in SHORT.items()}
    | {name: _figure(name, row.heading(), row) for name, row in QUANTITIES.items()}
)
#: Those that a list shows.
SHOWN: Final = ("name", "when", "system", "fleet", "state", *SHORT)


def figure_columns(runs: Sequence[ListedRun]) -> list[Column]:
    """The columns of all figures that one of the runs has."""
    return [COLUMNS[name] for name in QUANTITIES if any(name in run.figures.figures for run in runs)]


def sorted_by(column: Column, runs: list[ListedRun], *, descending: bool) -> list[ListedRun]:
    """The runs in the order of a column; those without a cell are last, either way."""
    cells = [(column.of(run), run) for run in runs]
    known = [(cell, run) for cell, run in cells if cell is not None and cell == cell]
    known.sort(key=lambda pair: pair[0], reverse=descending)
    return [run for _, run in known] + [run for cell, run in cells if cell is None or cell != cell]


def json_cell(column: Column, run: ListedRun) -> Cell:
    """The cell for JSON, which has no NaN."""
    found = column.of(run)
    return None if isinstance(found, float) and not math.isfinite(found) else found
