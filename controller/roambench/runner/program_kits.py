"""The kits that boards need for the program that plays an experiment: one row per program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from roambench.contract.table import Table
from roambench.experiment.sections import Experiment
from roambench.provision.wheels.program_kit import ProgramKit

#: By the program's name. Rows raise ConfigError for what is no program.
PROGRAM_KITS: Final[Table[Callable[[Experiment], ProgramKit]]] = Table(
    what="program of boards",
    group="roambench.program_kits",
    own={},
)


def kit_of(experiment: Experiment) -> ProgramKit | None:
    """The kit as it is on this machine now; None where no program plays."""
    name = experiment.program.name
    return PROGRAM_KITS.load(name)(experiment) if name else None
