"""A local fleet as the product starts it, without an experiment around it."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from roambench.contract.device_time import DeviceClock
from roambench.contract.draws import generator
from roambench.contract.events import AnyEventKind, EventKind
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.orders import Vector
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.local_agents import LocalAgents, LocalSettings
from roambench.identity.authority import CONTROLLER_NAME, Authority
from roambench.learning.layout import flatten, layout_of
from roambench.learning.models.build import build
from roambench.learning.shards import Shard, write_shard

MODEL = "mohawk_cnn"
BATCH = 8
_EXPECTED = {
    *(
        EventKind.CLOCK_OFFSET,
        EventKind.DOWNLOAD_STARTED,
        EventKind.TRAIN_STARTED,
        EventKind.TRAIN_FINISHED,
        EventKind.UPLOAD_STARTED,
        EventKind.SESSION_CLOSED,
    )
}


@dataclass(slots=True)
class Seen:
    """Times (host seconds after the start) at which the controller heard of something, by device."""

    count: int
    started_s: float = field(default_factory=time.perf_counter)
    hello_s: dict[str, float] = field(default_factory=dict)
    ready_s: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # all trainers ready, or a problem

    def observe(self, device: int, name: str, kind: AnyEventKind, detail: str) -> None:
        now_s = time.perf_counter() - self.started_s
        if kind == EventKind.SESSION_OPENED:
            self.hello_s.setdefault(name, now_s)
        elif kind == EventKind.TRAINER_READY:
            self.ready_s.setdefault(name, now_s)
        elif kind not in _EXPECTED:
            self.problems.append(f"{name}: {kind}: {detail}")
        if self.problems or len(self.ready_s) == self.count:
            self.settled.set()


@dataclass(frozen=True, slots=True)
class LocalFleet:
    fleet: GrpcFleet
    agents: LocalAgents
    names: tuple[str, ...]
    model: Vector  # shape (parameters,): what everybody starts from
    seen: Seen
    folder: Path


class BoardAgents(LocalAgents):
    """Agents as boards start them: each a command of its own, which forks its trainer. Meters are emulated,
    what the boards do is not."""

    async def start(self) -> None:
        await self._start_emulator()
        for index, name in enumerate(self._names):
            path = self._folder / f"{name}.json"
            path.write_text(replace(self.settings_of(index, name), emulation=None).to_json())
            running = await self._spawn(name, "roambench.agent.cli", "run", "--settings", str(path))
            self._processes[name] = running
            self.pids[name] = running.pid

    async def stop(self) -> None:
        for name in self._names:
            if (running := self._processes.pop(name, None)) is not None:
                os.kill(running.pid, signal.SIGTERM)
                await self._end(name, running)
        await super().stop()


@asynccontextmanager
async def local_fleet(
    count: int, images: int, *, as_boards: bool = False, model_name: str = MODEL
) -> AsyncIterator[LocalFleet]:
    """`count` agents with `images` images each, meters included, all trainers ready. `as_boards`: each is
    started by its own command.

    Time runs at the host's pace, training is not stretched and no link is paced: what takes time, takes it
    because the machine is busy.
    """
    module = build(model_name, 1, 10, 1)
    layout, model = layout_of(module), flatten(module)
    names = tuple(f"pi-{number:02d}" for number in range(1, count + 1))
    clock = DeviceClock()
    authority = Authority.create()
    seen = Seen(count)
    with tempfile.TemporaryDirectory(prefix="roambench-") as name:
        folder = Path(name)
        fleet = GrpcFleet(
            FleetSettings(
                "benchmark",
                names,
                _specs(folder, names, images, model_name),
                layout.fingerprint,
                deadline_s=120.0,
            ),
            authority.issue(CONTROLLER_NAME),
            clock,
            lambda device, uuid, records: records[-1][0],
            seen.observe,
            clock_observer=lambda record: None,
        )
        address = f"127.0.0.1:{fleet.control_port}"
        emulator = _emulator(folder, names, clock)
        settings = LocalSettings(cpu_slowdown=None)
        kind = BoardAgents if as_boards else LocalAgents
        agents = kind(folder, names, address, authority, clock, settings, emulator, print)
        await fleet.start()
        seen.started_s = time.perf_counter()
        try:
            await agents.start()
            await asyncio.wait_for(seen.settled.wait(), 180)
            yield LocalFleet(fleet, agents, names, model, seen, folder)
        finally:
            await fleet.stop("measured", 20.0)
            await agents.stop()
            for problem in seen.problems:
                print(problem)


def _specs(folder: Path, names: Sequence[str], images: int, model_name: str) -> tuple[LearningSpec, ...]:
    specs = []
    for device, name in enumerate(names):
        shard = folder / "agents" / name / "shard.safetensors"
        shard.parent.mkdir(parents=True)
        pixels = generator(0, "benchmark images", device).random((images, 1, 32, 32), dtype=np.float32)
        write_shard(shard, Shard(pixels, np.arange(images, dtype=np.int64) % 10))
        specs.append(LearningSpec(model_name, 1, 10, 0.01, 0.9, 5e-4, BATCH, str(shard)))
    return tuple(specs)


def _emulator(folder: Path, names: Sequence[str], clock: DeviceClock) -> EmulatorSpec:
    meters, truth = folder / "meters", folder / "truth"
    for path in (meters, truth):
        path.mkdir()
    return EmulatorSpec(
        devices=tuple(EmulatedDevice(name=name, link_path=str(meters / f"{name}.tty")) for name in names),
        epoch_ns=clock.epoch_ns,
        time_scale=clock.time_scale,
        socket_path=str(folder / "work.sock"),
        truth_dir=str(truth),
    )
