"""Experiment files: TOML in, one validated frozen Experiment out, every mistake reported at once."""

from roambench.controller.config.learning_section import LearningSection
from roambench.controller.config.load import from_resolved, load_experiment, resolved
from roambench.controller.config.sections import (
    EnergySection,
    Experiment,
    FleetSection,
    LocalSection,
    RoundsSection,
    TraceSection,
)

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
