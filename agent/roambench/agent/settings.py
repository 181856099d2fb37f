"""Settings with which one agent starts: who it is, whom it dials, where its meter and its state are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import from_file
from roambench.meters.ports import host_port
from roambench.spool.influx_settings import APIS, InfluxSettings, url_mistake
from roambench.spool.spool import CONTROLLER

#: The spool consumer that drains to InfluxDB.
INFLUXDB: Final = "influxdb"


@dataclass(frozen=True, slots=True)
class MeterSettings:
    """The driver of the meter catalogue, and its port; no port: this agent reads no meter."""

    driver: str = "smartpower2"
    port: str = ""
    reopen_allowed: bool = False  # True: opening the port is known to reset nothing, no latch is kept
    wifi_hop: str = ""  # HOST[:PORT] of a gateway to the meter's Wi-Fi, over which its output is switched
    witness: bool = False  # keep a second, plain notebook of every reading in the state folder, for proofs


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Samples of the board itself (`agent.readings.host_metrics`): how often, and where."""

    period_s: float = 5.0  # device time between samples; 0: none are taken
    during_phases: bool = True  # False: none in download, train and upload
    interface: str = ""  # whose bytes are counted; empty: all but loopback
    sysfs: str = "/sys"
    vcgencmd: str = ""  # asked for throttle bits where /sys has none (a fork per sample); empty: never


@dataclass(frozen=True, slots=True)
class EmulationSettings:
    """A laptop process stands for a Pi: training lasts CPU-seconds x `cpu_slowdown` of device time.

    `cpu_slowdown` None: it lasts as long as it does on this machine. `sgd_step_s` above 0: every SGD step
    lasts that many device seconds, on every machine. `agent_cost`: the emulated board draws what the
    agent itself computes, too (its CPU-seconds x `cpu_slowdown`); off, idle is exactly idle.
    """

    cpu_slowdown: float | None
    work_feed: str  # unix socket of the meter emulator
    agent_cost: bool = False
    sgd_step_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ChaosSettings:
    """Deliberate disorder, by which tests prove that it changes no result.

    No key of an experiment or a bench asks for it: a test puts it into an agent's settings, on a laptop by
    `fleet.local_agents.LocalAgents.settings_of`.
    """

    random_delay_s: float = 0.0  # host seconds; each answer waits a keyed fraction of it
    fixed_delay_s: float = 0.0  # host seconds; every answer waits this long
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Without a `controller` the agent is a meter logger: it reads its meter, stores, and takes no orders.

    Records go to the controller (unless `store_at_controller` is False) and to `influxdb`, if there is one.
    With a `run` it takes part in that one, and ends with it. Without one it outlives its runs: it dials for
    ever and learns from each run's controller which run it is. How quiet a run is and how often the board is
    looked at is set by its controller, too: `quiet` and `host` hold until then.
    """

    device: str
    controller: str = ""  # host:port of the control plane
    identity_dir: str = ""  # cert.pem, key.pem, ca.pem
    state_dir: str = ""
    machine_id: str = ""  # empty: /etc/machine-id
    run: str = ""  # the one it is started for
    bench: str = ""  # where that run is made, and its learning system: tags of its records
    system: str = ""
    epoch_ns: int = 0
    time_scale: float = 1.0
    ahead_ns: int = 0  # of `contract.device_time.DeviceClock`, as the two above
    trainer_nice: int = 5
    quiet: bool = False  # send nothing while a phase is measured (agent.session.quiet)
    store_at_controller: bool = True
    meter: MeterSettings = field(default_factory=MeterSettings)
    #: Meters of other boards that this one reads, by those boards' names.
    neighbours: dict[str, MeterSettings] = field(default_factory=dict)
    host: HostSettings = field(default_factory=HostSettings)
    influxdb: InfluxSettings | None = None
    emulation: EmulationSettings | None = None
    chaos: ChaosSettings = field(default_factory=ChaosSettings)
    ctl_socket: str = ""  # unix socket that `roambench-agent ctl` asks; empty: none

    @property
    def stores(self) -> tuple[str, ...]:
        """The spool's consumers."""
        stores = [CONTROLLER] if self.controller and self.store_at_controller else []
        return (*stores, INFLUXDB) if self.influxdb is not None else tuple(stores)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Paths of what only the agent may read."""
        token = self.influxdb.token_file if self.influxdb is not None else ""
        return tuple(path for path in (self.identity_dir, token) if path)

    def to_json(self) -> str:
        """Its fields as JSON text."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def load(cls, path: Path) -> AgentSettings:
        """Read a settings file; ConfigError names the file and every key that is wrong."""
        settings = from_file(cls, path)
        problems = [f"{path}: {problem}" for problem in settings.doubts()]
        if problems:
            raise ConfigError(problems)
        return settings

    def doubts(self) -> list[str]:
        """Settings that do not fit together, one line each."""
        problems = []
        if not self.state_dir:
            problems.append("state_dir: is missing")
        if self.controller and not self.identity_dir:
            problems.append("identity_dir: is missing")
        if not self.controller and not self.meter.port:
            problems.append("meter.port: is missing (an agent without a controller reads a meter)")
        if self.meter.wifi_hop:
            try:
                host_port(self.meter.wifi_hop, 80, lambda what: ConfigError([f"meter.wifi_hop: {what}"]))
            except ConfigError as error:
                problems += error.problems
        if not self.stores:
            problems.append("no store: expected a controller that stores, or influxdb")
        if self.influxdb is not None:
            mistake = url_mistake(self.influxdb.url)
            if mistake:
                problems.append(f"influxdb.url: {mistake}")
            if self.influxdb.api not in APIS:
                problems.append(f"influxdb.api: expected one of {', '.join(APIS)}, got {self.influxdb.api!r}")
        return problems
