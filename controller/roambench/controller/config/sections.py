"""What an experiment file may say: one frozen model per table, every key with its unit, range and default.

The descriptions are the documentation: `docs/configuration.md` is made from them. Values are checked
strictly (no text for a number, no 1 for true) and an unknown key is a mistake, never ignored.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from roambench.controller.config.algorithm_section import AlgorithmSection
from roambench.controller.config.clock_section import ClockSection
from roambench.controller.config.energy_section import EnergySection
from roambench.controller.config.fleet_section import FleetSection
from roambench.controller.config.host_section import HostSection
from roambench.controller.config.influxdb_section import InfluxdbSection
from roambench.controller.config.learning_section import LearningSection, SyntheticSection
from roambench.controller.config.links_section import LinksSection
from roambench.controller.config.local_section import LocalSection
from roambench.controller.config.peer_sections import (
    ContactsSection,
    DecentralisedSection,
    MobilitySection,
)
from roambench.controller.config.rounds_section import RoundsSection
from roambench.controller.config.simulated_section import SimulatedSection
from roambench.controller.config.trace_section import TraceSection
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
