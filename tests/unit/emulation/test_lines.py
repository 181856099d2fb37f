"""How each firmware spells its lines, byte by byte."""

import pytest

from roambench.emulation import lines
from roambench.emulation.lines import Printout

BUSY = Printout(True, 5.161, 0.662, 3.416, watt_hours=0.25, watt_hours_before=0.125, meter_ms=815_169)
OFF = Printout(False, 0.0, 0.0, 0.0, meter_ms=815_169)


def test_smartpower2_prints_volts_first_on_serial_and_telnet_and_watts_first_to_browsers():
    assert lines.smartpower2_serial(BUSY) == b"5.161,0.662,3.416,0.125\r\n"
    assert lines.smartpower2_telnet(BUSY) == b"5.161,0.662,3.416,0.250\r\n"
    assert lines.smartpower2_web(BUSY) == b"d3.416,5.161,0.662,0.250"
    assert lines.smartpower2_web_old(BUSY) == b"d3.416,5.16,0.66,0.250"


def test_an_output_that_is_off_is_silence_on_serial_and_zeros_on_telnet():
    assert lines.smartpower2_serial(OFF) is None
    assert lines.smartpower2_web(OFF) is None
    assert lines.smartpower2_telnet(OFF) == b"0.000,0.000,0.000,0.000\r\n"


def test_ytrikoz_changes_its_unit_at_half_an_ampere_and_ends_lines_with_a_carriage_return():
    assert lines.ytrikoz_serial(BUSY) == b"5.16V 0.66A 3.42W\r"
    assert lines.ytrikoz_serial(Printout(True, 5.09, 0.4994, 2.54)) == b"5.09V 499mA 2.54W\r"
    assert lines.ytrikoz_serial(Printout(True, 5.09, 0.5, 2.54)) == b"5.09V 0.50A 2.54W\r"
    assert lines.ytrikoz_serial(Printout(True, 5.09, 0.012, 0.06)) == b"5.09V  12mA 0.06W\r"
    assert lines.ytrikoz_telnet(BUSY) == b'{"v":5.161,"i":0.662,"p":3.416,"wh":0.250000}\r'
    assert lines.ytrikoz_serial(OFF) is lines.ytrikoz_telnet(OFF) is None


def test_smartpower3_checksums_are_those_of_a_line_that_a_real_meter_printed():
    line = b"0000815169,15296,0036,00550,0,00000,0000,00000,0,00,00000,0000,00000,0,00,"
    assert lines._checksums(line, cast=True) == lines._checksums(line, cast=False) == b"14,12"


def test_smartpower3_lines_have_their_published_lengths():
    assert lines.smartpower3_2_2(BUSY) == lines.smartpower3_1_8(BUSY)
    assert len(lines.smartpower3_2_2(BUSY)) == 81
    assert lines.smartpower3_2_2(BUSY).count(b",") == 16
    assert lines.smartpower3_2_2(BUSY)[31:53] == b"5161,0662,03416,1,00,0"
    assert len(lines.smartpower3_1_7(BUSY)) == 81
    assert lines.smartpower3_1_7(BUSY).endswith(b"\n\r")
    assert len(lines.smartpower3_1_6(BUSY)) == 75
    assert lines.smartpower3_1_6(BUSY).count(b",") == 14


def test_smartpower3_datagrams_have_the_flaws_of_their_firmware():
    line = lines.smartpower3_1_8(BUSY)
    with_nuls = lines.smartpower3_1_7_udp(BUSY)
    assert (len(with_nuls), with_nuls.count(b"\0")) == (85, 4)
    assert with_nuls.replace(b"\0", b"") == lines.smartpower3_1_7(BUSY)
    assert lines.smartpower3_1_8_udp(BUSY) == line[:80]
    assert lines.smartpower3_1_9_udp(BUSY) == line
    assert lines.smartpower3_1_6_tcp(BUSY).replace(b"\0", b"") == lines.smartpower3_1_6(BUSY)
    assert lines.smartpower3_1_6_tcp(BUSY).count(b"\0") == 3


def test_a_sum_of_zero_is_spelled_100_up_to_firmware_1_9():
    ms = next(
        ms
        for ms in range(10_000)
        if b",100," in lines.smartpower3_1_8(Printout(True, 5.1, 0.4, 2.0, meter_ms=ms))
    )
    at = Printout(True, 5.1, 0.4, 2.0, meter_ms=ms)
    assert sum(lines.smartpower3_2_2(at)[:74]) % 256 == 0
    assert lines.smartpower3_2_2(at)[74:77] == b"00,"
    assert len(lines.smartpower3_1_8(at)) == 82
    assert lines.smartpower3_1_8_udp(at)[74:].count(b"\r") == 0
    assert (len(lines.smartpower3_1_8_udp(at)), len(lines.smartpower3_1_9_udp(at))) == (80, 81)
    assert lines.smartpower3_1_9_udp(at)[-1:] == b"\r"
    assert len(lines.smartpower3_1_7_udp(at)) == 85


def test_an_output_that_is_off_shows_as_such_on_a_smartpower3():
    assert lines.smartpower3_2_2(OFF)[30:52] == b"00000,0000,00000,0,00,"


@pytest.mark.parametrize("watts", [0.0, 1.9, 5.1])
def test_the_input_gives_what_the_output_takes_and_the_converter_loses(watts):
    fields = lines.smartpower3_2_2(Printout(True, 5.1, watts / 5.1, watts)).split(b",")
    assert int(fields[3]) / 1000 == pytest.approx(0.6 + watts / 0.9, abs=0.001)
    assert int(fields[1]) / 1000 * int(fields[2]) / 1000 == pytest.approx(0.6 + watts / 0.9, abs=0.05)
