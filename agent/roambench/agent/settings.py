"""What one agent is told when it starts: who it is, whom it dials, where its meter and its state are."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from roambench.contract.errors import ConfigError


@dataclass(frozen=True, slots=True)
class MeterSettings:
    """Which driver of the meter catalogue reads which port; no port: this agent reads no meter."""

    driver: str = "smartpower2"
    port: str = ""
    reopen_allowed: bool = False  # True for emulated meters only: opening the port may reset a real one


@dataclass(frozen=True, slots=True)
class EmulationSettings:
    """A laptop process stands for a Pi: training lasts CPU-seconds x `cpu_slowdown` of device time."""

    cpu_slowdown: float
    work_feed: str  # unix socket of the meter emulator


@dataclass(frozen=True, slots=True)
class ChaosSettings:
    """Deliberate disorder, for proving that it changes no result."""

    random_delay_s: float = 0.0  # host seconds; each answer waits a keyed fraction of it
    fixed_delay_s: float = 0.0  # host seconds; every answer waits this long
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    device: str
    controller: str  # host:port of the control plane
    identity_dir: str  # cert.pem, key.pem, ca.pem
    state_dir: str
    machine_id: str = ""  # empty: /etc/machine-id
    epoch_ns: int = 0
    time_scale: float = 1.0
    trainer_nice: int = 5
    meter: MeterSettings = field(default_factory=MeterSettings)
    emulation: EmulationSettings | None = None
    chaos: ChaosSettings = field(default_factory=ChaosSettings)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def load(cls, path: Path) -> AgentSettings:
        """Read a settings file; ConfigError names the file and every key that is wrong."""
        try:
            values = json.loads(path.read_text())
        except OSError as error:
            raise ConfigError([f"{path}: cannot be read ({error.strerror})"]) from None
        except ValueError as error:
            raise ConfigError([f"{path}: not JSON ({error})"]) from None
        return cls.from_values(values, str(path))

    @classmethod
    def from_values(cls, values: object, source: str) -> AgentSettings:
        problems: list[str] = []
        settings = _build(cls, values, source, "", problems)
        if problems:
            raise ConfigError(problems)
        assert isinstance(settings, AgentSettings)
        return settings


def _build(kind: type, values: object, source: str, prefix: str, problems: list[str]) -> object | None:
    """Build dataclass `kind` from a JSON object; every mistake becomes a line of `problems`."""
    if not isinstance(values, dict):
        problems.append(f"{source}: {prefix or 'settings'}: expected an object")
        return None
    hints = get_type_hints(kind)
    known = {entry.name for entry in fields(kind)}
    problems += [f"{source}: {prefix}{key}: unknown key" for key in sorted(values.keys() - known)]
    arguments: dict[str, Any] = {}
    for name in sorted(values.keys() & known):
        arguments[name] = _value(hints[name], values[name], source, f"{prefix}{name}", problems)
    missing = [
        entry.name
        for entry in fields(kind)
        if entry.name not in values and entry.default is MISSING and entry.default_factory is MISSING
    ]
    problems += [f"{source}: {prefix}{name}: is missing" for name in missing]
    built: object = None if missing else kind(**arguments)
    return built


def _value(hint: Any, value: object, source: str, key: str, problems: list[str]) -> object:
    options = [part for part in getattr(hint, "__args__", (hint,)) if part is not type(None)]
    if value is None and len(options) < len(getattr(hint, "__args__", (hint,))):
        return None
    expected = options[0]
    if is_dataclass(expected) and isinstance(expected, type):
        return _build(expected, value, source, f"{key}.", problems)
    if expected is float and type(value) is int:
        return float(value)
    if type(value) is not expected:
        problems.append(f"{source}: {key}: expected {expected.__name__}, got {value!r}")
    return value
