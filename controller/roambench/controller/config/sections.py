"""What an experiment file may say: one frozen model per table, every key with its unit, range and default.

The descriptions are the documentation: `docs/configuration.md` is made from them. Values are checked
strictly (no text for a number, no 1 for true) and an unknown key is a mistake, never ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from roambench.agent.settings import HostSettings
from roambench.aggregation.attention import CosineReading
from roambench.contract.errors import ConfigError
from roambench.controller.config.algorithm_section import AlgorithmSection
from roambench.controller.config.learning_section import LearningSection, SyntheticSection
from roambench.controller.config.peer_sections import (
    ContactsSection,
    DecentralisedSection,
    MobilitySection,
)
from roambench.energy.uncertainty import UNCALIBRATED_SP2, MeterCalibration
from roambench.written.section import Section

DEFAULT_GENERATOR = "city"
#: A value of a generator's parameter, as TOML writes it.
ParameterValue = bool | int | float | str | list[int] | list[float] | list[str]


class TraceSection(Section):
    """Who is where at each step: a trace file, or a generator with its parameters."""

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
    """How many devices and access points take part."""

    agents: int = Field(
        8,
        ge=0,
        description="Devices: the busiest this many of the trace, one agent each; 0: all of the trace.",
    )
    aps: int = Field(
        20,
        ge=0,
        description="Virtual access points, drawn from the trace's places by the seed; 0: the trace's own.",
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
        """How many of a trace's `devices` take part."""
        return min(self.agents, devices) if self.agents else devices

    @property
    def board_names(self) -> list[str]:
        """Names of the boards where no trace says how many there are; ConfigError for "all of the trace"."""
        if not self.agents:
            raise ConfigError(["fleet.agents: expected a number of boards: 0 means all of a trace"])
        return [f"pi-{number:02d}" for number in range(1, self.agents + 1)]


class RoundsSection(Section):
    """The time steps: when models meet, and with which weights."""

    cloud_every_steps: int = Field(5, ge=1, description="The cloud aggregates every this many steps (k2).")
    sigma: float = Field(
        0.1, ge=0.0, description="Strength of cosine attention (MOHAWK Eq. 5 and 6); 0 is a plain mean."
    )
    cosine: CosineReading = Field(
        "flat",
        description="Reading of the cosine in Eq. 5 and 6: of whole flat models (conventional), as printed, "
        "per state-dict entry, or per column as the authors' code computes it.",
    )
    accuracy_threshold: float = Field(
        0.8, gt=0.0, le=1.0, description="The report counts the steps until the global model reaches this."
    )
    stop_at_threshold: bool = Field(
        False,
        description="A run ends at the first cloud aggregation whose model has `accuracy_threshold`, instead "
        "of with the trace. What is outstanding then is wasted (end of run).",
    )
    evaluate_every: int = Field(
        1,
        ge=1,
        description="Score the global model at every so many-th cloud aggregation (and at the last one): "
        "where the test set is large, scoring costs more than training. A threshold is met at a scored one.",
    )
    lookahead: bool = Field(
        False,
        description="Train only devices that will be seen again in time, as MOHAWK's simulator does. A bench "
        "cannot know the future, and waste loses its meaning: refused for energy reports.",
    )
    empty_sync_clears: bool = Field(
        True,
        description="A cloud aggregation that is due while no AP aggregated anything still gives up what is "
        "outstanding (MOHAWK Alg. 1 line 29).",
    )
    step_close: str = Field(
        "answers",
        pattern=r"^(answers|clock:[0-9]+(\.[0-9]+)?|trace:(0*[1-9][0-9]*(\.[0-9]+)?|0*\.[0-9]*[1-9][0-9]*))$",
        json_schema_extra={"expected": '"answers", "clock:<seconds>" or "trace:<factor>"'},
        description="When a step ends: `answers` (every order answered or past its deadline; deterministic, "
        "as fast as possible), `clock:<seconds>` (not before that much device time per step has passed, "
        "either), or `trace:<factor>` (the same, so many times faster than the trace itself; 1: in real "
        "time). Virtual devices and rehearsals wait for no clock.",
    )
    orders: str = Field(
        "system",
        pattern=r"^(system|replay:.+)$",
        json_schema_extra={"expected": '"system" or "replay:<run folder>"'},
        description="Who trains: whom the system selects, or with `replay:<run folder>` who trained in that "
        "run of the same system, seed and trace (`{system}` stands for the system's name). Models of two "
        "fleets differ in their last digits, so a selection that reads them may differ in everything after.",
    )


