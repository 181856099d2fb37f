from pathlib import Path

import pytest

from roambench.agent.settings import AgentSettings, EmulationSettings
from roambench.contract.errors import ConfigError


def test_settings_survive_a_round_trip(tmp_path: Path) -> None:
    settings = AgentSettings(
        "pi-01", "127.0.0.1:1", "id", "state", emulation=EmulationSettings(12.0, "feed.sock"), time_scale=4.0
    )
    path = tmp_path / "agent.json"
    path.write_text(settings.to_json())
    assert AgentSettings.load(path) == settings


def test_every_mistake_is_listed_with_its_file_and_key(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text('{"device": 7, "controler": "x", "meter": {"port": 3}, "time_scale": 2}')
    with pytest.raises(ConfigError) as caught:
        AgentSettings.load(path)
    text = str(caught.value)
    assert "device: expected str, got 7" in text
    assert "controler: unknown key" in text
    assert "meter.port: expected str, got 3" in text
    assert "identity_dir: is missing" in text
    assert all(str(path) in line for line in caught.value.problems)


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text("{")
    with pytest.raises(ConfigError, match="not JSON"):
        AgentSettings.load(path)
