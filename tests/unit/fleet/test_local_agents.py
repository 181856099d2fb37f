"""Agents of a local run: what each is given to start with."""

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec
from roambench.fleet.local_agents import LocalAgents, LocalSettings
from roambench.identity.authority import Authority


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
    meter = agents.settings_of(0, "pi").meter
    assert (meter.driver, meter.port, meter.reopen_allowed) == (driver, port, True)


def test_an_agent_that_ends_by_the_same_mistake_in_each_life_is_hopeless(tmp_path):
    agents = LocalAgents(
        tmp_path,
        ("pi", "other"),
        "127.0.0.1:1",
        Authority.create(),
        DeviceClock(),
        LocalSettings(None),
        EmulatorSpec((), "/s", "/t"),
        print,
    )
    for name, text in (("pi", "roambench-agent pi: meter: no such driver"), ("other", "out of memory")):
        log = tmp_path / "agents" / name / "agent.log"
        log.parent.mkdir(parents=True)
        log.write_text(f"2026-12-01 pi: begins\n{text}\n")
    for _ in range(3):
        assert agents.hopeless == {}
        agents._note_mistake("pi", 2)
        agents._note_mistake("other", 1)
    assert agents.hopeless == {"pi": "roambench-agent pi: meter: no such driver"}
