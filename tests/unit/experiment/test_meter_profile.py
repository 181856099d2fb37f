"""Which emulated meters an experiment may ask for."""

import pytest

from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment

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
