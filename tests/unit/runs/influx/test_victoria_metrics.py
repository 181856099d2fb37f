"""What docs/storage.md says of VictoriaMetrics: good for looking at, no archive."""

from __future__ import annotations

import pytest

import influx_runs
from influx_servers import VictoriaMetrics
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag, RecordKind
from roambench.emulation.electric.power import IDLE
from roambench.emulation.virtual import emulate

RUN = "vm-run"


@pytest.fixture(scope="module")
def readings(victoria_metrics: VictoriaMetrics) -> list[Reading]:
    """A minute of one board, written twice through the version 2 endpoint."""
    readings = emulate(((0.0, IDLE),), 60.0, 1).readings()
    rows = [
        ("pi-01", "spool", seq, int(RecordKind.READING), reading.to_bytes())
        for seq, reading in enumerate(readings, 1)
    ]
    event = AgentEvent(EventKind.METER_OK, 5, "text")
    rows.append(("pi-01", "spool", len(rows) + 1, int(RecordKind.EVENT), event.to_bytes()))
    for _ in range(2):
        influx_runs.send(influx_runs.lines(rows, RUN), victoria_metrics, "any", api="v2")
    return readings


def test_every_reading_is_there_twice_at_its_millisecond(victoria_metrics: VictoriaMetrics, readings):
    for field, expected in (
        ("watts", [reading.watts for reading in readings]),
        ("volts", [reading.volts for reading in readings]),
        ("flags", [float(reading.flags & ReadingFlag.BURST) for reading in readings]),
    ):
        (series,) = victoria_metrics.export(f'power_{field}{{run="{RUN}"}}')
        assert (series["metric"]["device"], series["metric"]["meter"]) == ("pi-01", "smartpower2")
        points = sorted(zip(series["timestamps"], series["values"], strict=True))
        wanted = [
            ((influx_runs.UNIX_MINUS_DEVICE_NS + reading.monotonic_ns) // 10**6, value)
            for reading, value in zip(readings, expected, strict=True)
        ]
        assert points[::2] == points[1::2] == wanted


def test_text_is_kept_as_zero(victoria_metrics: VictoriaMetrics, readings):
    (series,) = victoria_metrics.export(f'event_kind{{run="{RUN}"}}')
    assert set(series["values"]) == {0}
