"""Tables of an experiment file: one frozen model per table, every key with its unit, range and default.

The descriptions are the documentation: `docs/configuration.md` is made from them. Values are checked
strictly (no text for a number, no 1 for true) and an unknown key is a mistake, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, ValidationError, model_validator

from roambench.agent.settings import HostSettings
from roambench.contract.errors import ConfigError
from roambench.experiment.algorithm_section import AlgorithmSection, ParameterValue
from roambench.experiment.battery_section import BatterySection
from roambench.experiment.energy_section import EnergySection
from roambench.experiment.learning_section import LearningSection, SyntheticSection
from roambench.experiment.local_section import LocalSection
from roambench.experiment.peer_sections import (
    ContactsSection,
    DecentralisedSection,
    MobilitySection,
)
from roambench.experiment.program_section import ProgramSection
from roambench.experiment.rounds_section import RoundsSection
from roambench.experiment.simulated_section import SimulatedSection
from roambench.written.mistakes import mistakes_of
from roambench.written.toml_file import Section

DEFAULT_GENERATOR = "city"
DEFAULT_APS = 20


class TraceSection(Section):
    """The movement that is replayed: a trace file, or a generator with its parameters."""

    file: str = Field(
        "",
        description="Trace file (Parquet), relative to the experiment file.",
    )
    generator: str = Field(
        "",
        description="Generator (`roambench list generators`), drawn from the seed; without it and "
        '`file`: "city".',
    )
    parameters: dict[str, ParameterValue] = Field(
        default_factory=dict,
        description="The generator's own parameters.",
    )
    window: Literal["busiest", "first"] = Field(
        "busiest",
        description="Replayed steps: with the most devices present, or the first.",
    )
    steps: int = Field(30, ge=2, description="Length of the window.")
    offset: int = Field(0, ge=0, description="Steps at the trace's start that are left out.")
    repeat: int = Field(1, ge=1, description="How often the window is played.")

    @model_validator(mode="before")
    @classmethod
    def _name_the_default(cls, values: object) -> object:
        if isinstance(values, dict) and not values.get("file") and not values.get("generator"):
            return {**values, "generator": DEFAULT_GENERATOR}
        return values


class FleetSection(Section):
    """The number of devices and access points take part."""

    agents: int = Field(
        8,
        ge=0,
        description="Devices: the busiest of the trace; 0: all.",
    )
    aps: int | None = Field(
        None,
        ge=0,
        json_schema_extra={"expected": "an integer ≥ 0"},
        description="Access points, drawn from the trace's places; 0: the trace's own. Default: the "
        "recorded ones, else 20.",
    )
    mapping: Literal["top", "waves", "random"] = Field(
        "top",
        description="Devices that boards play: the busiest, drawn ones, or several in turn (`waves`).",
    )
    deadline_s: float = Field(
        120.0,
        gt=0.0,
        description="Device time of an order; then `timeout` (or `lost`).",
    )

    def agents_of(self, devices: int) -> int:
        """Return how many of a trace's `devices` take part."""
        return min(self.agents, devices) if self.agents else devices

    @property
    def board_names(self) -> list[str]:
        """Names of the boards where no trace says how many there are; ConfigError for "all of the trace"."""
        if not self.agents:
            raise ConfigError(["fleet.agents: expected a number of boards: 0 means all of a trace"])
        return [f"pi-{number:02d}" for number in range(1, self.agents + 1)]


class LinksSection(Section):
    """The speed of a device's data plane, and the radio model that its transfers are compared with."""

    link: Literal["native", "modelled"] = Field(
        "native",
        description="`native`: as fast as the port (or `[local]`). `modelled`: paced to MOHAWK's Eq. 2.",
    )
    port_mbit_s: float = Field(
        95.0,
        gt=0.0,
        description="What the port carries; faster modelled rates are clipped.",
    )
    model: str = Field(
        "mohawk",
        min_length=1,
        description="Link model of Eq. 1: `mohawk`, or a file of `roambench calibrate` "
        "(docs/calibrating.md).",
    )

    distance_statistics: Literal["served", "all_pairs"] = Field(
        "served",
        description="Distances of Eq. 2: to the serving AP, or to each AP.",
    )
    overhead_bytes: int = Field(
        0,
        ge=0,
        description="Eq. 1's Δ on virtual devices, per transfer.",
    )
    codec_up: str = Field(
        "identity",
        description="How devices code what they upload, like `int8` or `topk:0.01+deflate` "
        "(`roambench list codecs`, docs/codecs.md).",
    )
    codec_down: str = Field("identity", description="How models are coded that devices download.")
    codec_of: Literal["difference", "model"] = Field(
        "difference",
        description="What `codec_up` codes: what training changed of the model it began from, or the model.",
    )


