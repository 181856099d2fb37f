"""Readers of recorded movement, one file per format; the table loads them late.

Formats beside those of the papers are in `roambench.extras.traces`.
"""

from __future__ import annotations

from typing import Final

from roambench.contract.table import Table
from roambench.mobility.readers.fixes import Reader

READERS: Final = Table(
    what="trace reader",
    group="roambench.readers",
    kind=Reader,
    own={
        "checkins": "roambench.mobility.readers.formats.checkins:CHECKINS",
        "csv": "roambench.mobility.readers.formats.checkins:CSV",
        "intervals": "roambench.mobility.readers.formats.intervals:INTERVALS",
        "rvf": "roambench.mobility.readers.formats.rvf:RVF",
        "shanghai-telecom": "roambench.mobility.readers.formats.shanghai_telecom:SHANGHAI_TELECOM",
        "snap": "roambench.mobility.readers.formats.snap:SNAP",
        "tsmc2014": "roambench.mobility.readers.formats.checkins:TSMC2014",
    },
)
