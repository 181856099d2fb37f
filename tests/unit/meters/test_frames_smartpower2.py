"""The parser of Smart Power 2 lines, on clean, cut, interleaved and hostile bytes."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.contract.draws import generator
from roambench.contract.records import ReadingFlag
from roambench.meters.frames.smartpower2 import Smartpower2Frames

SECOND = 1_000_000_000
LINE = b"5.161,0.662,3.416,0.000\r\n"
PATTERN = re.compile(rb"^\d{1,2}\.\d{3},\d{1,2}\.\d{3},\d{1,3}\.\d{3},\d+\.\d{3}\r?$")


def test_a_clean_line_becomes_a_reading_with_its_arrival_stamp():
    (reading,) = Smartpower2Frames().feed(LINE, 7 * SECOND)
    assert (reading.volts, reading.amps, reading.watts, reading.watt_hours) == (5.161, 0.662, 3.416, 0.0)
    assert reading.monotonic_ns == 7 * SECOND
    assert reading.flags == ReadingFlag.NONE


def test_a_line_that_arrives_byte_by_byte_is_stamped_when_its_end_arrives():
    frames = Smartpower2Frames()
    readings = [r for i in range(len(LINE)) for r in frames.feed(LINE[i : i + 1], i)]
    assert [r.monotonic_ns for r in readings] == [len(LINE) - 1]


def test_the_first_line_cut_by_opening_the_port_is_counted_as_partial():
    frames = Smartpower2Frames()
    assert frames.feed(b"61,0.662,3.416,0.000\r\n", 0) == []
    assert len(frames.feed(LINE, SECOND)) == 1
    assert (frames.counts.partial, frames.counts.accepted) == (1, 1)


def test_a_reading_after_a_message_that_ends_the_wrong_way_round_is_not_lost():
    frames = Smartpower2Frames()
    readings = frames.feed(b"[0] Disconnected!\n\r" + LINE, 0)
    assert [r.watts for r in readings] == [3.416]
    assert frames.counts.noise == 1


def test_a_line_broken_by_a_debug_message_is_noise_and_not_a_reading():
    frames = Smartpower2Frames()
    broken = LINE[:9] + b"handleFileRead: /\r\n" + LINE[9:]
    assert frames.feed(broken, 0) == []
    assert (frames.counts.noise, frames.counts.partial) == (1, 1)


def test_rom_chatter_and_a_line_without_end_are_counted_and_the_buffer_stays_small():
    frames = Smartpower2Frames()
    frames.feed(b"\xfe\x80\x00\x9c\n", 0)
    assert frames.counts.garbage == 1
    for _ in range(1000):
        frames.feed(b"7" * 100, 0)
    assert frames.counts.too_long == 1
    assert len(frames._rest) <= Smartpower2Frames.longest
    assert frames.feed(b"7\n" + LINE, SECOND)[0].watts == 3.416
    assert frames.counts.rejected == 2


def test_the_boot_banner_tells_the_firmware_and_counts_the_boot():
    frames = Smartpower2Frames()
    frames.feed(b"\r\n######\r\nSmartPower2 v1.60 (Serial Interface)\r\n######\r\n\r\n", 0)
    assert (frames.counts.boots, frames.firmware) == (1, "1.60")


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        # 5.161 V x 0.662 A = 3.4166 W. At 3.340 W printed: off by 0.0766, allowed 0.02 + 0.0668 = 0.0868.
        (b"5.161,0.662,3.340,0.000\n", ReadingFlag.NONE),
        # At 3.300 W printed: off by 0.1166, allowed 0.0860.
        (b"5.161,0.662,3.300,0.000\n", ReadingFlag.INCONSISTENT),
        (b"4.749,0.400,1.900,0.000\n", ReadingFlag.UNDERVOLTAGE),  # 1.8996 W
        (b"4.750,0.400,1.900,0.000\n", ReadingFlag.NONE),
        (b"5.098,0.000,0.000,0.000\n", ReadingFlag.DEAD_BAND),
        (b"4.500,0.000,0.000,0.000\n", ReadingFlag.UNDERVOLTAGE | ReadingFlag.DEAD_BAND),
        (b"4.000,0.000,0.000,0.000\n", ReadingFlag.UNDERVOLTAGE),
        (b"0.000,0.000,0.000,0.000\n", ReadingFlag.UNDERVOLTAGE),
    ],
)
def test_doubts_about_a_reading_are_flagged(line, flags):
    (reading,) = Smartpower2Frames().feed(line, 0)
    assert reading.flags == flags


def test_zeros_mean_that_the_output_is_off_where_the_line_says_so():
    (reading,) = Smartpower2Frames(zeros_mean_off=True).feed(b"0.000,0.000,0.000,0.000\r\n", 0)
    assert reading.flags == ReadingFlag.OFF


def test_lines_of_a_catch_up_burst_are_flagged_and_their_stamps_ascend():
    frames = Smartpower2Frames()
    frames.feed(LINE, 0)
    burst = frames.feed(LINE * 3, 4 * SECOND)
    assert [r.monotonic_ns - 4 * SECOND for r in burst] == [0, 1, 2]
    assert [bool(r.flags & ReadingFlag.BURST) for r in burst] == [False, True, True]
    # A fifth of the period is the border.
    assert frames.feed(LINE, 4 * SECOND + 200_000_000)[0].flags & ReadingFlag.BURST
    assert not frames.feed(LINE, 4 * SECOND + 400_000_001)[0].flags & ReadingFlag.BURST


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=200), st.just(LINE), st.just(LINE[:11])), max_size=12))
def test_any_bytes_in_any_pieces_give_what_whole_line_matching_gives(pieces):
    frames = Smartpower2Frames()
    found = [r.watts for i, piece in enumerate(pieces) for r in frames.feed(piece, i * SECOND)]
    lines = [line.strip(b"\r") for line in b"".join(pieces).split(b"\n")[:-1]]
    whole = [line for line in lines if PATTERN.match(line) and len(line) <= Smartpower2Frames.longest]
    values = [[float(text) for text in line.split(b",")] for line in whole]
    # The output gives 5.3 V at most, the chip 5 A; a Pi's watt-hours have no 13 digits in a thousand years.
    assert found == [
        watts for volts, amps, watts, hours in values if volts <= 6 and amps <= 5.2 and hours < 1e12
    ]


def test_twenty_thousand_mutated_lines_never_raise_and_seldom_lie():
    draws = generator(7, "mutations")
    frames = Smartpower2Frames()
    before, lies = 0, 0
    for i in range(20_000):
        line = bytearray(LINE)
        at = int(draws.integers(len(line)))
        match int(draws.integers(4)):
            case 0:
                del line[at]
            case 1:
                line[at] = int(draws.integers(256))
            case 2:
                del line[at : at + int(draws.integers(2, 12))]
            case _:
                line[at:at] = draws.bytes(int(draws.integers(1, 12)))
        readings = frames.feed(bytes(line) + b"\n", i * SECOND)
        for reading in readings:
            lies += reading.watts != 3.416 and not reading.flags & ReadingFlag.INCONSISTENT
        before += len(readings)
    assert frames.counts.accepted == before
    # The lines carry no checksum: a changed last digit passes. It must stay rare, it cannot be none.
    assert 0 < lies < 400
    assert frames.counts.rejected > 10_000


def test_a_single_lost_byte_never_passes_as_another_power():
    for at in range(len(LINE)):
        frames = Smartpower2Frames()
        readings = frames.feed(LINE[:at] + LINE[at + 1 :] + LINE, 0)
        good = [r for r in readings if not r.flags & ReadingFlag.INCONSISTENT]
        assert {r.watts for r in good} <= {3.416}