class ClockSection(Section):
    """The interval at which agents' clocks are compared with the controller's."""

    period_s: float = Field(
        60.0,
        gt=0.0,
        description="Device time between bursts of clock probes (docs/clocks.md).",
    )


class HostSection(Section):
    """The interval at which a board's own state is kept beside its readings: CPU, temperature, throttle bits,
    bytes."""

    period_s: float = Field(
        5.0,
        ge=0.0,
        description="Device time between samples of the board's state; 0: none.",
    )
    during_phases: bool = Field(
        True,
        description="Also in download, train and upload.",
    )
    interface: str = Field("", description="Interface whose bytes count; empty: all but loopback.")

    def settings(self) -> HostSettings:
        """The settings that agents are given."""
        return HostSettings(self.period_s, self.during_phases, self.interface)


class InfluxdbSection(Section):
    """A time-series database for the live view; `docs/storage.md` tells how to set one up."""

    url: str = Field(
        "",
        description="Address, like `http://influx.lan:8086`; empty: none.",
    )
    bucket: str = Field("bench", min_length=1, description="Bucket, or for `v1` database or `NAME/POLICY`.")
    org: str = Field("", description="Organization of an InfluxDB 2.")
    api: Literal["v2", "v1"] = Field(
        "v2", description="`v2`: InfluxDB 2, 3, VictoriaMetrics; `v1`: InfluxDB 1.x."
    )
    token_file: str = Field(
        "",
        description="File with a write token (`v1`: user:password) on the machine that writes, in the"
        " experiment's folder or named `influx...`.",
    )
    token_env: str = Field(
        "INFLUX_TOKEN",
        description="Else this variable: `INFLUX_TOKEN`, `INFLUXDB_TOKEN`, `ROAMBENCH_INFLUX_...`.",
    )
    gzip: bool = Field(True, description="Compress what is sent.")
    via: Literal["agents", "controller"] = Field(
        "agents",
        description="Writer: each agent, or the controller what agents drained.",
    )
    store: Literal["both", "influxdb"] = Field(
        "both",
        description="`influxdb`: records are there only; reports need `--readings influxdb`.",
    )


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
        description="Learning systems, a run each (`roambench list algorithms` or `list "
        "decentralised`, not both).",
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
    program: ProgramSection = Field(default_factory=lambda: ProgramSection.model_validate({}))
    simulated: SimulatedSection = Field(default_factory=lambda: SimulatedSection.model_validate({}))
    battery: BatterySection = Field(default_factory=lambda: BatterySection.model_validate({}))
    local: LocalSection = Field(default_factory=lambda: LocalSection.model_validate({}))
    links: LinksSection = Field(default_factory=lambda: LinksSection.model_validate({}))
    energy: EnergySection = Field(default_factory=lambda: EnergySection.model_validate({}))
    clock: ClockSection = Field(default_factory=lambda: ClockSection.model_validate({}))
    host: HostSection = Field(default_factory=lambda: HostSection.model_validate({}))
    influxdb: InfluxdbSection = Field(default_factory=lambda: InfluxdbSection.model_validate({}))

    @property
    def is_program_alone(self) -> bool:
        """Return whether a program plays the run by itself, in place of a system of ours."""
        return bool(self.program.name) and self.systems == (self.program.name,)


def resolved(experiment: Experiment) -> dict[str, Any]:
    """Every key with its value, JSON-ready, for the run folder; `from_resolved` is the inverse."""
    return experiment.model_dump(mode="json")


def from_resolved(values: Mapping[str, Any], source: str = "run folder") -> Experiment:
    """The experiment a run folder recorded; its names and paths are not looked up again.

    One that was recorded before there were rests had none.
    """
    rounds = values.get("rounds")
    if isinstance(rounds, Mapping) and "rest_s" not in rounds:
        values = {**values, "rounds": {**rounds, "rest_s": 0.0}}
    try:
        return Experiment.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError([f"{source}: {mistake}" for mistake in mistakes_of(error, Experiment)]) from None
