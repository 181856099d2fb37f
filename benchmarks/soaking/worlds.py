"""The experiments that are soaked: short, real, and slow enough on their links to be hit in the middle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

AGENTS: Final = 4
NAMES: Final = tuple(f"pi-{number:02d}" for number in range(1, AGENTS + 1))
#: Of the hosts in containers (tests/hosts).
HOSTS: Final = ("pi1", "pi2", "pi3")
TIME_SCALE: Final = 6.0
#: Host seconds that an order may take: no fault of one run alone lasts nearly so long.
DEADLINE_S: Final = 150.0

_COMMON: Final = """
name = "soak"
seed = 11

[fleet]
agents = %(agents)d
deadline_s = %(deadline_s)s
%(fleet)s

[learning]
dataset = "digits"
model = "mlp"
images_per_device = 40
test_images = 200
local_epochs = %(epochs)d

%(local)s
[energy]
idle_baseline_s = 3.0
quiet = %(quiet)s
"""
_LOCAL: Final = f"""[local]
time_scale = {TIME_SCALE}
sgd_step_s = 0.6
upload_mbit_s = 0.02
download_mbit_s = 0.04
notes = true
"""
_ROUNDS: Final = """
systems = ["%(system)s"]

[trace]
generator = "city"
window = "first"
steps = 8

[trace.parameters]
presence = "always"
devices = %(agents)d
steps = 8
places = 200
aps = 20

[rounds]
cloud_every_steps = 3
rest_s = 0.0
"""
_PEERS: Final = """
systems = ["%(system)s"]

[decentralised]
iterations = 6
evaluate_every = 3
half_step = "epochs"
exchange_deadline_s = %(deadline_s)s

[rounds]
rest_s = 0.0

[mobility]
model = "random"
grid = 3
mobile = 2

[contacts]
radius = 2.0
"""


@dataclass(frozen=True)
class World:
    """An experiment: which fleet carries it out under faults, with which system. `reference` names what it
    must end like: worlds of one reference learn the same."""

    system: str
    fleet: str = "local"
    peers: bool = False
    quiet: bool = False
    influxdb: bool = False
    epochs: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of its devices."""
        return HOSTS if self.fleet == "bench" else NAMES

    @property
    def time_scale(self) -> float:
        """Device seconds of a host second."""
        return TIME_SCALE if self.fleet == "local" else 1.0

    @property
    def reference(self) -> str:
        return f"soak/latest/{self.system}"

    def text(self, more: str = "") -> str:
        """The experiment's file, with `more` lines at its end."""
        scale = 1.0 if self.fleet == "bench" else TIME_SCALE
        words: Mapping[str, str | float] = {
            "agents": len(self.names),
            "deadline_s": DEADLINE_S * scale,
            "epochs": self.epochs,
            "local": "" if self.fleet == "bench" else _LOCAL,
            "system": self.system,
            "fleet": "" if self.peers else "aps = 5",
            "quiet": str(self.quiet).lower(),
        }
        head, tail = _COMMON.split("\n\n", 1)
        first, *tables = ((_PEERS if self.peers else _ROUNDS) % words).split("\n\n")
        return "\n\n".join([head + first, tail % words, *tables, more])


WORLDS: Final[Mapping[str, World]] = {
    "rounds": World("mohawk"),
    "quiet rounds": World("mohawk", quiet=True),
    "kept models": World("middle"),
    "peers": World("metropolis_hastings", peers=True),
    "influxdb": World("mohawk", influxdb=True),
    "hosts": World("mohawk", fleet="bench", epochs=200),
    "hosts' peers": World("metropolis_hastings", fleet="bench", peers=True, epochs=200),
    "virtual": World("middle", fleet="simulated", epochs=80),
    "virtual peers": World("metropolis_hastings", fleet="simulated", peers=True, epochs=80),
}
