"""Ports as people write them, and what each driver makes of them."""

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError
from roambench.meters.catalogue import driver_row, open_meter, wired_names
from roambench.meters.power_switch import Unavailable, power_switch
from roambench.meters.traits import SMARTPOWER3_INTERVALS_MS, TRAITS, smartpower3_row
from roambench.meters.websocket_switch import Smartpower2Switch, YtrikozSwitch


def test_an_address_may_have_options():
    port = driver_row("smartpower3").port("/dev/serial/by-id/usb-x?channel=in&interval_ms=100&serial=SP3-7")
    assert port.address == "/dev/serial/by-id/usb-x"
    assert dict(port.options) == {"channel": "in", "interval_ms": "100", "serial": "SP3-7"}
    described = driver_row("smartpower3").description(port)
    assert (described.traits, described.nominal_s, described.serial) == ("smartpower3-100ms", 0.1, "SP3-7")


@pytest.mark.parametrize(
    ("driver", "port", "complaint"),
    [
        ("smartpower2", "", "expected an address"),
        ("smartpower2", "/dev/tty\nUSB0", "expected an address"),
        ("smartpower2", "/dev/ttyUSB0?", "expected OPTION=VALUE"),
        ("smartpower2", "/dev/ttyUSB0?channel=1", "expected OPTION=VALUE with one of period_s"),
        ("smartpower2", "/dev/ttyUSB0?period_s=1&period_s=2", "period_s is given twice"),
        ("smartpower2", "/dev/ttyUSB0?period_s=0", "period_s: expected a number > 0, got '0'"),
        ("smartpower2", "/dev/ttyUSB0?period_s=nan", "period_s: expected a number > 0"),
        ("smartpower3", "/dev/ttyUSB0?channel=2", "channel: expected one of in, 0, 1, got '2'"),
        ("smartpower3", "/dev/ttyUSB0?baud=300", "baud: expected one of 9600"),
        ("smartpower3", "/dev/ttyUSB0?interval_ms=20", "interval_ms: expected one of 5, 10, 50"),
        ("smartpower2-telnet", "host:0", "expected HOST or HOST:PORT"),
        ("smartpower2-telnet", "host:65536", "expected HOST or HOST:PORT"),
        ("smartpower2-telnet", "host:", "expected HOST or HOST:PORT"),
        ("smartpower2-telnet", "::1", "expected HOST or HOST:PORT"),
        ("smartpower2-telnet", "[::1", "expected HOST or HOST:PORT"),
        ("smartpower2-websocket", "ws://192.168.4.1", "expected HOST or HOST:PORT"),
        ("smartpower3-udp", ":6000", "expected HOST or HOST:PORT"),
    ],
)
def test_a_mistake_in_a_port_is_named_with_what_was_expected(driver, port, complaint):
    with pytest.raises(ConfigError) as caught:
        open_meter(driver, port, DeviceClock(), reopen_allowed=True)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(f"meter {driver}, port {port!r}: ")


@pytest.mark.parametrize(
    ("text", "where"),
    [("host", ("host", 23)), ("host:24", ("host", 24)), ("[::1]", ("::1", 23)), ("[::1]:9", ("::1", 9))],
)
def test_a_host_may_come_without_its_port(text, where):
    assert driver_row("smartpower2-telnet").port(text).host_port(23) == where


def test_every_driver_tells_traits_that_there_are():
    for name in wired_names():
        row = driver_row(name)
        described = row.description(row.port("localhost"))
        assert TRAITS.load(described.traits).nominal_s > 0
        assert described.driver == name == row.name
        assert row.summary
        assert row.address


def test_a_smart_power_3_has_a_row_of_traits_for_each_interval():
    assert smartpower3_row(0.0) == "smartpower3"
    assert [TRAITS.load(smartpower3_row(ms / 1000)).nominal_s for ms in SMARTPOWER3_INTERVALS_MS] == [
        0.005,
        0.01,
        0.05,
        0.1,
        0.5,
        1.0,
    ]
    assert smartpower3_row(0.0135) == "smartpower3"  # 10 ms, as late as it really is
    slow, fast = TRAITS.load("smartpower3-1000ms"), TRAITS.load("smartpower3")
    # 500 samples at 800 a second; 5 samples, and the chip's own mean over 7.8 ms
    assert slow.window_s == pytest.approx(0.625, abs=0.01)
    assert fast.window_s == pytest.approx(0.0128, abs=1e-4)
    assert fast.latch_s == 0.0


def test_power_is_unavailable_where_nothing_can_switch_and_the_reason_is_told():
    for driver, reason in (
        ("smartpower2", "the serial port only talks; name a wifi_hop gateway to the meter's Wi-Fi"),
        ("smartpower2-ytrikoz", "the serial port only talks"),
        ("smartpower3", "a Smart Power 3 is switched by its buttons only"),
        ("smartpower3-udp", "a Smart Power 3 is switched by its buttons only"),
        ("replay", "the driver replay has no switch"),
        ("ina", "the driver ina has no switch"),
    ):
        switch = power_switch(driver, "localhost")
        assert isinstance(switch, Unavailable)
        assert str(switch).startswith(f"power: unavailable ({reason}")


@pytest.mark.parametrize(
    ("driver", "port", "hop", "uri"),
    [
        ("smartpower2", "/dev/ttyUSB0", "gate:9081", "ws://gate:9081/"),
        ("smartpower2", "/dev/ttyUSB0?wifi=gate", "", "ws://gate:81/"),
        ("smartpower2-100ms", "/dev/ttyUSB0?wifi=[fe80::1]:82", "", "ws://[fe80::1]:82/"),
        ("smartpower2-telnet", "10.0.0.7:2323", "", "ws://10.0.0.7:81/"),
        ("smartpower2-websocket", "10.0.0.7:9081", "", "ws://10.0.0.7:9081/"),
        ("smartpower2-ytrikoz", "/dev/ttyUSB0", "meter", "ws://meter:80/ws"),
        ("smartpower2-ytrikoz-telnet", "meter:23", "", "ws://meter:80/ws"),
    ],
)
def test_the_switch_is_the_meters_websocket_at_its_host_or_behind_a_gateway(driver, port, hop, uri):
    switch = power_switch(driver, port, hop)
    assert isinstance(switch, YtrikozSwitch if "ytrikoz" in driver else Smartpower2Switch)
    assert switch._uri == uri


def test_a_gateways_address_is_checked():
    with pytest.raises(ConfigError, match="expected HOST or HOST:PORT, got 'gate:x'"):
        power_switch("smartpower2", "/dev/ttyUSB0", "gate:x")
