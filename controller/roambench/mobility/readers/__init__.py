"""Readers of recorded movement, one file per format; the table loads them late."""

from __future__ import annotations

from typing import Final

from roambench.contract.table import Table
from roambench.mobility.readers.fixes import Reader

READERS: Final = Table(
    what="trace reader",
    group="roambench.readers",
    kind=Reader,
    own={
        "bonnmotion": "roambench.mobility.readers.formats.bonnmotion:BONNMOTION",
        "cabspotting": "roambench.mobility.readers.formats.cabspotting:CABSPOTTING",
        "checkins": "roambench.mobility.readers.formats.checkins:CHECKINS",
        "csv": "roambench.mobility.readers.formats.checkins:CSV",
        "dartmouth-movement": "roambench.mobility.readers.formats.dartmouth:DARTMOUTH_MOVEMENT",
        "dartmouth-syslog": "roambench.mobility.readers.formats.dartmouth:DARTMOUTH_SYSLOG",
        "geolife": "roambench.mobility.readers.formats.geolife:GEOLIFE",
        "haggle": "roambench.mobility.readers.formats.haggle:HAGGLE",
        "intervals": "roambench.mobility.readers.formats.intervals:INTERVALS",
        "ns2": "roambench.mobility.readers.formats.ns2:NS2",
        "one-contacts": "roambench.mobility.readers.formats.one_contacts:ONE_CONTACTS",
        "one-movement": "roambench.mobility.readers.formats.one_movement:ONE_MOVEMENT",
        "one-path": "roambench.mobility.readers.formats.one_path:ONE_PATH",
        "one-snapshot": "roambench.mobility.readers.formats.one_snapshot:ONE_SNAPSHOT",
        "rvf": "roambench.mobility.readers.formats.rvf:RVF",
        "shanghai-telecom": "roambench.mobility.readers.formats.shanghai_telecom:SHANGHAI_TELECOM",
        "snap": "roambench.mobility.readers.formats.snap:SNAP",
        "sumo-fcd": "roambench.mobility.readers.formats.sumo_fcd:SUMO_FCD",
        "tdrive": "roambench.mobility.readers.formats.tdrive:TDRIVE",
        "tist2015": "roambench.mobility.readers.formats.tist2015:TIST2015",
        "tsmc2014": "roambench.mobility.readers.formats.checkins:TSMC2014",
    },
)
