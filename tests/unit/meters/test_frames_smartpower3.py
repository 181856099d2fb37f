"""The parser of Smart Power 3 lines: sums, the meter's clock, events."""

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind
from roambench.contract.records import ReadingFlag
from roambench.meters.frames.smartpower3 import Smartpower3Frames

#: The line that the vendor's documentation shows.
LINE = b"0000815169,15296,0036,00550,0,00000,0000,00000,0,00,00000,0000,00000,0,00,14,12\r\n"


def line(ms: int, board: str = "05098,0400,02039,1,00", low: int = 0) -> bytes:
    """A line with right sums, worked out byte by byte."""
    text = f"{ms:010d},15291,0200,03058,{low},{board},00000,0000,00000,0,00,".encode()
    total, folded = 0, 0
    for byte in text:
        total, folded = (total + byte) % 256, folded ^ byte
    return text + f"{(256 - total) % 256:02x},{folded:02x}\r\n".encode()


def test_the_vendors_own_line_passes_both_sums():
    (reading,) = Smartpower3Frames("in").feed(LINE, 5)
    assert (reading.volts, reading.amps, reading.watts) == (15.296, 0.036, 0.55)
    assert (reading.meter_ms, reading.monotonic_ns, reading.flags) == (815_169, 5, ReadingFlag.NONE)
    (off,) = Smartpower3Frames("0").feed(LINE, 5)
    assert off.flags == ReadingFlag.OFF


@pytest.mark.parametrize(
    ("good", "bad"),
    [(b",14,12", b",15,12"), (b",14,12", b",14,13"), (b"15296", b"15297"), (b",14,12", b",100,12")],
)
def test_either_sum_alone_refuses_a_line(good, bad):
    frames = Smartpower3Frames("in")
    assert frames.feed(LINE.replace(good, bad), 0) == []
    assert frames.counts.checksum == 1


def test_two_digits_that_change_places_pass_both_sums_and_only_the_product_tells():
    """Neither sum knows the order of bytes: this is what the sums cannot see."""
    frames = Smartpower3Frames()
    swapped = line(1000).replace(b"02039", b"02309")
    (reading,) = frames.feed(swapped, 0)
    assert reading.watts == 2.309
    assert reading.flags == ReadingFlag.INCONSISTENT  # 5.098 V x 0.400 A are 2.039 W
    (hidden,) = frames.feed(line(1010).replace(b"0000001010", b"0000001100"), 1)
    assert (hidden.meter_ms, hidden.flags) == (1100, ReadingFlag.BURST)


def test_a_meter_that_had_sums_is_held_to_them():
    frames = Smartpower3Frames()
    bare = [line(1000 + 10 * i)[:73] + b"\r\n" for i in range(4)]
    assert bare[0].count(b",") == 14
    for i in range(2):
        assert frames.feed(bare[i], i) == []
    assert len(frames.feed(bare[2], 2)) == 1  # the third in a row: an old firmware
    assert len(frames.feed(line(1040), 4)) == 1
    for i in range(20):
        assert frames.feed(line(1050 + 10 * i)[:73] + b"\r\n", 5 + i) == []
    assert frames.counts.checksum == 22


def test_a_line_told_twice_is_one_and_a_step_back_is_none():
    frames = Smartpower3Frames()
    stamps = [1000, 1010, 1010, 1005, 1020]
    found = [r.meter_ms for i, ms in enumerate(stamps) for r in frames.feed(line(ms), i)]
    assert found == [1000, 1010, 1020]
    assert (frames.counts.repeated, frames.counts.boots) == (2, 0)


def test_a_clock_that_begins_anew_is_a_restarted_meter():
    frames = Smartpower3Frames()
    stamps = [900_000, 900_010, 30, 40, 50]
    found = [r.meter_ms for i, ms in enumerate(stamps) for r in frames.feed(line(ms), i)]
    assert found == [900_000, 900_010, 40, 50]
    assert frames.events == [(EventKind.METER_RESTARTED, "its clock began again")]


def test_the_meters_clock_may_wrap_after_49_days():
    frames = Smartpower3Frames()
    stamps = [2**32 - 11, 2**32 - 1, 9, 19]
    found = [r.meter_ms for i, ms in enumerate(stamps) for r in frames.feed(line(ms), i)]
    assert found == stamps
    assert (frames.counts.boots, frames.counts.repeated) == (0, 0)
    assert Smartpower3Frames().feed(line(2**32), 0) == []  # no clock of 32 bits says this


def test_a_meter_that_had_been_on_for_a_month_and_restarts_has_not_wrapped():
    """Its count falls from 30 days to a second within three seconds of the host's."""
    frames = Smartpower3Frames()
    lines = [(30 * 86_400_000 + 100 * k, 0.1 * k) for k in range(5)]
    lines += [(1000 + 100 * k, 3.5 + 0.1 * k) for k in range(5)]
    found = [r.meter_ms for ms, at_s in lines for r in frames.feed(line(ms), round(at_s * 1e9))]
    assert found == [ms for ms, _ in lines if ms != 1000]
    assert frames.events == [(EventKind.METER_RESTARTED, "its clock began again")]


def test_a_wrap_is_believed_after_a_pause_of_the_hosts_as_long_as_the_meters():
    frames = Smartpower3Frames()
    lines = [(2**32 - 5000, 0.0), (3_595_000, 3600.0), (3_595_100, 3600.1)]
    found = [r.meter_ms for ms, at_s in lines for r in frames.feed(line(ms), round(at_s * 1e9))]
    assert (len(found), frames.counts.boots) == (3, 0)


def test_the_period_is_the_mean_step_of_the_meters_clock():
    frames = Smartpower3Frames()
    ms = 5000
    for i in range(51):
        frames.feed(line(ms), i)
        assert (frames.period_s > 0) == (i == 50)
        ms += 45 if i % 10 == 9 else 10
    # 45 steps of 10 ms and 5 of 45 ms
    assert frames.period_s == pytest.approx(0.0135, abs=1e-9)


def test_events_of_the_channel_and_the_input_are_told_once_each():
    frames = Smartpower3Frames()
    frames.feed(line(1000) + line(1010, "05098,0400,02039,1,06") + line(1020, "05098,0400,02039,1,06"), 0)
    frames.feed(line(1030, low=1) + line(1040), 0)
    assert frames.events == [
        (EventKind.METER_ALARM, "current limit, short circuit"),
        (EventKind.METER_ALARM, "input under-voltage"),
        (EventKind.METER_ALARM, "none"),
    ]


def test_an_output_that_is_off_but_draws_power_is_doubted():
    (reading,) = Smartpower3Frames().feed(line(1000, "00000,0000,80000,0,00"), 0)
    assert reading.flags == ReadingFlag.OFF | ReadingFlag.INCONSISTENT


def test_values_beyond_the_converters_range_are_implausible():
    frames = Smartpower3Frames()
    assert frames.feed(line(1000, "40000,0001,00040,1,00"), 0) == []
    assert frames.feed(line(1010, "05000,9999,49995,1,00"), 0) == []
    assert frames.counts.implausible == 2


def test_a_channel_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="channel: expected one of 0, 1, in, got '2'"):
        Smartpower3Frames("2")
