"""Experiment files: TOML in, one validated frozen Experiment out, every mistake reported at once."""

from roambench.controller.config.energy_section import EnergySection
from roambench.controller.config.fleet_section import FleetSection
from roambench.controller.config.learning_section import LearningSection
from roambench.controller.config.load import from_resolved, load_experiment, resolved
from roambench.controller.config.local_section import LocalSection
from roambench.controller.config.rounds_section import RoundsSection
from roambench.controller.config.sections import Experiment
from roambench.controller.config.trace_section import TraceSection

__all__ = [
    "EnergySection",
    "Experiment",
    "FleetSection",
    "LearningSection",
    "LocalSection",
    "RoundsSection",
    "TraceSection",
    "from_resolved",
    "load_experiment",
    "resolved",
]
