"""One controller with as many agents as it can have: joining, steps, drains, deaths, and a database behind.

    python benchmarks/light_agents.py [--agents 36 200 1000 2000] [--steps 3] [--drain-s 20] [--influx]

The controller is the product's: ports, sessions, record store and journal on disk, in a process of its own.
Agents are light: the product's links, spools and drains over mutual TLS with a certificate each, in ten
processes; each spools a reading a second, downloads a model of 20 kB and uploads it as trained. A tenth of
them is killed with SIGKILL and comes back in a process that is ready. `--influx`: the controller forwards to
an InfluxDB 1.x on this machine (`influxd`); kept is then how many seconds of readings it has not forwarded,
and how late its event loop was.

"CPU" is the controller's own (user and system); "step" a round of orders to train and to upload with all
drains meanwhile. Goals at 1,000 agents: join 20 s, step 4 CPU-s, drains 35 % of a core and p50 0.3 s, 500 MB,
back in 4 s; at 2,000: no call is lost. Kinder than boards: spools are in memory (/dev/shm), the network is
this machine's, a training takes no time, phases and samples of hosts are not spooled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from setting.figures import keep

from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import AnswerStatus, TrainOrder, UploadOrder
from roambench.experiment.sections import Experiment
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.identity.authority import CONTROLLER_NAME, Authority
from roambench.runner.agents.watch import REFUSALS, Watch
from roambench.runner.influx_live import run_context
from roambench.runs.folder import RunFolder
from roambench.runs.influx.forward import InfluxForwarder
from roambench.spool.influx_settings import InfluxSettings
from soaking.influxd import Influxd, free_port

RUN: Final = "benchmark"
PROCESSES: Final = 10
PARAMETERS: Final = 5_000
SPEC: Final = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")
DATABASE: Final = "readings"
LOOK_S: Final = 0.01
JOIN_S: Final = 300.0
MEMORY: Final = "/dev/shm"


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


class Agents:
    """A process of light agents."""

    def __init__(self, folder: Path, address: str, names: Sequence[str]) -> None:
        self.names = names
        program = Path(__file__).parent / "setting" / "light_agents.py"
        self.process = subprocess.Popen(
            [sys.executable, str(program), str(folder), address, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "agents.log").open("ab"),
            text=True,
        )

    def say(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    async def heard(self) -> str:
        assert self.process.stdout is not None
        return await asyncio.to_thread(self.process.stdout.readline)


@dataclass(slots=True)
class Loop:
    """How late the controller's event loop was, host seconds."""

    late_s: list[float]

    async def follow(self) -> None:
        while True:
            due_s = time.perf_counter() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.late_s.append(time.perf_counter() - due_s)


async def told(groups: Sequence[Agents]) -> tuple[list[float], Counter[str], int]:
    """Times of answers to drains, failures of drains, and records that are still in spools."""
    answers_s: list[float] = []
    failures: Counter[str] = Counter()
    depth = 0
    for group in groups:
        group.say("tell")
        found = json.loads(await group.heard())
        answers_s += found["answers_s"]
        failures.update(found["failures"])
        depth += found["depth"]
    return answers_s, failures, depth


async def step(fleet: GrpcFleet, number: int, devices: range, model: np.ndarray) -> Counter[str]:
    """Everybody trains and uploads once; the statuses of the answers."""
    digest = fleet.publish(model + np.float32(number))
    trained = await fleet.perform(
        [TrainOrder(f"{number}/{d}/train", d, number, 0, digest, LocalTraining()) for d in devices]
    )
    sent = await fleet.perform(
        [UploadOrder(f"{number}/{d}/up", d, number, 0, f"{number}/{d}/train") for d in devices]
    )
    fleet.retain([])
    return Counter(
        f"{answer.status}: {answer.reason}"[:90]
        for answer in (*trained, *sent)
        if answer.status is not AnswerStatus.DONE
    )


