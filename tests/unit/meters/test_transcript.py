"""Recorded bytes as text, and meters replayed from them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading
from roambench.meters.catalogue import open_meter
from roambench.meters.frames.smartpower2 import Smartpower2Frames
from roambench.meters.traits import MeterDescription
from roambench.meters.transcript import read_transcript, write_transcript

NOTES = Path(__file__).parents[3] / "firmware_notes"
RECORDED = NOTES / "transcripts" / "smartpower2-1.6-serial.txt"


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_survive_the_text(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("transcript") / "t.txt"
    chunks = [(0.5 * i, piece) for i, piece in enumerate(pieces)]
    write_transcript(path, chunks, "two\nlines")
    assert read_transcript(path) == chunks


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1.0 5.161", "expected seconds, a tab"),
        ("soon\t5.161", "expected seconds, a tab"),
        ("1.0\t5.161\\q", "expected seconds, a tab"),
        ("1.0\t5.161\\x0", "expected seconds, a tab"),
        ("0.1\tlate", "before the line above"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path, line, reason):
    path = tmp_path / "t.txt"
    path.write_text(f"# made by hand\n0.5\tfine\\r\\n\n{line}\n")
    with pytest.raises(MeterError, match=rf"t\.txt:3: .*{reason}"):
        read_transcript(path)


def test_the_recorded_boot_of_firmware_1_6_reads_as_the_notes_say():
    frames = Smartpower2Frames()
    readings = [r for at_s, data in read_transcript(RECORDED) for r in frames.feed(data, round(at_s * 1e9))]
    counts = frames.counts
    assert (counts.accepted, counts.boots, frames.firmware) == (22, 1, "1.60")
    # one line broken by a web message, one cut by the cable, one burst of ROM chatter
    assert (counts.partial, counts.garbage, counts.too_long) == (2, 1, 0)
    assert [r.watts for r in readings[:3]] == [1.901, 1.905, 1.901]
    assert sum(bool(r.flags) for r in readings) == 2  # the two followers of a catch-up burst


@pytest.mark.asyncio
async def test_a_replayed_meter_gives_its_readings_and_then_falls_silent():
    clock = DeviceClock(0, 400.0)
    meter = open_meter("replay", str(RECORDED), clock)
    items = []
    async for item in meter:
        items.append(item)
        if isinstance(item, AgentEvent) and item.kind == EventKind.METER_STALE:
            await meter.aclose()
    readings = [item for item in items if isinstance(item, Reading)]
    assert len(readings) == 22
    assert [item.kind for item in items if isinstance(item, AgentEvent)] == [
        EventKind.METER_DESCRIBED,
        EventKind.METER_OK,
        EventKind.METER_RESTARTED,
        EventKind.METER_STALE,
    ]
    assert (readings[-1].monotonic_ns - readings[0].monotonic_ns) * 1e-9 == pytest.approx(24.0, abs=0.5)


@pytest.mark.parametrize(
    ("options", "driver", "volts"),
    [
        ("", "smartpower3-udp", 0.0),  # as the recording says: channel 1, to which nothing is wired
        ("?channel=in", "smartpower3-udp", 15.291),
        ("?as=smartpower3-udp", "smartpower3-udp", 5.098),
        ("?as=smartpower3&channel=0", "smartpower3", 5.098),
    ],
)
@pytest.mark.asyncio
async def test_a_replay_reads_what_was_recorded_or_what_it_is_told(tmp_path, options, driver, volts):
    recorded = (NOTES / "transcripts" / "smartpower3-2.2-udp.txt").read_text()
    path = tmp_path / "mine.txt"
    path.write_text(recorded.replace("# meter: smartpower3-udp", "# meter: smartpower3-udp?channel=1"))
    meter = open_meter("replay", f"{path}{options}", DeviceClock(0, 40.0))
    items = []
    async for item in meter:
        items.append(item)
        if isinstance(item, Reading) and item.meter_ms == 816_000:
            await meter.aclose()
    assert isinstance(items[0], AgentEvent)
    assert MeterDescription.from_event(items[0]).driver == f"replay:{driver}"
    assert items[-1].volts == volts


@pytest.mark.parametrize(
    ("port", "complaint"),
    [
        ("?as=smartpower9", "unknown meter 'smartpower9'"),
        ("?as=replay", "meter 'replay' has no wire"),
        ("?channel=1", "expected OPTION=VALUE"),
    ],
)
@pytest.mark.asyncio
async def test_a_replay_that_makes_no_sense_is_refused(port, complaint):
    with pytest.raises(ConfigError, match=complaint):
        await open_meter("replay", f"{RECORDED}{port}", DeviceClock()).open()


@pytest.mark.asyncio
async def test_a_transcript_that_is_not_there_is_named():
    with pytest.raises(MeterError, match=r"/no/such\.txt"):
        await open_meter("replay", "/no/such.txt", DeviceClock()).open()
