"""Tables of an experiment file: one frozen model per table, every key with its unit, range and default.

The descriptions are the documentation: `docs/configuration.md` is made from them. Values are checked
strictly (no text for a number, no 1 for true) and an unknown key is a mistake, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, Strict, ValidationError

from roambench.contract.errors import ConfigError
from roambench.experiment.algorithm_section import AlgorithmSection
from roambench.experiment.clock_section import ClockSection
from roambench.experiment.energy_section import EnergySection
from roambench.experiment.fleet_section import FleetSection
from roambench.experiment.host_section import HostSection
from roambench.experiment.influxdb_section import InfluxdbSection
from roambench.experiment.learning_section import LearningSection, SyntheticSection
from roambench.experiment.links_section import LinksSection
from roambench.experiment.local_section import LocalSection
from roambench.experiment.peer_sections import (
    ContactsSection,
    DecentralisedSection,
    MobilitySection,
)
from roambench.experiment.rounds_section import RoundsSection
from roambench.experiment.simulated_section import SimulatedSection
from roambench.experiment.trace_section import TraceSection
from roambench.written.mistakes import mistakes_of
from roambench.written.section import Section


class Experiment(Section):
    """One experiment: the same file runs on every fleet."""

    name: str = Field(
        "experiment",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        json_schema_extra={"expected": "letters, digits, dot, dash and underscore, at most 64"},
        description="Names the run folders.",
    )
    seed: int = Field(42, ge=0, description="Every random draw of the run is keyed by it.")
    systems: Annotated[tuple[str, ...], Strict(False)] = Field(
        ("mohawk", "hierfavg"),
        min_length=1,
        description="Learning systems (`roambench list algorithms`, or `roambench list decentralised`; not "
        "both in one file): one run each, then compared.",
    )
    trace: TraceSection = Field(default_factory=lambda: TraceSection.model_validate({}))
    fleet: FleetSection = Field(default_factory=lambda: FleetSection.model_validate({}))
    learning: LearningSection = Field(default_factory=lambda: LearningSection.model_validate({}))
    synthetic: SyntheticSection = Field(default_factory=lambda: SyntheticSection.model_validate({}))
    rounds: RoundsSection = Field(default_factory=lambda: RoundsSection.model_validate({}))
    algorithm: AlgorithmSection = Field(default_factory=lambda: AlgorithmSection.model_validate({}))
    decentralised: DecentralisedSection = Field(
        default_factory=lambda: DecentralisedSection.model_validate({})
    )
    mobility: MobilitySection = Field(default_factory=lambda: MobilitySection.model_validate({}))
    contacts: ContactsSection = Field(default_factory=lambda: ContactsSection.model_validate({}))
    simulated: SimulatedSection = Field(default_factory=lambda: SimulatedSection.model_validate({}))
    local: LocalSection = Field(default_factory=lambda: LocalSection.model_validate({}))
    links: LinksSection = Field(default_factory=lambda: LinksSection.model_validate({}))
    energy: EnergySection = Field(default_factory=lambda: EnergySection.model_validate({}))
    clock: ClockSection = Field(default_factory=lambda: ClockSection.model_validate({}))
    host: HostSection = Field(default_factory=lambda: HostSection.model_validate({}))
    influxdb: InfluxdbSection = Field(default_factory=lambda: InfluxdbSection.model_validate({}))


def resolved(experiment: Experiment) -> dict[str, Any]:
    """Every key with its value, JSON-ready, for the run folder; `from_resolved` is the inverse."""
    return experiment.model_dump(mode="json")


def from_resolved(values: Mapping[str, Any], source: str = "run folder") -> Experiment:
    """The experiment a run folder recorded; its names and paths are not looked up again."""
    try:
        return Experiment.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError([f"{source}: {mistake}" for mistake in mistakes_of(error, Experiment)]) from None
