"""How each firmware spells its lines, byte by byte."""

import pytest

from roambench.emulation.lines import Printout, checksums
from roambench.emulation.profiles import PROFILES, Transport

SMARTPOWER2_SERIAL = PROFILES.own["smartpower2-1.6"].lines[Transport.SERIAL]
SMARTPOWER2_TELNET = PROFILES.own["smartpower2-1.6"].lines[Transport.TELNET]
SMARTPOWER2_WEB = PROFILES.own["smartpower2-1.6"].lines[Transport.WEBSOCKET]
SMARTPOWER2_WEB_OLD = PROFILES.own["smartpower2-1.1"].lines[Transport.WEBSOCKET]
YTRIKOZ_SERIAL = PROFILES.own["smartpower2-ytrikoz"].lines[Transport.SERIAL]
YTRIKOZ_TELNET = PROFILES.own["smartpower2-ytrikoz"].lines[Transport.TELNET]
SMARTPOWER3_1_6 = PROFILES.own["smartpower3-1.6"].lines[Transport.SERIAL]
SMARTPOWER3_1_6_TCP = PROFILES.own["smartpower3-1.6"].lines[Transport.TELNET]
SMARTPOWER3_1_7 = PROFILES.own["smartpower3-1.7"].lines[Transport.SERIAL]
SMARTPOWER3_1_7_UDP = PROFILES.own["smartpower3-1.7"].lines[Transport.UDP]
SMARTPOWER3_1_8 = PROFILES.own["smartpower3-1.8"].lines[Transport.SERIAL]
SMARTPOWER3_1_8_UDP = PROFILES.own["smartpower3-1.8"].lines[Transport.UDP]
SMARTPOWER3_1_9_UDP = PROFILES.own["smartpower3-1.9"].lines[Transport.UDP]
SMARTPOWER3_2_2 = PROFILES.own["smartpower3-2.2"].lines[Transport.SERIAL]

BUSY = Printout(True, 5.161, 0.662, 3.416, watt_hours=0.25, watt_hours_before=0.125, meter_ms=815_169)
OFF = Printout(False, 0.0, 0.0, 0.0, meter_ms=815_169)


def test_smartpower2_prints_volts_first_on_serial_and_telnet_and_watts_first_to_browsers():
    assert SMARTPOWER2_SERIAL(BUSY) == b"5.161,0.662,3.416,0.125\r\n"
    assert SMARTPOWER2_TELNET(BUSY) == b"5.161,0.662,3.416,0.250\r\n"
    assert SMARTPOWER2_WEB(BUSY) == b"d3.416,5.161,0.662,0.250"
    assert SMARTPOWER2_WEB_OLD(BUSY) == b"d3.416,5.16,0.66,0.250"


def test_an_output_that_is_off_is_silence_on_serial_and_zeros_on_telnet():
    assert SMARTPOWER2_SERIAL(OFF) is None
    assert SMARTPOWER2_WEB(OFF) is None
    assert SMARTPOWER2_TELNET(OFF) == b"0.000,0.000,0.000,0.000\r\n"


def test_ytrikoz_changes_its_unit_at_half_an_ampere_and_ends_lines_with_a_carriage_return():
    assert YTRIKOZ_SERIAL(BUSY) == b"5.16V 0.66A 3.42W\r"
    assert YTRIKOZ_SERIAL(Printout(True, 5.09, 0.4994, 2.54)) == b"5.09V 499mA 2.54W\r"
    assert YTRIKOZ_SERIAL(Printout(True, 5.09, 0.5, 2.54)) == b"5.09V 0.50A 2.54W\r"
    assert YTRIKOZ_SERIAL(Printout(True, 5.09, 0.012, 0.06)) == b"5.09V  12mA 0.06W\r"
    assert YTRIKOZ_TELNET(BUSY) == b'{"v":5.161,"i":0.662,"p":3.416,"wh":0.250000}\r'
    assert YTRIKOZ_SERIAL(OFF) is YTRIKOZ_TELNET(OFF) is None


def test_smartpower3_checksums_are_those_of_a_line_that_a_real_meter_printed():
    line = b"0000815169,15296,0036,00550,0,00000,0000,00000,0,00,00000,0000,00000,0,00,"
    assert checksums(line, cast=True) == checksums(line, cast=False) == "14,12"


def test_smartpower3_lines_have_their_published_lengths():
    assert SMARTPOWER3_2_2(BUSY) == SMARTPOWER3_1_8(BUSY)
    assert len(SMARTPOWER3_2_2(BUSY)) == 81
    assert SMARTPOWER3_2_2(BUSY).count(b",") == 16
    assert SMARTPOWER3_2_2(BUSY)[31:53] == b"5161,0662,03416,1,00,0"
    assert len(SMARTPOWER3_1_7(BUSY)) == 81
    assert SMARTPOWER3_1_7(BUSY).endswith(b"\n\r")
    assert len(SMARTPOWER3_1_6(BUSY)) == 75
    assert SMARTPOWER3_1_6(BUSY).count(b",") == 14


def test_smartpower3_datagrams_have_the_flaws_of_their_firmware():
    line = SMARTPOWER3_1_8(BUSY)
    with_nuls = SMARTPOWER3_1_7_UDP(BUSY)
    assert (len(with_nuls), with_nuls.count(b"\0")) == (85, 4)
    assert with_nuls.replace(b"\0", b"") == SMARTPOWER3_1_7(BUSY)
    assert SMARTPOWER3_1_8_UDP(BUSY) == line[:80]
    assert SMARTPOWER3_1_9_UDP(BUSY) == line
    assert SMARTPOWER3_1_6_TCP(BUSY).replace(b"\0", b"") == SMARTPOWER3_1_6(BUSY)
    assert SMARTPOWER3_1_6_TCP(BUSY).count(b"\0") == 3


def test_a_sum_of_zero_is_spelled_100_up_to_firmware_1_9():
    ms = next(
        ms for ms in range(10_000) if b",100," in SMARTPOWER3_1_8(Printout(True, 5.1, 0.4, 2.0, meter_ms=ms))
    )
    at = Printout(True, 5.1, 0.4, 2.0, meter_ms=ms)
    assert sum(SMARTPOWER3_2_2(at)[:74]) % 256 == 0
    assert SMARTPOWER3_2_2(at)[74:77] == b"00,"
    assert len(SMARTPOWER3_1_8(at)) == 82
    assert SMARTPOWER3_1_8_UDP(at)[74:].count(b"\r") == 0
    assert (len(SMARTPOWER3_1_8_UDP(at)), len(SMARTPOWER3_1_9_UDP(at))) == (80, 81)
    assert SMARTPOWER3_1_9_UDP(at)[-1:] == b"\r"
    assert len(SMARTPOWER3_1_7_UDP(at)) == 85


def test_an_output_that_is_off_shows_as_such_on_a_smartpower3():
    assert SMARTPOWER3_2_2(OFF)[30:52] == b"00000,0000,00000,0,00,"


@pytest.mark.parametrize("watts", [0.0, 1.9, 5.1])
def test_the_input_gives_what_the_output_takes_and_the_converter_loses(watts):
    fields = SMARTPOWER3_2_2(Printout(True, 5.1, watts / 5.1, watts)).split(b",")
    assert int(fields[3]) / 1000 == pytest.approx(0.6 + watts / 0.9, abs=0.001)
    assert int(fields[1]) / 1000 * int(fields[2]) / 1000 == pytest.approx(0.6 + watts / 0.9, abs=0.05)
