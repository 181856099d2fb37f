"""Readers of recorded movement, one file per format; the table loads them late."""

from __future__ import annotations

from typing import Final

from roambench.mobility.catalogue import LateTable
from roambench.mobility.readers.fixes import Reader

READERS: Final = LateTable(
    what="trace reader",
    group="roambench.readers",
    row=Reader,
    own={"checkins": "roambench.mobility.readers.checkins:CHECKINS"},
)
