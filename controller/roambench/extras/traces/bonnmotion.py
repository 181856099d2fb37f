"""BonnMotion's own `.movements`: one line per node, `t x y t x y ...` (or `t x y z ...`), metres and seconds.

Nodes are named by their line, from 0. They move in straight lines from waypoint to waypoint, and stand at the
last one until the simulation ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.mobility.readers.account import RowAccount, check_metres, seconds
from roambench.mobility.readers.documents import Document, Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions, concatenate
from roambench.mobility.readers.sampling import Path, sampled

_MAX_LINE: Final = 64 << 20  # all waypoints of a node stand on one line


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """One fix per node and step, from second 0 (or the first waypoint) to the last waypoint of all nodes."""
    return concatenate([_read_one(document, options) for document in documents])


def _read_one(document: Document, options: ReaderOptions) -> Fixes:
    account = RowAccount(document.path)
    tables: dict[str, npt.NDArray[np.float64]] = {}
    with closing(document.lines(_MAX_LINE)) as lines:
        for node, (line, row) in enumerate(numbered_rows(lines)):
            try:
                tables[str(node)] = _waypoints(row)
                account.used += 1
            except ValueError as error:
                account.reject(line, str(error))
    first_s = min([0.0, *(float(table[0, 0]) for table in tables.values())])
    last_s = max([0.0, *(float(table[-1, 0]) for table in tables.values())])
    paths = {
        name: Path(table[:, 0], table[:, 1], table[:, 2], [(first_s, last_s)])
        for name, table in tables.items()
    }
    return sampled(paths, options.step_s, account, options.origin_s)


def _waypoints(row: str) -> npt.NDArray[np.float64]:
    """Waypoints of shape (waypoints, 3 or 4); the width is the one that makes times ascend."""
    try:
        values = np.array(row.split(), np.float64)
    except ValueError:
        raise ValueError(f"{row[:40]!r}... is not a list of numbers") from None
    for width in (3, 4):
        if len(values) and len(values) % width == 0:
            table = values.reshape(-1, width)
            if np.all(np.diff(table[:, 0]) >= 0):
                break
    else:
        raise ValueError(f"{len(values)} numbers are no waypoints t x y (or t x y z) of ascending times")
    if not np.isfinite(table).all():
        raise ValueError("a waypoint is not finite")
    for time_s in (table[0, 0], table[-1, 0]):
        seconds(str(time_s))
    for corner in (table.min(axis=0), table.max(axis=0)):
        check_metres(float(corner[1]), float(corner[2]))
    return table


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if PurePath(head.name).suffix == ".movements":
        return "its name ends in .movements"
    return None


BONNMOTION: Final = Reader(
    "bonnmotion",
    "BonnMotion's .movements, one line of waypoints per node",
    read_together=read,
    belongs=lambda name: PurePath(name).suffix == ".movements",
    recognises=recognises,
)