class SimulatedSection(Section):
    """Virtual devices (`--fleet simulated`): how many workers train, and what a device is taken to need."""

    backend: Literal["workers", "stacked", "ray"] = Field(
        "workers",
        description="Who computes the trainings: `workers`, processes of one thread each, `stacked`, one "
        "process that trains many devices' models as one batch (for GPUs; docs/simulating.md), or `ray`, "
        "single threads spread over machines by Ray (extra `[ray]`), with the models of `workers`.",
    )
    ray_address: str = Field(
        "",
        description="Ray cluster to join, `auto` or `host:port`; empty: a Ray of its own on this machine. "
        "Only for trusted networks: docs/simulating.md.",
    )
    workers: int = Field(
        0,
        ge=0,
        description="Training processes of one thread each, or threads of the one `stacked` process; 0: one "
        "per core.",
    )
    precision: Literal["float32", "float64", "tf32", "bfloat16"] = Field(
        "float32",
        description="Numbers that virtual devices compute with. `float64` is a test mode, models included: "
        "in it all backends, memory layouts and thread counts agree to 1e-9. `tf32` and `bfloat16` "
        "(autocast) are for backend `stacked` on a GPU; models stay float32.",
    )
    stack: int = Field(
        16,
        ge=1,
        description="Devices that `stacked` trains at once. More keep a GPU busy until its memory is full.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where `stacked` trains; `auto`: on the GPU if there is one."
    )
    train: Literal["when_used", "always"] = Field(
        "when_used",
        description="When a training is computed: `when_used`, as soon as its model is uploaded, so that "
        "what is wasted costs no computing (models, orders, energy and digests stay the same; no training's "
        "loss is told), or `always`, when it is ordered. Systems that choose by loss, start from what a "
        "device trained or keep models on devices compute always.",
    )
    sgd_step_s: float = Field(
        0.4, ge=0.0, description="Modelled seconds of one SGD step on a device, for the modelled energy."
    )
    upload_mbit_s: float = Field(
        20.0, ge=0.0, description="Modelled uplink where links are not modelled by distance; 0: no time."
    )
    download_mbit_s: float = Field(
        20.0, ge=0.0, description="Modelled downlink where links are not modelled by distance; 0: no time."
    )
    idle_w: float = Field(
        1.9, ge=0.0, description="Assumed draw of an idle device in watts, for the modelled energy."
    )
    train_w: float = Field(
        0.8, ge=0.0, description="Assumed draw of training above idle, in watts (one busy core of a Pi 3B+)."
    )
    power_spread: float = Field(
        0.03,
        ge=0.0,
        lt=1.0,
        description="Devices differ: each one's `idle_w` and `train_w` are drawn within ± this share.",
    )
    speed_spread: float = Field(
        0.03,
        ge=0.0,
        lt=1.0,
        description="And so are the seconds that each one needs for an SGD step, around `sgd_step_s`.",
    )
    energy_rate: Literal["distance", "transfer"] = Field(
        "distance",
        description="Throughput at which transfers are put into Eq. 1: the one that Eq. 2 gives the distance "
        "to the AP, as in MOHAWK, or the one the transfer was simulated with.",
    )

    @property
    def model_precision(self) -> Literal["float32", "float64"]:
        """Of the models themselves, whatever training computes with."""
        return "float64" if self.precision == "float64" else "float32"


class LocalSection(Section):
    """How processes on one machine stand for boards (`--fleet local`); other fleets ignore it."""

    time_scale: float = Field(
        4.0,
        ge=1.0,
        description="Seconds of device time per second of this machine. Sensible: up to 12 for 8 agents, "
        "up to 6 for 36.",
    )
    cpu_slowdown: float = Field(
        12.0, gt=0.0, description="Device seconds a board needs for one CPU-second of training here."
    )
    sgd_step_s: float = Field(
        0.0,
        ge=0.0,
        description="Device seconds of one SGD step of every board: joules then do not depend on how fast "
        "this machine is. 0: the CPU-seconds each agent measures when it starts × `cpu_slowdown`.",
    )
    upload_mbit_s: float = Field(20.0, ge=0.0, description="Emulated uplink in Mbit/s; 0: unpaced.")
    download_mbit_s: float = Field(20.0, ge=0.0, description="Emulated downlink in Mbit/s; 0: unpaced.")
    radio_spread: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="Emulated radios: α up, α down and β (one for both directions) of every board are drawn "
        "within ± this share of 10 and 5 mW per Mbit/s and 200 mW, unseen by any analysis. 0: all boards "
        "alike, 250 mW sending and 150 mW receiving besides the part per Mbit/s.",
    )
    meter_profile: str = Field(
        "smartpower2-1.6",
        description="Firmware of the emulated meters (`roambench list profiles`), one with a serial port.",
    )
    meter_interval_ms: int = Field(
        0,
        ge=0,
        description="Log interval of that firmware, where it lets one choose; 0: the profile's own.",
    )
    meter_gain: float = Field(
        1.0, gt=0.0, description="Gain every emulated sensor has: 1.03 reads 3 % too much, on purpose."
    )
    meter_gain_sd: float = Field(
        0.0, ge=0.0, description="Standard deviation of the emulated sensors' gains around `meter_gain`."
    )
    meter_stall_at_s: float = Field(
        0.0, ge=0.0, description="Device time after the start at which every emulated meter falls silent."
    )
    meter_stall_s: float = Field(
        0.0, ge=0.0, description="How long that silence lasts in device time; 0: no stall."
    )
    reply_delay_s: float = Field(
        0.0,
        ge=0.0,
        description="Chaos for tests: each answer waits a keyed random part of this, in host seconds.",
    )
    arrival: Literal["natural", "reversed"] = Field(
        "natural",
        description="Chaos for tests: `reversed` delays answers so that they arrive in the opposite order.",
    )


