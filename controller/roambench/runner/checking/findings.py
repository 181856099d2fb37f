"""The results of a check, and of the comparison of recorded values with those that were computed again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa

from roambench.contract.counts import count
from roambench.contract.printable import printable
from roambench.runs.columns import LATER

#: Relative difference of two floating-point numbers that count as equal: sums may be formed in another order.
TOLERANCE: Final = 1e-9
_SMALLEST: Final = 1e-12
_MOST_NAMED: Final = 8
_MOST_TEXT: Final = 80


class CheckOutcome(StrEnum):
    """The outcome of one comparison."""

    EQUAL = "equal"
    DIFFERS = "differs"
    NOT_CHECKED = "not checked"  # although it is there to be checked
    NOT_RECORDED = "not recorded"  # this run has nothing of the kind


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One comparison: `what` was compared, and a sentence for each difference, or the reason."""

    what: str
    outcome: CheckOutcome
    texts: tuple[str, ...] = ()


def compared(what: str, differences: Sequence[str], equal: str = "") -> CheckFinding:
    """The finding of a comparison with these differences; `equal` is said where there are none."""
    if not differences:
        return CheckFinding(what, CheckOutcome.EQUAL, (equal,) if equal else ())
    named = list(differences[:_MOST_NAMED])
    if len(differences) > _MOST_NAMED:
        named.append(f"and {len(differences) - _MOST_NAMED:,} more")
    return CheckFinding(what, CheckOutcome.DIFFERS, tuple(named))


def differing_values(recorded: Any, now: Any, at: str = "") -> Iterator[str]:
    """Sentences for what differs between two documents of JSON, by the path to it."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name in [*recorded, *(name for name in now if name not in recorded)]:
            yield from differing_values(
                recorded.get(name), now.get(name), f"{at}.{name}" if at else str(name)
            )
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for index, (left, right) in enumerate(zip(recorded, now, strict=True)):
            yield from differing_values(left, right, f"{at}[{index}]")
    elif not _equal(recorded, now):
        yield f"{printable(at)}: {_shown(recorded)} is recorded, {_shown(now)} is what the records give"


def differing_rows(recorded: pa.Table, now: pa.Table) -> Iterator[str]:
    """Sentences for what differs between two tables: a column each, with the first of its rows. Columns that
    earlier versions did not have may be missing."""
    now = now.select(
        [name for name in now.schema.names if name in recorded.schema.names or name not in LATER]
    )
    if recorded.schema.names != now.schema.names:
        yield f"columns {', '.join(recorded.schema.names)}; expected {', '.join(now.schema.names)}"
        return
    if len(recorded) != len(now):
        yield f"{count(len(recorded), 'row')}; the records give {len(now):,}"
        return
    for name in now.schema.names:
        wrong = _wrong_rows(recorded[name], now[name])
        if len(wrong):
            row = int(wrong[0])
            found = ", ".join(_shown(column[name][row].as_py()) for column in (recorded, now))
            keys = [key for key in ("device", "step", "phase") if key in now.schema.names and key != name]
            where = ", ".join(f"{key} {_shown(now[key][row].as_py())}" for key in keys)
            more = f", and {len(wrong) - 1:,} more rows" if len(wrong) > 1 else ""
            yield f"column {name}, row {row + 1} ({where}): recorded and from the records: {found}{more}"


def _wrong_rows(recorded: pa.ChunkedArray, now: pa.ChunkedArray) -> Any:
    if recorded.equals(now):  # no Python object for each of 100 million rows
        return np.zeros(0, np.int64)
    if pa.types.is_floating(now.type) and pa.types.is_floating(recorded.type):
        left, right = (column.to_numpy().astype(float) for column in (recorded, now))
        scale = np.maximum(np.abs(left), np.abs(right))
        near = (left == right) | (np.isnan(left) & np.isnan(right))
        with np.errstate(invalid="ignore"):
            near |= np.abs(left - right) <= TOLERANCE * scale + _SMALLEST
        return np.flatnonzero(~near)
    pairs = zip(recorded.to_pylist(), now.to_pylist(), strict=True)
    return np.flatnonzero([left != right for left, right in pairs])


def _equal(left: Any, right: Any) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right))
    return math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=_SMALLEST) if numbers else bool(left == right)


def _shown(value: Any) -> str:
    text = printable("nothing" if value is None else str(value))
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
