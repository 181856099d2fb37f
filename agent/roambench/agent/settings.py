"""What one agent is told when it starts: who it is, whom it dials, where its meter and its state are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import from_json


@dataclass(frozen=True, slots=True)
class MeterSettings:
    """Which driver of the meter catalogue reads which port; no port: this agent reads no meter."""

    driver: str = "smartpower2"
    port: str = ""
    reopen_allowed: bool = False  # True for emulated meters only: opening the port may reset a real one


@dataclass(frozen=True, slots=True)
class EmulationSettings:
    """A laptop process stands for a Pi: training lasts CPU-seconds x `cpu_slowdown` of device time.

    `cpu_slowdown` None: it lasts as long as it does on this machine.
    """

    cpu_slowdown: float | None
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
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([f"{path}: cannot be read ({error})"]) from None
        return from_json(cls, text, str(path))
