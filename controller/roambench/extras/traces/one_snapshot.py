"""The ONE's LocationSnapshotReport: `[time]`, then a line `host x y` for every host."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from roambench.mobility.readers.account import number, seconds
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.documents import Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions

_TIME: Final = re.compile(r"\[(\S+)\]")


def read(lines: Iterable[str], options: ReaderOptions) -> Fixes:
    """One fix per host and snapshot; a host is present while it is listed. Its name keeps its prefix."""
    collector = FixCollector(options.file, plane=True, simulated=True, condense=options.condense)
    t_s: int | None = None
    for line, row in numbered_rows(lines):
        found = _TIME.fullmatch(row)
        try:
            if row.startswith("["):
                t_s = None
                t_s = math.floor(seconds(found[1] if found else row))
                collector.leave_out("snapshot headers")
                continue
            if t_s is None:
                raise ValueError("no [time] stands above it")
            cells = row.split()
            if len(cells) != 3:
                raise ValueError(f"{len(cells)} columns, expected host, x, y")
            collector.add(cells[0], t_s, number(cells[2], "y"), number(cells[1], "x"), "")
        except ValueError as error:
            collector.reject(line, str(error))
    return collector.fixes()


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if head.rows and _TIME.fullmatch(head.rows[0].strip()):
        return "its first line is a time in brackets"
    return None


ONE_SNAPSHOT: Final = Reader("one-snapshot", "The ONE's LocationSnapshotReport", read, recognises=recognises)
