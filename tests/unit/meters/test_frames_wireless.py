"""The parsers of WebSocket messages and of the ytrikoz firmware's lines, byte by byte."""

import math

import pytest

from roambench.contract.records import ReadingFlag
from roambench.meters.frames.smartpower2_websocket import Smartpower2WebsocketFrames
from roambench.meters.frames.ytrikoz import YtrikozJsonFrames, YtrikozTextFrames

SECOND = 1_000_000_000


def test_a_websocket_reading_is_watts_volts_amperes_watt_hours():
    (reading,) = Smartpower2WebsocketFrames().feed(b"d3.416,5.161,0.662,0.017", 7)
    assert (reading.volts, reading.amps, reading.watts, reading.watt_hours) == (5.161, 0.662, 3.416, 0.017)
    assert reading.flags == ReadingFlag.NONE


def test_two_decimals_are_an_old_firmware_and_mixed_ones_are_a_lost_byte():
    frames = Smartpower2WebsocketFrames()
    (old,) = frames.feed(b"d3.416,5.16,0.66,0.000", 0)
    # 5.16 x 0.66 = 3.4056; rounding alone can make 0.005 x 5.82 = 0.029 W of difference
    assert old.flags == ReadingFlag.NONE
    assert frames.feed(b"d3.416,5.16,0.662,0.000", SECOND) == []
    assert frames.feed(b"d3.416,5.161,0.66,0.000", SECOND) == []
    assert frames.counts.partial == 2


def test_a_meter_that_says_off_is_off_until_it_reads_again():
    frames = Smartpower2WebsocketFrames()
    for message in (b"o0", b"w5.10", b"m0", b"f1.60", b"a1"):
        assert frames.feed(message, 0) == []
    assert (frames.off, frames.set_volts, frames.firmware) == (False, 5.1, "1.60")
    frames.feed(b"o1", 0)
    assert frames.off
    frames.feed(b"d1.900,5.098,0.373,0.000", 0)
    assert not frames.off
    assert frames.counts.rejected == 0


def test_the_networks_password_is_kept_nowhere():
    frames = Smartpower2WebsocketFrames()
    frames.feed(b"nSmartPower2_c0ffee,192.168.4.1,sesame99", 0)
    assert frames.counts.noise == 1
    assert "sesame99" not in repr({name: getattr(frames, name) for name in vars(frames)})


@pytest.mark.parametrize(
    ("text", "amps", "flags"),
    [
        (b"5.16V 318mA 1.64W\r", 0.318, ReadingFlag.NONE),
        (b"5.16V  62mA 0.32W\r", 0.062, ReadingFlag.NONE),
        (b"5.16V   0mA 0.00W\r", 0.0, ReadingFlag.DEAD_BAND),
        (b"5.16V 0.66A 3.42W\r", 0.66, ReadingFlag.NONE),
        # 5.16 x 0.66 = 3.4056 W. Allowed: 0.02 W + 2 % of 3.30 + rounding 0.034 = 0.120; 3.28 W is 0.126 off
        (b"5.16V 0.66A 3.30W\r", 0.66, ReadingFlag.NONE),
        (b"5.16V 0.66A 3.28W\r", 0.66, ReadingFlag.INCONSISTENT),
        (b"4.70V 0.66A 3.10W\r", 0.66, ReadingFlag.UNDERVOLTAGE),
    ],
)
def test_ytrikoz_serial_has_two_ways_to_say_amperes(text, amps, flags):
    (reading,) = YtrikozTextFrames().feed(text, 0)
    assert (reading.amps, reading.flags) == (amps, flags)
    assert math.isnan(reading.watt_hours)


def test_ytrikoz_serial_ends_lines_with_a_carriage_return_alone():
    frames = YtrikozTextFrames()
    assert frames.feed(b"5.16V 318mA 1.64W", 0) == []
    (first,) = frames.feed(b"\r5.16V 320mA 1.65W", 5)
    assert (first.watts, first.monotonic_ns) == (1.64, 5)
    (second,) = frames.feed(b"\r\n[psu] off\r\n", SECOND)
    assert second.watts == 1.65
    assert frames.counts.noise == 1


@pytest.mark.parametrize(
    "text",
    [
        b'{"v":5.161,"i":0.662,"p":3.416}\r',
        b'{"v":5.161,"i":0.662,"p":3.416,"wh":0.001234,"x":1}\r',
        b'{"v":NaN,"i":0.662,"p":3.416,"wh":0.001234}\r',
        b'{"v":5.16,"i":0.662,"p":3.416,"wh":0.001234}\r',
        b"[" * 5000 + b"\r",
    ],
)
def test_other_json_than_the_firmwares_own_is_no_reading(text):
    frames = YtrikozJsonFrames()
    assert frames.feed(text, 0) == []
    assert frames.counts.rejected == 1


def test_ytrikoz_json_is_a_reading_four_times_a_second_without_being_a_burst():
    frames = YtrikozJsonFrames()
    text = b'{"v":5.161,"i":0.662,"p":3.416,"wh":0.001234}\r'
    readings = [r for i in range(4) for r in frames.feed(text, i * SECOND // 4)]
    assert [r.flags for r in readings] == [ReadingFlag.NONE] * 4
    assert readings[0].watt_hours == 0.001234
