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
        "bonnmotion": "roambench.mobility.readers.bonnmotion:BONNMOTION",
        "cabspotting": "roambench.mobility.readers.cabspotting:CABSPOTTING",
        "checkins": "roambench.mobility.readers.checkins:CHECKINS",
        "csv": "roambench.mobility.readers.checkins:CSV",
        "dartmouth-movement": "roambench.mobility.readers.dartmouth:DARTMOUTH_MOVEMENT",
        "dartmouth-syslog": "roambench.mobility.readers.dartmouth:DARTMOUTH_SYSLOG",
        "geolife": "roambench.mobility.readers.geolife:GEOLIFE",
        "haggle": "roambench.mobility.readers.haggle:HAGGLE",
        "intervals": "roambench.mobility.readers.intervals:INTERVALS",
        "ns2": "roambench.mobility.readers.ns2:NS2",
        "one-contacts": "roambench.mobility.readers.one_contacts:ONE_CONTACTS",
        "one-movement": "roambench.mobility.readers.one_movement:ONE_MOVEMENT",
        "one-path": "roambench.mobility.readers.one_path:ONE_PATH",
        "one-snapshot": "roambench.mobility.readers.one_snapshot:ONE_SNAPSHOT",
        "rvf": "roambench.mobility.readers.rvf:RVF",
        "shanghai-telecom": "roambench.mobility.readers.shanghai_telecom:SHANGHAI_TELECOM",
        "snap": "roambench.mobility.readers.snap:SNAP",
        "sumo-fcd": "roambench.mobility.readers.sumo_fcd:SUMO_FCD",
        "tdrive": "roambench.mobility.readers.tdrive:TDRIVE",
        "tist2015": "roambench.mobility.readers.tist2015:TIST2015",
        "tsmc2014": "roambench.mobility.readers.checkins:TSMC2014",
    },
)
