"""Seconds, and processor seconds, of a round of one Flower app: on our fleets and on Flower's deployment.

    python benchmarks/flower_rounds.py --flower /tmp/flower/bin/python [--rounds 3] [--repeats 2]

The app is the same, unchanged: federated averaging of six numbers, so that a round is overhead alone. Four
clients train and evaluate in each round. It writes down the time before its first round and behind each, so
that starting and stopping are not counted. Ours: local agents with emulated meters, mutual TLS, without
rests around phases and without waiting for a place in a meter's period (`rounds.rest_s = 0`,
`rounds.dither_s = 0`), which are no overhead but what a measurement takes; with both; and virtual devices.
Theirs: SuperLink, four SuperNodes and `flwr run`, as Flower's documentation starts them, without TLS and
without installing what the app needs. All take turns, so that each meets the same load. Processor seconds are
those of all processes of a run, between the first and the last of these times: load of other programs hardly
changes them.

Flower needs an environment of its own, with all that its deployment imports:

    python3 -m venv /tmp/flower && /tmp/flower/bin/pip install "flwr==1.41.0"

Goal: a round on local agents takes a twentieth of theirs at most.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from setting.figures import keep

CLIENTS = 4
GOAL = 1 / 20
#: Host seconds until a run on the deployment counts as stuck.
PATIENCE_S = 900.0
LOOK_S = 0.02
#: In the environment of all processes of a run.
MARK = "ROAMBENCH_FLOWER_ROUNDS"

PROJECT = """\
[project]
name = "rounds"
version = "1.0.0"
description = "A round is overhead alone"
license = "Apache-2.0"
dependencies = ["flwr"]
[tool.flwr.app]
publisher = "roambench"
[tool.flwr.app.components]
serverapp = "rounds.server_app:app"
clientapp = "rounds.client_app:app"
[tool.flwr.app.config]
num-server-rounds = 3
stamps = ""
"""
SERVER = """
import time

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    def stamp(server_round, arrays):
        with open(context.run_config["stamps"], "a") as file:
            file.write(f"{time.time()}\\n")
        return MetricRecord({"round": server_round})

    arrays = ArrayRecord()
    arrays["w"] = Array(np.zeros(6, np.float32))
    strategy = FedAvg(fraction_evaluate=1.0, min_available_nodes=4, min_train_nodes=4, min_evaluate_nodes=4)
    strategy.start(
        grid=grid,
        initial_arrays=arrays,
        train_config=ConfigRecord({"lr": 0.1}),
        num_rounds=context.run_config["num-server-rounds"],
        evaluate_fn=stamp,
    )
"""
CLIENT = """
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    arrays = ArrayRecord()
    arrays["w"] = Array(message.content["arrays"]["w"].numpy() + context.node_config["partition-id"])
    metrics = MetricRecord({"num-examples": 1, "train_loss": 1.0})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 1.0})}), reply_to=message)
"""


def written_app(folder: Path) -> Path:
    app = folder / "app"
    (app / "rounds").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "rounds/__init__.py").write_text("")
    (app / "rounds/server_app.py").write_text(SERVER)
    (app / "rounds/client_app.py").write_text(CLIENT)
    return app


@dataclass(frozen=True)
class Round:
    """Means of a run's rounds."""

    host_s: float
    cpu_s: float


class Stamps:
    """Waits for the times that the app writes, one before its first round and one behind each."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self.file, self._rounds = folder / "stamps", rounds
        self._mark = f"{MARK}={folder}".encode()
        self.environment = {**os.environ, MARK: str(folder)}

    def rounds(self, is_alive: Callable[[], bool]) -> Round:
        """The run's rounds, once it has them; SystemExit where it ends before."""
        end_s, cpu_s = time.monotonic() + PATIENCE_S, list[float]()
        while len(cpu_s) <= self._rounds:
            lines = self.file.read_text().splitlines() if self.file.exists() else []
            if len(lines) > len(cpu_s):
                cpu_s += [self._cpu_s()] * (len(lines) - len(cpu_s))
            elif not is_alive() or time.monotonic() > end_s:
                raise SystemExit(f"{self.file}: expected {self._rounds + 1} stamps, got {len(lines)}")
            time.sleep(LOOK_S)
        times = [float(line) for line in lines]
        return Round((times[-1] - times[0]) / self._rounds, (cpu_s[-1] - cpu_s[0]) / self._rounds)

    def _cpu_s(self) -> float:
        """Of all living processes with the mark, and of those that they have waited for."""
        total = 0
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark in (process / "environ").read_bytes().split(b"\0"):
                    fields = (process / "stat").read_text().rpartition(")")[2].split()
                    total += sum(map(int, fields[11:15]))
            except OSError:
                continue  # it has ended
        return total / os.sysconf("SC_CLK_TCK")


