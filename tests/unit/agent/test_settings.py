from pathlib import Path

import pytest

from roambench.agent.settings import AgentSettings, EmulationSettings, MeterSettings
from roambench.contract.errors import ConfigError
from roambench.spool.influx_settings import InfluxSettings


def test_settings_survive_a_round_trip(tmp_path: Path) -> None:
    settings = AgentSettings(
        "pi-01", "127.0.0.1:1", "id", "state", emulation=EmulationSettings(12.0, "feed.sock"), time_scale=4.0
    )
    path = tmp_path / "agent.json"
    path.write_text(settings.to_json())
    assert AgentSettings.load(path) == settings


def test_the_way_to_a_meters_switch_survives_a_round_trip_and_is_checked(tmp_path: Path) -> None:
    def hopping(hop: str) -> AgentSettings:
        meter = MeterSettings(port="/dev/ttyUSB0", wifi_hop=hop)
        return AgentSettings("pi-01", "127.0.0.1:1", "id", "state", meter=meter)

    for hop in ("gateway", "gateway:8181", "[fe80::1]:81", ""):
        found = AgentSettings.load(saved(tmp_path, hopping(hop)))
        assert found == hopping(hop)
        assert found.meter.wifi_hop == hop
    with pytest.raises(ConfigError, match=r"meter\.wifi_hop: expected HOST or HOST:PORT, got 'gateway:x'"):
        AgentSettings.load(saved(tmp_path, hopping("gateway:x")))


def test_every_mistake_is_listed_with_its_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text('{"device": 7, "controler": "x", "meter": {"port": 3}, "time_scale": 2}')
    with pytest.raises(ConfigError) as caught:
        AgentSettings.load(path)
    text = str(caught.value)
    assert "device: expected str, got 7" in text
    assert "controler: unknown key" in text
    assert "meter.port: expected str, got 3" in text
    assert all(str(path) in line for line in caught.value.problems)


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text("{")
    with pytest.raises(ConfigError, match="not JSON"):
        AgentSettings.load(path)


def saved(tmp_path: Path, settings: AgentSettings) -> Path:
    path = tmp_path / "agent.json"
    path.write_text(settings.to_json())
    return path


def test_records_go_where_the_settings_say() -> None:
    influx = InfluxSettings("http://influx:8086", "bench")
    with_controller = AgentSettings("pi-01", "127.0.0.1:1", "id", "state")
    assert with_controller.stores == ("controller",)
    assert AgentSettings("pi-01", "127.0.0.1:1", "id", "state", influxdb=influx).stores == (
        "controller",
        "influxdb",
    )
    alone = AgentSettings("pi-01", "127.0.0.1:1", "id", "state", influxdb=influx, store_at_controller=False)
    assert alone.stores == ("influxdb",)


def test_a_meter_logger_needs_a_meter_and_a_store_and_no_certificate(tmp_path: Path) -> None:
    influx = InfluxSettings("http://influx:8086", "bench")
    logger = AgentSettings("pi-01", state_dir="s", meter=MeterSettings(port="/dev/ttyUSB0"), influxdb=influx)
    assert AgentSettings.load(saved(tmp_path, logger)) == logger
    with pytest.raises(ConfigError) as caught:
        AgentSettings.load(saved(tmp_path, AgentSettings("pi-01", "127.0.0.1:1", store_at_controller=False)))
    assert [problem.split(": ", 1)[1] for problem in caught.value.problems] == [
        "state_dir: is missing",
        "identity_dir: is missing",
        "no store: expected a controller that stores, or influxdb",
    ]
    with pytest.raises(ConfigError, match=r"meter\.port: is missing"):
        AgentSettings.load(saved(tmp_path, AgentSettings("pi-01", state_dir="s", influxdb=influx)))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("influx:8086", "expected an address like"),
        ("ftp://influx", "expected an address like"),
        ("http://me:secret@influx:8086", "without a password"),
        ("http://influx:8086/?token=x", "without a query"),
        ("http://influx:x", "not an address"),
    ],
)
def test_an_address_of_influxdb_is_checked(tmp_path: Path, url: str, problem: str) -> None:
    settings = AgentSettings("pi-01", "127.0.0.1:1", "id", "state", influxdb=InfluxSettings(url, "bench"))
    with pytest.raises(ConfigError, match=f"influxdb.url: .*{problem}"):
        AgentSettings.load(saved(tmp_path, settings))
