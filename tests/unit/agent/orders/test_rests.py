"""Rests around what is measured: the phases that orders leave, on a clock that runs faster than the host."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from agent_ports import Follower, Records, Voice, reporter
from fixed_dial import FixedDial
from roambench.agent.board_load import BoardLoad
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.queue import OrderQueue
from roambench.agent.orders.worker import Worker
from roambench.agent.orders.workplace import Workplace
from roambench.agent.readings.timeline import PhaseTimeline
from roambench.agent.session.data_link import DataLink, ModelTransfer
from roambench.agent.session.quiet import Quiet
from roambench.agent.settings import ChaosSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.model_blob import decode, encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Answer, GivenOrder, IdleOrder, Order, SyncOrder, TrainOrder, UploadOrder
from roambench.contract.phases import Moved, Phase, PhaseSpan
from roambench.contract.records import RecordKind, phase_from_bytes
from roambench.contract.session import AgentWord

pytestmark = pytest.mark.asyncio

REST_S = 4.0
SCALE = 20.0
TOLERANCE_S = 0.05  # of a clock that runs 20 times faster: a timer may be 2 ms early
SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")
BLOB = encode(np.zeros(1000, np.float32), "a" * 32)
TRAIN = TrainOrder("r/0/0/train", 0, 0, 0, digest_of(BLOB), LocalTraining(1, 7))
UPLOAD = UploadOrder("r/1/0/upload", 0, 1, 0, TRAIN.order_id)
SYNC = SyncOrder("r/1/0/sync", 0, 1, 0, digest_of(BLOB))


class Link:
    """Moves the model in a device second, both ways."""

    async def download(self, *ignored: object, coded: bool = False) -> tuple[bytes, ModelTransfer]:
        await asyncio.sleep(1.0 / SCALE)
        return BLOB, ModelTransfer(Moved(len(BLOB)), 1.0)

    async def upload(self, *ignored: object) -> ModelTransfer:
        await asyncio.sleep(1.0 / SCALE)
        return ModelTransfer(Moved(len(BLOB)), 1.0)


@dataclass
class Device:
    """An agent's order queue with a trainer that takes `computes_s` host seconds; the board is done after
    8 SGD steps of `sgd_step_s` (0: it is a real one)."""

    folder: Path
    rest_s: float = REST_S
    computes_s: float = 0.0
    sgd_step_s: float = 0.0
    quiet: bool = False
    clock: DeviceClock = field(default_factory=lambda: DeviceClock(time_scale=SCALE))
    spans: list[PhaseSpan] = field(default_factory=list)
    answers: list[tuple[Answer, int]] = field(default_factory=list)  # and when

    @asynccontextmanager
    async def living(self) -> AsyncIterator[Device]:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        training = asyncio.create_task(self._train_for_ever(reader, writer))
        worker = Worker(ours)
        await worker.open()
        await worker.prepare(SPEC)
        self.voice = Quiet(self.quiet, Voice(), reporter(pytest.fail))
        self.timeline = PhaseTimeline(
            "pi-01",
            "boot",
            self.clock,
            self.folder,
            Records(self._record),
            [Follower(lambda phase, ns, rate: self._began(phase))],
        )
        place = Workplace(
            timeline=self.timeline,
            worker=worker,
            clock=self.clock,
            folder=self.folder,
            reporter=reporter(emit=self._emit, clock=self.clock),
            load=BoardLoad(),
            dial=FixedDial(cast(DataLink, Link())),
            cpu_slowdown=1.0 if self.sgd_step_s else None,
            sgd_step_s=self.sgd_step_s,
            quiet=self.voice,
            rest_s=self.rest_s,
        )
        self.order_queue = OrderQueue(place, ModelCache(self.folder / "model-cache"), ChaosSettings())
        self.timeline.resume()
        working = asyncio.create_task(self.order_queue.run())
        try:
            yield self
        finally:
            for task in (working, training):
                task.cancel()
            await asyncio.gather(working, training, return_exceptions=True)
            worker.close()
            writer.close()
            self.timeline.close()

    async def carries_out(self, order: Order) -> int:
        """When it was answered."""
        before = len(self.answers)
        self.order_queue.submit(GivenOrder(order, 120.0))
        await self.until(lambda: len(self.answers) > before)
        answer, at_ns = self.answers[-1]
        assert (answer.order_id, answer.reason) == (order.order_id, "")
        return at_ns

    async def until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not happened():
                await asyncio.sleep(0.002)

    def phases(self) -> list[str]:
        return [span.phase.value for span in self.spans]

    def rests_s(self) -> list[float]:
        return [span.duration_s for span in self.spans if span.phase is Phase.REST]

    def _began(self, phase: Phase) -> None:
        self.voice.follow(phase)

    def _emit(self, word: AgentWord) -> None:
        if isinstance(word, Answer):
            self.answers.append((word, self.clock.now_ns()))

    def _record(self, kind: RecordKind, payload: bytes) -> None:
        self.spans.append(phase_from_bytes("pi-01", payload))

    async def _train_for_ever(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = json.loads(line)
            reply: dict[str, Any] = {"rss_bytes": 1, "samples": 64, "step_cpu_s": 0.001}
            if request["op"] == "train":
                await asyncio.sleep(self.computes_s)
                self.computed_ns = self.clock.now_ns()
                blob = encode(decode(BLOB) + np.float32(1.0), "a" * 32)
                Path(request["job"]["out_path"]).write_bytes(blob)
                reply = {
                    "samples": 64,
                    "sgd_steps": 8,
                    "mean_loss": 0.5,
                    "mean_squared_loss": 0.25,
                    "cpu_s": 0.001,
                    "model_digest": digest_of(blob),
                }
            writer.write(json.dumps({**reply, "id": request["id"]}).encode() + b"\n")


async def test_a_board_rests_before_and_after_everything_that_is_measured(tmp_path: Path) -> None:
    device = Device(tmp_path, computes_s=0.05)
    async with device.living():
        answered_ns = [await device.carries_out(order) for order in (TRAIN, UPLOAD, SYNC)]
    trained = ["idle", "rest", "download", "rest", "train", "rest", "wait"]
    assert device.phases() == [*trained, "rest", "upload", "rest", "wait", "rest", "download", "rest", "wait"]
    first_s, *others_s = device.rests_s()
    assert first_s + device.spans[0].duration_s >= 0.5 * REST_S - TOLERANCE_S  # it idled before
    for rested_s, share in zip(others_s, [1.0, 1.0, 0.5, 1.0, 0.5, 1.0], strict=True):
        assert rested_s >= share * REST_S - TOLERANCE_S
    # What ends with a rest is answered when that is over.
    waits = [span.start_ns for span in device.spans if span.phase is Phase.WAIT]
    assert all(wait_ns <= at_ns for wait_ns, at_ns in zip(waits, answered_ns, strict=True))
    assert [span.transferred_bytes for span in device.spans if span.phase is Phase.REST] == [0] * 7
    moved = [span for span in device.spans if span.phase in (Phase.DOWNLOAD, Phase.UPLOAD)]
    assert [span.transferred_bytes for span in moved] == [len(BLOB)] * 3


async def test_who_has_idled_long_enough_begins_at_once(tmp_path: Path) -> None:
    device = Device(tmp_path)
    async with device.living():
        device.order_queue.submit(GivenOrder(IdleOrder("r/0/0/idle", 0, 0, True), 120.0))
        since_ns = device.clock.now_ns()
        await device.until(lambda: device.clock.now_ns() - since_ns > 0.6e9 * REST_S)
        await device.carries_out(TRAIN)
    assert device.phases()[:4] == ["idle", "idle", "download", "rest"]


async def test_away_is_no_rest(tmp_path: Path) -> None:
    device = Device(tmp_path)
    async with device.living():
        device.order_queue.submit(GivenOrder(IdleOrder("r/0/0/idle", 0, 0, False), 120.0))
        since_ns = device.clock.now_ns()
        await device.until(lambda: device.clock.now_ns() - since_ns > 0.6e9 * REST_S)
        await device.carries_out(TRAIN)
    assert device.phases()[:4] == ["idle", "absent", "rest", "download"]
    assert device.rests_s()[0] >= 0.5 * REST_S - TOLERANCE_S


async def test_two_downloads_of_one_order_follow_each_other(tmp_path: Path) -> None:
    order = TrainOrder(
        TRAIN.order_id, 0, 0, 0, TRAIN.start_digest, TRAIN.training, previous_digest=TRAIN.start_digest
    )
    device = Device(tmp_path)
    async with device.living():
        await device.carries_out(order)
    assert device.phases() == ["idle", "rest", "download", "download", "rest", "train", "rest", "wait"]
    moved = [span.transferred_bytes for span in device.spans]
    assert moved == [0, 0, len(BLOB), len(BLOB), 0, 0, 0, 0]


async def test_after_a_training_that_this_machine_was_late_with_a_rest_is_as_long(tmp_path: Path) -> None:
    """The board is done after 8 steps; its host computes for as long again, and is busy meanwhile."""
    device = Device(tmp_path, computes_s=0.2, sgd_step_s=0.25)
    async with device.living():
        await device.carries_out(TRAIN)
    train = next(span for span in device.spans if span.phase is Phase.TRAIN)
    after = device.spans[device.spans.index(train) + 1]
    assert after.phase is Phase.REST
    assert train.duration_s == pytest.approx(2.0, abs=1.0)
    assert after.end_ns - device.computed_ns >= (REST_S - TOLERANCE_S) * 1e9
    assert device.computed_ns > after.start_ns


async def test_what_is_no_communication_has_no_rests(tmp_path: Path) -> None:
    device = Device(tmp_path)
    async with device.living():
        await device.carries_out(SyncOrder("r/1/0/sync", 0, 1, 0, SYNC.digest, free=True))
    assert device.phases() == ["idle", "wait"]


async def test_without_rests_phases_touch_as_before(tmp_path: Path) -> None:
    device = Device(tmp_path, rest_s=0.0)
    async with device.living():
        for order in (TRAIN, UPLOAD):
            await device.carries_out(order)
    assert device.phases() == ["idle", "download", "train", "wait", "upload", "wait"]
    assert [span.transferred_bytes for span in device.spans] == [0, len(BLOB), 0, 0, len(BLOB), 0]


async def test_in_a_quiet_run_idling_counts_only_as_far_as_it_was_quiet(tmp_path: Path) -> None:
    device = Device(tmp_path, quiet=True)
    async with device.living():
        since_ns = device.clock.now_ns()
        await device.until(lambda: device.clock.now_ns() - since_ns > 0.6e9 * REST_S)
        assert device.voice.gate.is_open
        device.order_queue.submit(GivenOrder(TRAIN, 120.0))
        shut = []
        while not device.answers and device.timeline.phase is not Phase.WAIT:
            shut.append((device.timeline.phase, device.voice.gate.is_open))
            await asyncio.sleep(0.002)
        await device.until(lambda: bool(device.answers))
    assert device.phases()[:3] == ["idle", "rest", "download"]
    assert device.rests_s()[0] >= 0.5 * REST_S - TOLERANCE_S
    assert {phase for phase, is_open in shut if is_open} <= {Phase.IDLE}
    assert Phase.REST in {phase for phase, _ in shut}
