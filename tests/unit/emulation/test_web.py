"""Browsers and shells of an emulated meter, in virtual time."""

import json

import pytest

from roambench.emulation.board import EmulatedBoard
from roambench.emulation.network.web import Frame, Smartpower2Web, YtrikozShell, YtrikozWeb
from roambench.emulation.panel import supply_volts
from roambench.emulation.profiles import Transport
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec

SECOND = 1_000_000_000


def board(profile: str, **device: object) -> EmulatedBoard:
    row = EmulatedDevice("pi", ppm=0.0, **device)  # type: ignore[arg-type]
    spec = EmulatorSpec((row,), "", "", profile=profile, tolerance=0.0)
    return EmulatedBoard(spec, 0, 0, (Transport.SERIAL, Transport.TELNET, Transport.WEBSOCKET))


def said(meter: EmulatedBoard, until_s: float, transport: Transport) -> list[bytes]:
    return [data for _, via, data in meter.advance(round(until_s * SECOND)) if via is transport]


def test_a_browser_gets_readings_after_it_asked_for_the_home_page():
    meter = board("sp2-1.6")
    web = Smartpower2Web(meter.firmware)
    first = web.enter()
    assert first is not None
    assert web.watching == ()
    frames = web.receive(first, "p0", 0)
    assert [frame.text for frame in frames] == ["o0", "w5.10", "m0", "f1.60"]
    assert web.watching == (first,)
    assert [f.text for f in web.receive(first, "p1", 0)] == ["a1", "nSmartPower2_c0ffee,192.168.4.1,12345678"]
    assert web.watching == ()


def test_zero_is_on_one_is_off_and_the_board_feels_it():
    meter = board("sp2-1.6")
    web = Smartpower2Web(meter.firmware)
    one, other = web.enter(), web.enter()
    assert (one, other) == (0, 1)
    web.receive(0, "p0", 0)
    web.receive(1, "p0", 0)
    # A change is told to the others only.
    assert web.receive(0, "o1", 10 * SECOND) == [Frame((1,), "o1")]
    assert meter.signal.watts_at(10 * SECOND) == 0.0
    assert said(meter, 13.0, Transport.TELNET)[-1] == b"0.000,0.000,0.000,0.000\r\n"
    assert web.receive(1, "o0", 20 * SECOND) == [Frame((0,), "o0")]
    assert meter.signal.energy_j(0, 25 * SECOND) == pytest.approx(1.9 * 15, abs=1e-9)


def test_watt_hours_count_ticks_while_a_browser_watches_and_stop_when_any_browser_leaves():
    meter = board("sp2-1.6")
    web = Smartpower2Web(meter.firmware)
    web.enter()
    web.enter()
    web.receive(0, "p0", 0)
    assert said(meter, 3600.0, Transport.SERIAL)[-1].endswith(b",0.000\r\n")  # not switched on
    web.receive(0, "m1", 3600 * SECOND)
    lines = said(meter, 7200.0, Transport.SERIAL)
    # 3600 ticks of 1.901 W are 1.901 Wh; the serial line is one tick behind.
    assert float(lines[-1].split(b",")[3]) == pytest.approx(1.901 - 0.0005, abs=0.0006)
    web.leave(1)
    assert web.watching == ()
    after = said(meter, 8000.0, Transport.TELNET)
    assert after[0].split(b",")[3] == after[-1].split(b",")[3]
    web.receive(0, "o1", 8000 * SECOND)
    web.receive(0, "o0", 8000 * SECOND)
    assert said(meter, 8010.0, Transport.TELNET)[-1].endswith(b",0.000\r\n")


def test_the_100_ms_firmware_counts_watt_hours_ten_times():
    meter = board("dres100")
    web = Smartpower2Web(meter.firmware)
    web.enter()
    web.receive(0, "m1", 0)
    assert float(said(meter, 360.0, Transport.TELNET)[-1].split(b",")[3]) == pytest.approx(1.901, abs=0.002)


def test_the_voltage_moves_in_steps_and_default_and_autorun_outlive_a_reset():
    assert [round(supply_volts(v), 3) for v in (4.0, 5.0, 5.1, 5.2, 5.3)] == [
        4.08,
        4.999,
        5.098,
        5.197,
        5.249,
    ]
    meter = board("sp2-1.6")
    web = Smartpower2Web(meter.firmware)
    web.enter()
    web.receive(0, "w5.20", 0)
    assert float(said(meter, 5.0, Transport.TELNET)[-1].split(b",")[0]) == pytest.approx(5.19, abs=0.002)
    web.receive(0, "v", 5 * SECOND)
    web.receive(0, "w4.50", 5 * SECOND)
    web.receive(0, "a0", 5 * SECOND)
    meter.firmware._boot(6 * SECOND)
    assert said(meter, 60.0, Transport.SERIAL)[-1].endswith(b"HTTP server started\r\n")  # and no reading
    assert meter.signal.watts_at(60 * SECOND) == 0.0
    assert meter.firmware.panel.supply_v == pytest.approx(5.1968, abs=1e-4)


def test_a_sixth_browser_finds_no_room():
    web = Smartpower2Web(board("sp2-1.6").firmware)
    assert [web.enter() for _ in range(6)] == [0, 1, 2, 3, 4, None]
    web.leave(2)
    assert web.enter() == 2


@pytest.mark.parametrize(
    "text", ["", "p", "o", "w", "wx", "m", "a", "n", "n,,,,", "z9", "\x00", "w" + "9" * 500]
)
def test_no_command_of_a_browser_upsets_the_meter(text):
    meter = board("sp2-1.6")
    web = Smartpower2Web(meter.firmware)
    web.enter()
    web.receive(0, text, 0)
    assert len(said(meter, 5.0, Transport.TELNET)) == 5


def test_ytrikoz_talks_json_and_counts_real_watt_hours():
    meter = board("ytrikoz")
    web = YtrikozWeb(meter.firmware)
    web.enter()
    (frame,) = web.receive(0, '{"page":1}', 0)
    assert json.loads(frame.text) == [{"power": 1, "wh": 0.0, "voltage": "5.10"}]
    assert web.watching == (0,)
    assert json.loads(said(meter, 3600.0, Transport.WEBSOCKET)[-1])["wh"] == pytest.approx(1.901, abs=0.002)
    web.receive(0, '{"wh":0,"power":false}', 3600 * SECOND)
    assert meter.signal.watts_at(3600 * SECOND) == 0.0
    assert said(meter, 3610.0, Transport.SERIAL) == []
    for nonsense in ("", "[]", "[" * 9000, '{"set":[1,{"voltage":"x"}]}', '{"wh":"1"}', '{"page":[]}'):
        web.receive(0, nonsense, 3610 * SECOND)


def test_enter_opens_the_ytrikoz_shell_which_switches_power():
    meter = board("ytrikoz")
    shell = YtrikozShell(meter.firmware)
    assert shell.receive(b"hello", 0) == b""
    assert shell.receive(b"\r", 0) == b"\\> "
    assert shell.active
    assert b"off" in shell.receive(b"power off\r\n", 5 * SECOND)
    assert meter.signal.watts_at(5 * SECOND) == 0.0
    assert b"power off" in shell.receive(b"show power\r", 6 * SECOND)
    shell.receive(b"power on\r", 7 * SECOND)
    assert meter.signal.watts_at(7 * SECOND) == 1.9
    shell.receive(b"\x1b", 8 * SECOND)
    assert not shell.active