def ours(app: Path, folder: Path, python: str, fleet: str, rounds: int, *more: str) -> Round:
    folder.mkdir()
    stamps = Stamps(folder, rounds)
    command = [str(Path(sys.executable).with_name("roambench")), "flower", "run", str(app), "--fleet", fleet]
    command += ["--agents", str(CLIENTS), "--python", python, "--runs-dir", str(folder / "runs")]
    command += ["--run-config", f"num-server-rounds={rounds} stamps='{stamps.file}'"]
    command += ["--set", "energy.idle_baseline_s=5", *more]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=stamps.environment)
        found = stamps.rounds(lambda: process.poll() is None)
    if process.wait():
        raise SystemExit(f"{' '.join(command)}\n{(folder / 'log').read_text()[-2000:]}")
    return found


@contextmanager
def started(log: Path, environment: dict[str, str], *command: str) -> Iterator[None]:
    """A process in the body, ended behind it with all that it started."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=environment, cwd=log.parent, start_new_session=True
        )
        try:
            yield
        finally:
            for number in (15, 9):
                try:
                    os.killpg(process.pid, number)
                    process.wait(10)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def theirs(app: Path, folder: Path, python: str, rounds: int) -> Round:
    folder.mkdir()
    stamps = Stamps(folder, rounds)
    home, programs = folder / "home", Path(python).absolute().parent
    home.mkdir()
    port, *node_ports = free_ports(1 + CLIENTS)
    link = f"127.0.0.1:{port}"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{link}"\ninsecure = true\n'
    )
    environment = {**stamps.environment, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    with ExitStack() as processes:
        superlink = [str(programs / "flower-superlink"), "--insecure", "--port", str(port)]
        superlink += ["--disable-runtime-dependency-installation"]
        processes.enter_context(started(folder / "superlink.log", environment, *superlink))
        time.sleep(10.0)
        for node, node_port in enumerate(node_ports):
            supernode = [str(programs / "flower-supernode"), "--insecure", "--superlink", link]
            supernode += ["--port", str(node_port)]
            supernode += ["--node-config", f"partition-id={node} num-partitions={CLIENTS}"]
            processes.enter_context(started(folder / f"supernode-{node}.log", environment, *supernode))
        config = f'num-server-rounds={rounds} stamps="{stamps.file}"'
        run = [str(programs / "flwr"), "run", str(app), "here", "--run-config", config]
        done = subprocess.run(
            run, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(run)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return stamps.rounds(lambda: True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--flower", required=True, help="interpreter with all of flwr")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="flower-rounds-"))
    app, python, rounds = written_app(folder), str(Path(wanted.flower).absolute()), wanted.rounds
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {CLIENTS} clients, {rounds} rounds; {folder}"
    )
    rows: dict[str, list[Round]] = {}
    for repeat in range(wanted.repeats):
        for name in ("local, no waits", "deployment", "local, waits", "simulated"):
            place = folder / f"{repeat} {name}".replace(", ", "-").replace(" ", "-")
            load = os.getloadavg()[0]
            if name == "deployment":
                took = theirs(app, place, python, rounds)
            else:
                none = ("--set", "rounds.rest_s=0", "--set", "rounds.dither_s=0")
                more = none if name == "local, no waits" else ()
                took = ours(app, place, python, name.partition(",")[0], rounds, *more)
            rows.setdefault(name, []).append(took)
            print(
                f"{name:16} {took.host_s:7.2f} s, {took.cpu_s:7.2f} processor s; load {load:.1f}", flush=True
            )
    means = {
        name: Round(
            statistics.median(one.host_s for one in found), statistics.median(one.cpu_s for one in found)
        )
        for name, found in rows.items()
    }
    theirs_s = means["deployment"]
    for name, mean in means.items():
        print(
            f"{name:16} median {mean.host_s:7.2f} s, 1/{theirs_s.host_s / mean.host_s:.1f} of theirs; "
            f"{mean.cpu_s:7.2f} processor s, 1/{theirs_s.cpu_s / max(mean.cpu_s, 1e-2):.1f}"
        )
    ratio = means["local, no waits"].host_s / theirs_s.host_s
    keep("flower_rounds × deployment", ratio, limit=f"{theirs_s.host_s:.1f} s")
    print(f"goal {GOAL:.3f}: {'met' if ratio <= GOAL else 'not met'}, {ratio:.4f}")


if __name__ == "__main__":
    main()