class LinksSection(Section):
    """How fast a device's data plane is, and which radio model its transfers are compared with."""

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


class CalibratedMeter(Section):
    """What a calibration found of one meter: it reads gain x true power + offset_w."""

    gain: float = Field(1.0, gt=0.0, description="Reading / true power, offset left out.")
    offset_w: float = Field(0.0, description="Reading in watts where nothing is drawn.")
    u_gain: float = Field(ge=0.0, description="Relative standard uncertainty of the gain.")
    u_offset_w: float = Field(0.0, ge=0.0, description="Standard uncertainty of the offset in watts.")
    date: str = Field("", description="When it was calibrated.")
    reference: str = Field("", description="Against what; meters of one reference are wrong by it together.")
    u_reference: float = Field(0.0, ge=0.0, description="The reference's share of u_gain, relative.")


class EnergySection(Section):
    """What is known of the meters, and how much idling is measured around a run."""

    calibration_file: str = Field(
        "",
        description="TOML file with a table per device or meter serial (`gain`, `offset_w`, `u_gain`, "
        "`u_offset_w`, `date`, `reference`, `u_reference`): see docs/energy.md.",
    )
    meters: dict[str, CalibratedMeter] = Field(
        default_factory=dict,
        description="The same tables, here; a table here goes before the file's. Other meters have what "
        "follows, or what is known of their type.",
    )
    gain: float = Field(1.0, gt=0.0, description="Calibrated gain of all meters: reading / true power.")
    offset_w: float = Field(0.0, description="Calibrated offset of a reading in watts.")
    u_gain: float | None = Field(
        None,
        ge=0.0,
        json_schema_extra={"expected": "a number ≥ 0"},
        description="Relative standard uncertainty of the gain; default: that of an uncalibrated meter of "
        "the type (Smart Power 2: 0.78 %).",
    )
    u_offset_w: float | None = Field(
        None,
        ge=0.0,
        json_schema_extra={"expected": "a number ≥ 0"},
        description="Standard uncertainty of the offset in watts; default: that of the type (9.8 mW).",
    )
    idle_baseline_s: float = Field(
        20.0,
        ge=0.0,
        description="Device time of idling measured before and after the run; on boards use at least 60.",
    )

    quiet: bool = Field(
        False,
        description="Agents send nothing of their own in measured phases (download, train, upload) and idle "
        "baselines: no drain, no event, no keepalive. Recommended on boards.",
    )

    def calibration(self) -> MeterCalibration:
        """Of a Smart Power 2 without a table of its own."""
        plain = UNCALIBRATED_SP2
        return MeterCalibration(
            self.gain,
            self.offset_w,
            plain.u_gain if self.u_gain is None else self.u_gain,
            plain.u_offset_w if self.u_offset_w is None else self.u_offset_w,
        )


class HostSection(Section):
    """How often a board's own state is kept beside its readings: CPU, temperature, throttle bits, bytes."""

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
        "is never stored or logged. Relative to the experiment file.",
    )
    token_env: str = Field(
        "INFLUX_TOKEN", description="Without a `token_file`: environment variable that holds the token."
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


class ClockSection(Section):
    """How often the agents' clocks are compared with the controller's."""

    period_s: float = Field(
        60.0,
        gt=0.0,
        description="Device time between two bursts of clock probes in a run, at least; they are made "
        "between steps only. One burst before and one after the run are always made.",
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
