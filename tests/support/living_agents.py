"""A bench on loopback: agents that live as services do, each with own folder, meter and control socket."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forked_commands import Command
from roambench import emulation
from roambench.agent.settings import AgentSettings, EmulationSettings, MeterSettings
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec
from roambench.provision.bench import Bench
from roambench.provision.certificates import BenchAuthority, issue_for
from roambench.provision.inventory.load import load_bench
from soaking.influxd import free_port
from ssh_server import ssh_server

_AGENT = Path(__file__).with_name("bench_agent.py")
_METERS = Path(emulation.__file__).with_name("__main__.py")


@dataclass
class LivingBench:
    """`folder` is short: socket paths end at 108 bytes."""

    folder: Path
    names: tuple[str, ...] = ("board-a", "board-b", "board-c")
    gain: float = 1.0
    odd: dict[str, dict[str, Any]] = field(default_factory=dict)  # how some meters are not as usual
    processes: dict[str, Command] = field(default_factory=dict)
    influxdb: tuple[str, str] | None = None  # address and bucket
    readers: dict[str, str] = field(default_factory=dict)  # whose meters hang where: `meter.host`

    def __post_init__(self) -> None:
        hosts = "".join(
            f'\n[[hosts]]\nname = "{name}"\naddress = "127.0.0.1"\nssh_port = {2200 + index}\n'
            f'interface = "lo"\nmeter.port = "{self.folder}/{name}/meter"\nmeter.emulated = true\n'
            f"meter.gain = {self.gain}\n" + f'meter.host = "{self.readers.get(name, "")}"\n'
            for index, name in enumerate(self.names)
        )
        influx = '\n[influxdb]\nurl = "{}"\nbucket = "{}"\n'.format(*self.influxdb) if self.influxdb else ""
        self.file.write_text(
            'state_dir = "state"\n\n[controller]\naddress = "127.0.0.1"\nlisten_host = "127.0.0.1"\n'
            f"control_port = {free_port()}\ndata_port = {free_port()}\n{influx}{hosts}"
        )
        BenchAuthority(self.bench.state_dir)
        for host in self.bench.hosts:
            place = self.folder / host.name
            place.mkdir()
            issue_for(self.bench, host).save(place / "identity")
            (place / "settings.json").write_text(self._settings(host.name).to_json())

    @property
    def file(self) -> Path:
        return self.folder / "bench.toml"

    @property
    def bench(self) -> Bench:
        return load_bench(self.file)

    def over_ssh(self, stack: ExitStack) -> None:
        """Give each board a real sshd that leads to its agent, for as long as `stack` lasts."""
        for index, name in enumerate(self.names):
            place = self.folder / f"sshd-{name}"
            place.mkdir()
            server = stack.enter_context(ssh_server(place))
            login = f'ssh_port = {server.port}\nssh_user = "root"\nssh_key = "{server.client_key}"'
            self.file.write_text(self.file.read_text().replace(f"ssh_port = {2200 + index}", login))
            server.install_agent(
                f'shift\nexec {sys.executable} -m roambench.agent.cli ctl --socket {self.socket(name)} "$@"'
            )

    def start(self) -> None:
        """Meters first, then all agents."""
        spec = EmulatorSpec(
            devices=tuple(
                EmulatedDevice(name, f"{self.folder}/{name}/meter", **self.odd.get(name, {}))
                for name in self.names
            ),
            socket_path=f"{self.folder}/work.sock",
            truth_dir=str(self.folder),
            tolerance=0.0,
            noise_per_line=0.0,
        )
        path = self.folder / "emulator.json"
        path.write_text(spec.to_json())
        self._spawn("meters", _METERS, str(path))
        while not (self.folder / "work.sock").exists():
            time.sleep(0.02)
        for name in self.names:
            self.start_agent(name)

    def start_agent(self, name: str) -> None:
        """Start it as systemd does, at boot and after every death."""
        self._spawn(name, _AGENT, f"{self.folder}/{name}/settings.json")

    def kill(self, name: str) -> None:
        """-9; its trainer dies with it."""
        self.processes[name].kill()
        self.processes[name].wait()

    def end(self, name: str) -> int:
        """SIGTERM; returns the exit status."""
        self.processes[name].send_signal(signal.SIGTERM)
        return self.processes.pop(name).wait(20)

    def stop(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def ctl(self, name: str, *words: str) -> list[Any]:
        """The lines of the answer of `roambench-agent ctl`, parsed."""
        done = subprocess.run(
            [sys.executable, "-m", "roambench.agent.cli", "ctl", "--socket", str(self.socket(name)), *words],
            capture_output=True,
            timeout=300,
            check=False,
        )
        return [json.loads(line) for line in done.stdout.splitlines()] or [{"stderr": done.stderr.decode()}]

    def status(self, name: str) -> Any:
        return self.ctl(name, "status")[0]

    def socket(self, name: str) -> Path:
        return self.folder / name / "ctl.sock"

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def _spawn(self, name: str, script: Path, argument: str) -> None:
        log = self.folder / f"{name}.log"
        with log.open("ab") as out:
            self.processes[name] = Command([argument], self.folder, out.fileno(), log, script=script)

    def _settings(self, name: str) -> AgentSettings:
        place, at = self.folder / name, self.bench.controller
        return AgentSettings(
            device=name,
            controller=f"{at.address}:{at.control_port}",
            identity_dir=str(place / "identity"),
            state_dir=str(place / "state"),
            machine_id=f"machine-of-{name}",
            meter=MeterSettings() if name in self.readers else self.bench.host(name).meter.settings,
            neighbours={
                other.name: other.meter.settings for other in self.bench.read_by(self.bench.host(name))
            },
            emulation=EmulationSettings(None, str(self.folder / "work.sock")),
            ctl_socket=str(self.socket(name)),
            influxdb=self.bench.influxdb,
        )
