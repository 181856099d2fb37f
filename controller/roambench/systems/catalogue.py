"""The learning systems by name. Other packages add rows through the entry-point group `roambench.systems`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.systems.fedavg import fedavg, heurfedamp
from roambench.systems.hierfavg import hierfavg
from roambench.systems.macfl import macfl
from roambench.systems.middle import middle, middle_plus
from roambench.systems.middle_baselines import ensemble, fedmes, greedy, macfl_same_step, oort
from roambench.systems.mohawk import mohawk
from roambench.systems.options import SystemOptions
from roambench.systems.system import System

SystemFactory = Callable[[SystemOptions], System]

ENTRY_POINT_GROUP: Final = "roambench.systems"

#: name -> factory. A row is all that the command line, the configuration and the report need.
SYSTEMS: Final[Mapping[str, SystemFactory]] = {
    "ensemble": ensemble,
    "fedavg": fedavg,
    "fedmes": fedmes,
    "greedy": greedy,
    "heurfedamp": heurfedamp,
    "hierfavg": hierfavg,
    "macfl": macfl,
    "macfl_same_step": macfl_same_step,
    "middle": middle,
    "middle_plus": middle_plus,
    "mohawk": mohawk,
    "oort": oort,
}


def system_names() -> tuple[str, ...]:
    """All systems there are, ours and installed ones, sorted."""
    return tuple(sorted({*SYSTEMS, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))}))


def make_system(name: str, options: SystemOptions) -> System:
    """The system called `name`. ConfigError lists the names there are, or says why one cannot be loaded."""
    if name in SYSTEMS:
        return SYSTEMS[name](options)
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            factory: SystemFactory = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError([f"system {name!r} of {point.value} cannot be loaded: {error}"]) from None
        return factory(options)
    raise ConfigError([f"system {name!r}: expected one of {', '.join(system_names())}"])
