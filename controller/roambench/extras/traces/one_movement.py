"""The ONE's ExternalMovement: samples of every node's position at one constant interval.

    0.0 120.0 0.0 500.0 0.0 500.0     minTime maxTime minX maxX minY maxY [minZ maxZ]
    0.0 3 131.9 247.3                 time id x y [z], sorted by time; `#` starts a comment

As the simulator does, minTime, minX and minY are subtracted. A node is present while it is listed; between
two samples in a row it moves in a straight line. Numbers may carry a decimal comma.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

import numpy as np

from roambench.contract.errors import TraceError
from roambench.mobility.readers.account import RowAccount, number, seconds
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.documents import Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.sampling import Path, sampled

_NUMBER: Final = r"-?\d+(?:[.,]\d+)?(?:[eE]-?\d+)?"
_HEADER: Final = re.compile(rf"{_NUMBER}(?:\s+{_NUMBER}){{5}}(?:\s+{_NUMBER}\s+{_NUMBER})?")
_ROW: Final = re.compile(rf"{_NUMBER}\s+\S+\s+{_NUMBER}\s+{_NUMBER}(?:\s+{_NUMBER})?")


def read(lines: Iterable[str], options: ReaderOptions) -> Fixes:
    """One fix per sample, or one per step where samples are further apart than that.

    Raises TraceError when the first line is no header.
    """
    rows = numbered_rows(lines)
    first = next(rows, (1, ""))
    header = _header(first[1], options.file, first[0])
    account = RowAccount(options.file)
    collector = FixCollector(options.file, plane=True, simulated=True, condense=options.condense)
    columns = _Samples()
    for line, row in rows:
        try:
            cells = row.split()
            if len(cells) not in (4, 5):
                raise ValueError(f"{len(cells)} columns, expected time, id, x, y")
            t_s = seconds(cells[0]) - header[0]
            x_m, y_m = number(cells[2], "x") - header[2], number(cells[3], "y") - header[4]
            collector.add(cells[1], math.floor(t_s), y_m, x_m, "")
            columns.add(cells[1], t_s, x_m, y_m, options.step_s)
        except ValueError as error:
            collector.reject(line, str(error))
            account.reject(line, str(error))
    fixes = collector.fixes()
    return columns.between(fixes, options, account) if columns.sparse(options.step_s) else fixes


def _header(row: str, file: str, line: int) -> list[float]:
    try:
        values = [number(cell, "header") for cell in row.split()]
    except ValueError:
        values = []
    if len(values) not in (6, 8):
        raise TraceError(
            f"{file}:{line}: expected the header minTime maxTime minX maxX minY maxY, got {row[:60]!r}"
        )
    return values


class _Samples:
    """The samples themselves, kept only while they look further apart than a step."""

    def __init__(self) -> None:
        self._samples: dict[str, list[tuple[float, float, float]]] = {}
        self._times: set[float] = set()
        self._dense = False

    def add(self, name: str, t_s: float, x_m: float, y_m: float, step_s: int) -> None:
        if self._dense:
            return
        self._times.add(t_s)
        self._samples.setdefault(name, []).append((t_s, x_m, y_m))
        if len(self._times) in (3, 100):
            self._dense = not self.sparse(step_s)
            if self._dense:
                self._samples.clear()

    @property
    def _interval_s(self) -> float:
        gaps = np.diff(np.array(sorted(self._times)))
        return float(gaps.min()) if len(gaps) else 0.0

    def sparse(self, step_s: int) -> bool:
        return not self._dense and self._interval_s > step_s

    def between(self, fixes: Fixes, options: ReaderOptions, account: RowAccount) -> Fixes:
        """A fix per step between samples that follow each other at the file's interval."""
        account.used, account.duplicates = fixes.used, fixes.duplicates
        account.left_out = dict(fixes.left_out)
        reach_s = 1.5 * self._interval_s
        paths = {}
        for name, samples in self._samples.items():
            table = np.array(sorted(samples))
            t_s = table[:, 0]
            runs = np.split(t_s, np.flatnonzero(np.diff(t_s) > reach_s) + 1)
            spans = [(float(run[0]), float(run[-1])) for run in runs]
            ends = [(last, last) for _, last in spans]
            paths[name] = Path(t_s, table[:, 1], table[:, 2], [*spans, *ends])
        return sampled(paths, options.step_s, account, options.origin_s)


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    rows = head.rows
    if len(rows) > 1 and _HEADER.fullmatch(rows[0].strip()) and head.mostly(_ROW, first=1):
        return "a header of six or eight numbers, then lines of time, id, x, y"
    return None


ONE_MOVEMENT: Final = Reader(
    "one-movement", "positions of The ONE's ExternalMovement", read, recognises=recognises
)
