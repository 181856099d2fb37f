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
from roambench.experiment.energy_section import EnergySection
from roambench.experiment.learning_section import LearningSection, SyntheticSection
from roambench.experiment.local_section import LocalSection
from roambench.experiment.peer_sections import (
    ContactsSection,
    DecentralisedSection,
    MobilitySection,
)
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
        description="Trace file (Parquet, as `roambench trace` writes it). Relative to the experiment file.",
    )
    generator: str = Field(
        "",
        description="Generator of a synthetic trace (`roambench list generators`), drawn from the "
        "experiment's seed. Not together with `file`; with neither of the two it is "
        f'"{DEFAULT_GENERATOR}".',
    )
    parameters: dict[str, ParameterValue] = Field(
        default_factory=dict,
        description="The generator's own parameters; what is left out keeps the generator's default.",
    )
    window: Literal["busiest", "first"] = Field(
        "busiest",
        description="Which consecutive steps are replayed: those in which the most devices are present, or "
        "the first ones of the trace.",
    )
    steps: int = Field(30, ge=2, description="Length of that window in steps of the trace.")
    offset: int = Field(
        0, ge=0, description="Steps at the start of the trace that the window leaves out, whichever it is."
    )
    repeat: int = Field(1, ge=1, description="How often the window is played, one time after the other.")

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
        description="Devices: the busiest this many of the trace (more than it has are refused), one agent "
        "each; 0: all of the trace.",
    )
    aps: int | None = Field(
        None,
        ge=0,
        json_schema_extra={"expected": "an integer ≥ 0"},
        description="Virtual access points, drawn from the trace's places by the seed; 0: the trace's own. "
        f"Left out: the trace's own where it recorded who was at which, else {DEFAULT_APS}, or "
        "all of its places if they are fewer.",
    )
    mapping: Literal["top", "waves", "random"] = Field(
        "top",
        description="Which devices of the trace the boards play: the busiest of the window, any (drawn by "
        "the seed), or in `waves`: a board plays several devices one after the other, each from its first to "
        "its last presence, so that the most presence is played. Data and models stay with the board.",
    )
    deadline_s: float = Field(
        120.0,
        gt=0.0,
        description="Device time an order may take; after it the answer is `timeout` (or `lost`).",
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
        description="`native`: transfers run as fast as the port (on a local fleet: as `[local]` says). "
        "`modelled`: every transfer is paced to the throughput that MOHAWK's Eq. 2 gives for the device's "
        "distance to its AP, so that a modelled LTE device really is slow.",
    )
    port_mbit_s: float = Field(
        95.0,
        gt=0.0,
        description="What the port carries in fact, with `modelled`: faster modelled rates (Wi-Fi's 1000 "
        "Mbit/s) are clipped to it, and recorded as clipped. Measure yours, for example with iperf3.",
    )
    model: str = Field(
        "mohawk",
        min_length=1,
        description="Link model (Eq. 1) for the modelled energy: `mohawk` (the paper's parameters), a file "
        "that `roambench calibrate` wrote, or its name in `links/`, beside the experiment file or in the "
        "current folder.",
    )

    distance_statistics: Literal["served", "all_pairs"] = Field(
        "served",
        description="Distances whose mean and deviation Eq. 2 maps from: of present devices to the AP that "
        "serves them (per system), or to every AP, so that all systems share one mapping.",
    )
    overhead_bytes: int = Field(
        0,
        ge=0,
        description="Eq. 1's Δ on virtual devices: bytes that protocols add to every transfer. Devices that "
        "really transfer are charged their real bytes.",
    )


class ClockSection(Section):
    """The interval at which agents' clocks are compared with the controller's."""

    period_s: float = Field(
        60.0,
        gt=0.0,
        description="Device time between two bursts of clock probes in a run, at least; they are made "
        "between steps only. One burst before and one after the run are always made.",
    )


class HostSection(Section):
    """The interval at which a board's own state is kept beside its readings: CPU, temperature, throttle bits,
    bytes."""

    period_s: float = Field(
        5.0,
        ge=0.0,
        description="Device time between two samples; 0: none. A sample that would cost more than 0.5 % of a "
        "core is taken less often.",
    )
    during_phases: bool = Field(
        True,
        description="Also in download, train and upload: a sample is kept on the board, nothing is sent.",
    )
    interface: str = Field("", description="Network interface whose bytes count; empty: all but loopback.")

    def settings(self) -> HostSettings:
        """The settings that agents are given."""
        return HostSettings(self.period_s, self.during_phases, self.interface)


class InfluxdbSection(Section):
    """A time-series database for the live view; `docs/storage.md` tells how to set one up."""

    url: str = Field(
        "",
        description="Address of an InfluxDB (or VictoriaMetrics), like `http://influx.lan:8086`, as the "
        "writer sees it. Empty: none is used.",
    )
    bucket: str = Field(
        "bench", min_length=1, description="Bucket, or for `v1` database; `NAME/POLICY` for a policy."
    )
    org: str = Field("", description="Organization of an InfluxDB 2; others ignore it.")
    api: Literal["v2", "v1"] = Field(
        "v2", description="Write endpoint: `v2` (InfluxDB 2 and 3, VictoriaMetrics) or `v1` (InfluxDB 1.x)."
    )
    token_file: str = Field(
        "",
        description="File with a token that may write (`v1`: user:password), on the machine that writes. It "
        "is never stored or logged. Relative to the experiment file; outside of that folder its name has to "
        "begin with `influx`.",
    )
    token_env: str = Field(
        "INFLUX_TOKEN",
        description="Without a `token_file`: environment variable that holds the token: `INFLUX_TOKEN`, "
        "`INFLUXDB_TOKEN` or a name that begins with `ROAMBENCH_INFLUX_`.",
    )
    gzip: bool = Field(True, description="Compress what is sent.")
    via: Literal["agents", "controller"] = Field(
        "agents",
        description="Who writes: every agent by itself, or the controller what the agents drained to it (for "
        "boards that cannot reach the database).",
    )
    store: Literal["both", "influxdb"] = Field(
        "both",
        description="`both`: the run folder gets every record, too. `influxdb`: records are there only, and "
        "reports must be asked with `--readings influxdb`.",
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
