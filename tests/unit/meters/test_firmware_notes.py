"""Every format the firmware notes tell of has a transcript, and the drivers read it as the notes say."""

import math
from pathlib import Path

import pytest

from roambench.contract.events import EventKind
from roambench.contract.records import Reading, ReadingFlag
from roambench.meters.catalogue import driver_row, wired_names
from roambench.meters.frames.parser import FrameParser
from roambench.meters.transcript import read_transcript, recorded_meter

TRANSCRIPTS = Path(__file__).parents[3] / "firmware_notes" / "transcripts"


def parsed(name: str, options: str = "") -> tuple[list[Reading], FrameParser]:
    """A transcript through the parser of the driver that it names."""
    path = TRANSCRIPTS / f"{name}.txt"
    row = driver_row(recorded_meter(path))
    frames = row.frames(row.port(f"0.0.0.0{options}"))
    return [r for at_s, data in read_transcript(path) for r in frames.feed(data, round(at_s * 1e9))], frames


def flagged(readings: list[Reading], flag: ReadingFlag) -> int:
    return sum(bool(reading.flags & flag) for reading in readings)


def test_every_transcript_names_its_driver_and_every_driver_has_a_transcript():
    recorded = {recorded_meter(path) for path in TRANSCRIPTS.glob("*.txt")}
    assert recorded == set(wired_names())


def test_telnet_tells_off_by_zeros_and_a_line_in_three_segments_is_one():
    readings, frames = parsed("smartpower2-1.1-telnet")
    assert (frames.counts.accepted, frames.counts.rejected) == (18, 0)
    assert [i for i, r in enumerate(readings) if r.flags & ReadingFlag.OFF] == [6, 7, 8]
    assert (readings[14].watts, readings[14].monotonic_ns) == (1.901, 14_910_000_000)
    assert flagged(readings, ReadingFlag.BURST) == 1


@pytest.mark.parametrize("name", ["smartpower2-1.1-websocket", "smartpower2-1.6-websocket"])
def test_the_websocket_tells_watts_first(name):
    readings, frames = parsed(name)
    assert (frames.counts.accepted, frames.counts.rejected) == (11, 0)
    assert frames.firmware == name.split("-")[1] + "0"
    assert readings[0].watts == 1.9
    assert readings[0].volts == pytest.approx(5.094, abs=0.005)
    assert not flagged(readings, ReadingFlag.INCONSISTENT)
    # 3.1 + 4 x 1.9 .. W over an hour's seconds, as the counter counts
    assert readings[-1].watt_hours > readings[-2].watt_hours > 0


def test_the_hundred_millisecond_fork_repeats_values_and_is_no_burst():
    readings, frames = parsed("smartpower2-100ms-serial")
    assert (len(readings), frames.counts.noise, frames.counts.rejected) == (60, 1, 1)
    assert flagged(readings, ReadingFlag.BURST) == 4  # the followers of the stall's five
    # 6 s hold 23 updates of 264 ms; neighbours among them may be equal
    assert len({r.watts for r in readings}) <= 23


def test_ytrikoz_serial_mixes_milliamperes_and_amperes():
    readings, frames = parsed("smartpower2-ytrikoz-0.6.9-serial")
    assert (frames.counts.accepted, frames.counts.noise, frames.counts.garbage) == (27, 3, 1)
    assert (readings[0].volts, readings[0].amps, readings[0].watts) == (5.1, 0.373, 1.9)
    assert (readings[3].amps, readings[3].watts) == (0.53, 2.71)
    assert math.isnan(readings[0].watt_hours)
    assert not flagged(readings, ReadingFlag.INCONSISTENT | ReadingFlag.BURST)
    assert [r.amps for r in readings[-3:]] == [0.012, 0.0, 0.373]
    assert flagged(readings, ReadingFlag.DEAD_BAND) == 1


def test_ytrikoz_telnet_pauses_while_somebody_uses_the_shell():
    readings, frames = parsed("smartpower2-ytrikoz-0.6.9-telnet")
    assert frames.counts.accepted == 24
    assert frames.counts.garbage == frames.counts.partial == 0
    assert readings[0].watt_hours == 0.001366


SERIAL_3 = ["1.2", "1.5", "1.6", "1.7", "1.8", "2.2"]
NETWORK_3 = ["1.6-tcp", "1.7-udp", "1.8-udp", "1.9-udp", "2.2-udp"]


@pytest.mark.parametrize("variant", [*(f"{fw}-serial" for fw in SERIAL_3), *NETWORK_3])
def test_every_variant_of_a_smart_power_3_tells_the_same(variant):
    readings, frames = parsed(f"smartpower3-{variant}")
    counts = frames.counts
    summed = float(variant[:3]) >= 1.7
    serial = variant.endswith("serial")
    # Without sums two lines go by until the third is believed. On serial the first line is cut, the 31st
    # takes the 32nd along, and after the restart there are six more.
    assert counts.accepted == (73 if serial else 70) - (0 if summed else 2)
    assert counts.checksum == (0 if summed else 2)
    assert (counts.partial, counts.too_long, counts.boots) == ((1, 1, 1) if serial else (0, 0, 0))
    assert (counts.garbage, counts.implausible, counts.repeated) == (0, 0, 0)
    assert flagged(readings, ReadingFlag.OFF) == 4
    assert not flagged(readings, ReadingFlag.INCONSISTENT)
    assert any(r.meter_ms == 816_000 for r in readings)
    assert frames.period_s == pytest.approx(0.0133, abs=0.0006)
    events = [detail for kind, detail in frames.events if kind == EventKind.METER_ALARM]
    assert events == ["current limit", "none"] * (variant[:3] != "1.2") + ["input under-voltage", "none"]
    if serial:
        assert frames.events[-1] == (EventKind.METER_RESTARTED, "reset")
        assert readings[-1].meter_ms < 4_000


def test_a_line_whose_sum_is_zero_is_read_however_it_is_spelled():
    lines = {
        variant: next(
            (r for r in parsed(f"smartpower3-{variant}")[0] if r.meter_ms == 816_000),
        )
        for variant in ("1.7-serial", "1.7-udp", "1.8-serial", "1.8-udp", "1.9-udp", "2.2-serial", "2.2-udp")
    }
    assert {(r.volts, r.amps, r.watts) for r in lines.values()} == {(5.098, 0.4, 2.039)}
    spelled = (TRANSCRIPTS / "smartpower3-1.8-udp.txt").read_text()
    assert ",00,100,18\n" in spelled


def test_the_other_channels_are_read_when_they_are_asked_for():
    inputs, _ = parsed("smartpower3-2.2-udp", "?channel=in")
    outputs, _ = parsed("smartpower3-2.2-udp")
    unused, _ = parsed("smartpower3-2.2-udp", "?channel=1")
    assert (inputs[20].volts, inputs[20].amps, inputs[20].watts) == (15.291, 0.2, 3.058)
    assert all(i.watts > o.watts for i, o in zip(inputs, outputs, strict=True))
    assert flagged(unused, ReadingFlag.OFF) == len(unused) == 70