async def measured(count: int, arguments: argparse.Namespace, disk: Path, memory: Path, url: str) -> None:
    names = tuple(f"pi-{number:04}" for number in range(1, count + 1))
    authority, clock = Authority.create(), DeviceClock()
    for name in names:
        authority.issue(name).save(memory / name)
    folder = RunFolder.create(
        disk / "run",
        Experiment.model_validate({"name": RUN}),
        run_id=RUN,
        system="fedavg",
        trace_hash="",
        fleet="bench",
        device_names=names,
    )
    watch, events = Watch(folder), Counter[str]()

    def observe(device: int, name: str, kind: EventKind, detail: str) -> None:
        watch.observe(device, name, kind, detail)
        events[kind] += 1
        if kind in REFUSALS:
            events[f"{kind}: {detail}"[:100]] += 1

    model = np.linspace(-1.0, 1.0, PARAMETERS, dtype=np.float32)
    fleet = GrpcFleet(
        FleetSettings(RUN, names, (SPEC,) * count, "a" * 32, deadline_s=120.0),
        authority.issue(CONTROLLER_NAME),
        clock,
        watch.store,
        observe,
        clock_observer=watch.clock_probed,
        together=watch.together,
    )
    await fleet.start()
    loop = Loop([])
    following = asyncio.create_task(loop.follow())
    address = f"127.0.0.1:{fleet.control_port}"
    groups = [Agents(memory, address, names[first::PROCESSES]) for first in range(PROCESSES)]
    spare = Agents(memory, address, groups[0].names)
    try:
        for group in (*groups, spare):
            assert await group.heard() == "ready\n"

        began_s, began_cpu_s = time.perf_counter(), cpu_s()
        for group in groups:
            group.say("go")
        try:
            await asyncio.wait_for(fleet.sessions.wait_for_count(count), JOIN_S)
        except TimeoutError:
            print(f"{count:6}  {len(fleet.sessions.all())} had joined after {JOIN_S:.0f} s", flush=True)
            return
        join_s, join_cpu_s = time.perf_counter() - began_s, cpu_s() - began_cpu_s
        await asyncio.sleep(5.0)

        lost: Counter[str] = Counter()
        quiet_s, loud_s, walls_s = [], [], []
        for number in range(2 * arguments.steps):
            if number == arguments.steps:
                for group in groups:
                    group.say("read")
                await asyncio.sleep(3.0)
            began_s, began_cpu_s = time.perf_counter(), cpu_s()
            lost += await step(fleet, number, range(count), model)
            (loud_s if number >= arguments.steps else quiet_s).append(cpu_s() - began_cpu_s)
            walls_s.append(time.perf_counter() - began_s)

        forwarder = None
        if url:
            forwarder = InfluxForwarder(
                folder.records,
                run_context(folder, "benchmark"),
                InfluxSettings(url, DATABASE, api="v1"),
                print,
                print,
                print,
            )
            forwarding = asyncio.create_task(forwarder.run())
        await asyncio.sleep(3.0)
        for group in groups:
            group.say("clear")
        loop.late_s.clear()
        began_s, began_cpu_s = time.perf_counter(), cpu_s()
        await asyncio.sleep(arguments.drain_s)
        drain_s, drain_cpu_s = time.perf_counter() - began_s, cpu_s() - began_cpu_s
        late_ms = np.percentile(loop.late_s, [50, 99, 100]) * 1e3
        answers_s, failures, depth = await told(groups)
        forwarded = ""
        if forwarder is not None:
            stored = sum(sum(folder.records.counts(name).values()) for name in names)
            forwarded = f"; {forwarder.depth:,} of {stored:,} records not forwarded"
            if count == 1000:
                keep("light_agents influx: behind", forwarder.depth / count)  # a reading a second each
                keep("light_agents influx: late", late_ms[1])
            forwarding.cancel()
            await asyncio.gather(forwarding, return_exceptions=True)
            await forwarder.aclose()

        opened = events[EventKind.SESSION_OPENED]
        began_s = time.perf_counter()
        groups[0].process.send_signal(signal.SIGKILL)
        spare.say("go")
        while events[EventKind.SESSION_OPENED] < opened + len(spare.names):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        back_s = time.perf_counter() - began_s
        lost += await step(fleet, 2 * arguments.steps, range(count), model)
        print(
            f"{count:6}{join_s:8.1f}{join_cpu_s / count * 1e3:8.1f}{min(quiet_s):8.2f}{min(loud_s):8.2f}"
            f"{min(walls_s):8.1f}{drain_cpu_s / drain_s * 100:8.0f}{np.median(answers_s):8.3f}"
            f"{np.percentile(answers_s, 99):8.2f}{rss_mb():8.0f}{back_s:8.1f}"
            f"{sum(lost.values()) + sum(failures.values()):8}",
            flush=True,
        )
        print(
            f"       event loop late: p50 {late_ms[0]:.1f}, p99 {late_ms[1]:.0f}, most {late_ms[2]:.0f} ms; "
            f"{len(answers_s) / drain_s:,.0f} drains/s, {depth:,} records in spools{forwarded}"
        )
        if count == 1000 and not url:
            keep("light_agents 1000: join", join_s)
            keep("light_agents 1000: step", *loud_s)
            keep("light_agents 1000: drains", drain_cpu_s / drain_s * 100)
            keep("light_agents 1000: answer", float(np.median(answers_s)))
            keep("light_agents 1000: memory", rss_mb())
            keep("light_agents 1000: back", back_s)
        if count == 2000:
            keep("light_agents 2000: lost", sum(lost.values()) + sum(failures.values()))
        for what, number in (
            lost + failures + Counter({k: v for k, v in events.items() if ": " in k})
        ).items():
            print(f"       {number} x {what}")
    finally:
        following.cancel()
        for group in (*groups, spare):
            group.process.kill()
            group.process.wait()
        await fleet.stop("measured", 0.5)
        folder.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[36, 200, 1000, 2000])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--drain-s", type=float, default=20.0)
    parser.add_argument("--influx", action="store_true")
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        with ExitStack() as stack:
            disk = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roambench-")))
            where = MEMORY if Path(MEMORY).is_dir() else None
            memory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roambench-", dir=where)))
            asyncio.run(measured(arguments.agents[0], arguments, disk, memory, arguments.url))
            print((memory / "agents.log").read_text()[-2000:], file=sys.stderr, end="")
        return
    print(
        f"{'agents':>6}{'join s':>8}{'ms each':>8}{'quiet':>8}{'step':>8}{'wall s':>8}{'drain %':>8}"
        f"{'p50 s':>8}{'p99 s':>8}{'MB':>8}{'back s':>8}{'lost':>8}",
        flush=True,
    )
    more = ["--steps", str(arguments.steps), "--drain-s", str(arguments.drain_s)]
    with ExitStack() as stack:
        if arguments.influx:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="roambench-"))
            server = Influxd(Path(folder), free_port())
            server.start()
            stack.callback(server.kill)
            server.create_database(DATABASE)
            more += ["--url", server.url]
        for count in arguments.agents:
            subprocess.run([sys.executable, __file__, "--child", "--agents", str(count), *more], check=True)
    goals = ("goal", "<= 20", "", "", "<= 4", "", "<= 35", "<= 0.3", "", "<= 500", "<= 4", "0")
    print("".join(f"{goal:>8}" for goal in goals)[2:])


if __name__ == "__main__":
    main()
