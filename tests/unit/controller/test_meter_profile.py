"""Which emulated meters an experiment may ask for, and that its agents' driver follows."""

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.fleet.local_agents import LocalAgents, LocalSettings
from roambench.identity.authority import Authority
from roambench.meters.emulator.spec import EmulatedDevice, EmulatorSpec

WHOLE = 'name = "meters"\n'


@pytest.fixture
def load(tmp_path):
    path = tmp_path / "meters.toml"
    path.write_text(WHOLE)
    return lambda *overrides: load_experiment(str(path), overrides)


def test_any_firmware_with_a_serial_port_will_do(load):
    local = load('local.meter_profile="smartpower3-2.2"', "local.meter_interval_ms=100").local
    assert (local.meter_profile, local.meter_interval_ms) == ("smartpower3-2.2", 100)
    assert load().local.meter_profile == "smartpower2-1.6"


@pytest.mark.parametrize(
    ("overrides", "mistake"),
    [
        (['local.meter_profile="smartpower9"'], r"meter_profile: expected one of .*smartpower3-2\.2"),
        (['local.meter_profile="smartpower2-1.3"'], "expected a firmware with serial readings"),
        (["local.meter_interval_ms=100"], "its period is fixed at 1 s"),
        (
            ['local.meter_profile="smartpower3-2.2"', "local.meter_interval_ms=20"],
            "interval 20 ms: expected one of 5, 10, 50, 100, 500, 1000",
        ),
    ],
)
def test_a_firmware_that_cannot_be_read_is_a_mistake(load, overrides, mistake):
    with pytest.raises(ConfigError, match=mistake):
        load(*overrides)


@pytest.mark.parametrize(
    ("profile", "interval_ms", "driver", "port"),
    [
        ("smartpower2-1.6", None, "smartpower2", "/m/pi.tty"),
        ("smartpower2-100ms", None, "smartpower2-100ms", "/m/pi.tty"),
        ("smartpower2-ytrikoz", None, "smartpower2-ytrikoz", "/m/pi.tty"),
        ("smartpower3-1.6", 1000, "smartpower3", "/m/pi.tty?interval_ms=1000"),
        ("smartpower3-2.2", None, "smartpower3", "/m/pi.tty?interval_ms=100"),
    ],
)
def test_the_agents_driver_follows_the_firmware(tmp_path, profile, interval_ms, driver, port):
    emulator = EmulatorSpec(
        (EmulatedDevice("pi", "/m/pi.tty"),), "/s", "/t", profile=profile, interval_ms=interval_ms
    )
    agents = LocalAgents(
        tmp_path,
        ("pi",),
        "127.0.0.1:1",
        Authority.create(),
        DeviceClock(),
        LocalSettings(None),
        emulator,
        print,
    )
    meter = agents._agent(0, "pi").meter
    assert (meter.driver, meter.port, meter.reopen_allowed) == (driver, port, True)
