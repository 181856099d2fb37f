"""The emulator's orders as JSON."""

import json

import pytest

from roambench.contract.errors import ConfigError
from roambench.emulation.electric.power import PiPower
from roambench.emulation.spec import (
    EmulatedDevice,
    EmulatorSpec,
    Fault,
    FaultKind,
    fault_from_values,
    udp_address,
)


def test_a_spec_survives_json():
    spec = EmulatorSpec(
        devices=(
            EmulatedDevice("pi-01", "/tmp/a", gain=1.03, power=PiPower(idle_w=2.0)),
            EmulatedDevice("pi-02", "/tmp/b", ppm=3.5, faults=(Fault(FaultKind.STALL, 10.0, 5.0),)),
        ),
        socket_path="/tmp/s",
        truth_dir="/tmp/t",
        seed=4,
        epoch_ns=123,
        time_scale=6.0,
    )
    assert EmulatorSpec.from_json(spec.to_json()) == spec


def test_datagrams_go_to_an_ipv6_address_in_brackets():
    assert udp_address("[::1]:6000") == ("::1", 6000)
    assert udp_address("127.0.0.1:6000") == ("127.0.0.1", 6000)
    assert [udp_address(text) for text in ("::1:6000", "[]:6000", ":6000", "host", "host:0")] == [None] * 5


def test_every_mistake_is_listed_with_its_key():
    text = json.dumps(
        {
            "devices": [
                {"name": "pi", "link_path": 5},
                {"name": "pi", "link_path": "/a", "gain": "much", "faults": [{"kind": "fire"}]},
                {"link_path": "/b", "colour": 1},
            ],
            "truth_dir": "/t",
            "time_scale": True,
        }
    )
    with pytest.raises(ConfigError) as caught:
        EmulatorSpec.from_json(text, "emulator.json")
    problems = "\n".join(caught.value.problems)
    for part in (
        "emulator.json: devices[0].link_path: expected str, got 5",
        "devices[1].gain: expected float, got 'much'",
        "devices[1].faults[0].kind: expected one of drop,",
        "devices[2].name: is missing",
        "devices[2].colour: unknown key",
        "socket_path: is missing",
        "time_scale: expected float, got True",
    ):
        assert part in problems
    assert len(caught.value.problems) == 7


def test_names_and_ports_are_used_once_and_fit_a_file():
    twice = EmulatedDevice("../pi", "/a")
    spec = EmulatorSpec((twice, twice), "/s", "/t", time_scale=0.0)
    with pytest.raises(ConfigError) as caught:
        EmulatorSpec.from_json(spec.to_json())
    text = str(caught.value)
    assert "name '../pi' is used twice" in text
    assert "link_path '/a' is used twice" in text
    assert "cannot name a file" in text
    assert "time_scale: expected a number > 0" in text


@pytest.mark.parametrize("text", ["", "[]", "nonsense", "[" * 100_000])
def test_anything_else_is_a_config_error(text):
    with pytest.raises(ConfigError):
        EmulatorSpec.from_json(text)


def test_a_fault_from_the_wire_is_checked():
    assert fault_from_values({"kind": "drop", "count": 3}) == Fault(FaultKind.DROP, count=3)
    with pytest.raises(ConfigError, match="count: expected int"):
        fault_from_values({"kind": "drop", "count": 3.5})
