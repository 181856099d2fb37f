"""Exchange orders as agents carry them out: held models, half steps, answers that survive their agent."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_ports import Records, Refused, reporter
from fixed_dial import FixedDial
from roambench.agent.board_load import BoardLoad
from roambench.agent.orders.exchange_orders import ExchangeOrders
from roambench.agent.orders.held_model import HeldModel
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.queue import OrderQueue
from roambench.agent.orders.worker import Worker
from roambench.agent.orders.workplace import Workplace
from roambench.agent.peers.exchange import Peers
from roambench.agent.peers.iteration import Neighbour
from roambench.agent.peers.offers import HalfStep
from roambench.agent.readings.timeline import PhaseTimeline
from roambench.agent.settings import ChaosSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.model_blob import decode, encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import NO_MODEL_HELD, GivenOrder, IdleOrder, UploadOrder, Vector
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import RecordKind, phase_from_bytes
from roambench.contract.session import AgentWord, Welcome
from roambench.identity.authority import Authority
from roambench.wire.frames import agent_frame, given_order
from roambench.wire.v1 import control_pb2 as wire

LAYOUT = "a" * 32
SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")
RUN = "run"
COLLECT = UploadOrder("run/3/0/collect", 0, 3, 0, "", free=True)


def model(value: float) -> Vector:
    return np.full(1000, value, np.float32)


@dataclass
class Device:
    """An agent's order queue with a hand-driven trainer: its half step adds 1 to the model and to the
    velocity."""

    name: str
    folder: Path
    authority: Authority
    told: list[wire.Answer] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    spans: list[PhaseSpan] = field(default_factory=list)
    refuses: str = ""
    prepared_in: list[Phase | None] = field(default_factory=list)  # the phase that was open
    dies_after: int = -1  # of its jobs
    clock: DeviceClock = field(default_factory=DeviceClock)
    rest_s: float = 0.0

    @asynccontextmanager
    async def living(self) -> AsyncIterator[Device]:
        """One life of the agent; the next finds what this one left on disk."""
        ours, theirs = socket.socketpair()
        clock = self.clock
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        training = asyncio.create_task(self._train_for_ever(reader, writer))
        worker = Worker(ours)
        self.timeline = PhaseTimeline(self.name, "boot", clock, self.folder, Records(self._record))
        await worker.open()
        await worker.prepare(SPEC)
        place = Workplace(
            timeline=self.timeline,
            worker=worker,
            clock=clock,
            folder=self.folder,
            reporter=reporter(emit=self._emit, clock=clock),
            load=BoardLoad(),
            dial=FixedDial(),
            rest_s=self.rest_s,
        )
        self.peers = Peers(self.authority.issue(self.name), clock, self.folder, Refused())
        self.exchange = ExchangeOrders(place, self.peers, HeldModel(self.folder / "held"))
        self.order_queue = OrderQueue(
            place, ModelCache(self.folder / "model-cache"), ChaosSettings(), self.exchange
        )
        welcome = Welcome(run_id=RUN, data_address="127.0.0.1:50052", exchanges=True)
        await self.exchange.begin_run(welcome)
        working = asyncio.create_task(self.order_queue.run())
        try:
            yield self
        finally:
            for task in (working, training):
                task.cancel()
            await asyncio.gather(working, training, return_exceptions=True)
            worker.close()
            writer.close()
            await self.peers.close()
            await asyncio.sleep(0)

    def hold(self, value: float) -> None:
        blob = encode(model(value), LAYOUT)
        HeldModel(self.folder / "held").keep(RUN, "run/0/0/exchange", blob, digest_of(blob), b"")

    def held_value(self) -> float:
        held = HeldModel(self.folder / "held").of_run(RUN)
        assert held is not None
        vector = decode(held.model.read_bytes(), layout=LAYOUT)
        assert np.all(vector == vector[0])
        return float(vector[0])

    async def answer(self, count: int = 1) -> wire.Answer:
        async with asyncio.timeout(15):
            while len(self.told) < count:
                await asyncio.sleep(0.01)
        return self.told[count - 1]

    def _emit(self, word: AgentWord) -> None:
        frame = agent_frame(word)
        if frame.HasField("answer"):
            self.told.append(frame.answer)

    def _record(self, kind: RecordKind, payload: bytes) -> None:
        self.spans.append(phase_from_bytes(self.name, payload))

    async def _train_for_ever(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = json.loads(line)
            if request["op"] == "prepare":
                self.prepared_in.append(self.timeline.phase)
                reply = {"rss_bytes": 1, "samples": 60, "step_cpu_s": 0.001}
            elif self.refuses:
                reply = {"refused": self.refuses}
            else:
                self.jobs.append(job := request["job"])
                blob = encode(decode(Path(job["start_path"]).read_bytes()) + np.float32(1.0), LAYOUT)
                Path(job["out_path"]).write_bytes(blob)
                before = job["velocity_path"]
                velocity = decode(Path(before).read_bytes()) if before else model(0.0)
                Path(job["velocity_out_path"]).write_bytes(encode(velocity + np.float32(1.0), LAYOUT))
                reply = {
                    "samples": 60,
                    "sgd_steps": 1,
                    "mean_loss": 0.5,
                    "mean_squared_loss": 0.25,
                    "cpu_s": 0.001,
                    "model_digest": digest_of(blob),
                }
            writer.write(json.dumps({**reply, "id": request["id"]}).encode() + b"\n")
            if len(self.jobs) == self.dies_after:
                self.dies_after = -1
                writer.write(b'{"died": "signal SIGKILL", "pid": 7}\n')


def order(step: int, device: int, others: Sequence[tuple[int, Device]], **fields: Any) -> GivenOrder:
    """Everybody's weight is 0.5; own weight 0.5."""
    spec = wire.ExchangeOrder(
        neighbours=[
            wire.ExchangeOrder.Neighbour(
                device=number, name=other.name, address=other.peers.address, weight=0.5
            )
            for number, other in others
        ],
        own_weight=0.5,
        training=wire.LocalTraining(epochs=1, seed=7, steps=1, objective="ce", start_rule="ap"),
        deadline_s=20.0,
    )
    spec.MergeFrom(wire.ExchangeOrder(**fields))
    name = f"run/{step}/{device}/exchange"
    return given_order(wire.Order(order_id=name, step=step, device=device, deadline_s=60.0, exchange=spec))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Device, Device]:
    authority = Authority.create()
    devices = []
    for number in range(2):
        folder = tmp_path / f"pi-{number:02d}"
        folder.mkdir()
        devices.append(Device(f"pi-{number:02d}", folder, authority))
    return devices[0], devices[1]


@pytest.mark.asyncio
async def test_two_devices_go_on_from_what_their_last_exchange_left(pair: tuple[Device, Device]) -> None:
    one, other = pair
    one.hold(10.0)
    other.hold(20.0)
    async with one.living(), other.living():
        one.peers.grace_s = other.peers.grace_s = 20.0  # nobody rests here
        for step in (1, 2):
            one.order_queue.submit(order(step, 0, [(1, other)]))
            other.order_queue.submit(order(step, 1, [(0, one)]))
            answers = [await one.answer(step), await other.answer(step)]
            assert [answer.status for answer in answers] == [wire.Answer.DONE] * 2
            # (10 + 1 + 20 + 1) / 2, then both the same.
            assert one.held_value() == other.held_value() == {1: 16.0, 2: 17.0}[step]
            assert answers[0].exchange.model_digest == answers[1].exchange.model_digest
            assert answers[0].exchange.sent_bytes == answers[0].exchange.received_bytes > 4000
        velocities = [Path(job["velocity_path"]).name for job in one.jobs]
        assert velocities[0] == ""  # nothing is known of it yet
        held = one.exchange.held.of_run(RUN)
        assert held is not None
        assert held.velocity is not None
        assert decode(held.velocity.read_bytes())[0] == 2.0  # one step, and one more from where it left off
        one.timeline.close()
    phases = [span.phase.value for span in one.spans]
    assert phases == ["train", "wait", "exchange", "wait"] * 2
    moved = [span.transferred_bytes for span in one.spans if span.phase.value == "exchange"]
    assert moved == [a.exchange.sent_bytes + a.exchange.received_bytes for a in one.told]


@pytest.mark.asyncio
async def test_a_trainer_that_died_since_is_warmed_up_before_the_next_measured_phase(
    pair: tuple[Device, Device],
) -> None:
    one, other = pair
    one.hold(10.0)
    other.hold(20.0)
    one.dies_after = 1
    async with one.living(), other.living():
        one.peers.grace_s = other.peers.grace_s = 20.0
        for step in (1, 2):
            one.order_queue.submit(order(step, 0, [(1, other)]))
            other.order_queue.submit(order(step, 1, [(0, one)]))
            answers = [await one.answer(step), await other.answer(step)]
            assert [answer.status for answer in answers] == [wire.Answer.DONE] * 2
        assert len(one.prepared_in) == 2
        assert one.prepared_in[-1] is Phase.WAIT


@pytest.mark.asyncio
@pytest.mark.parametrize(("rest_s", "pause"), [(0.0, Phase.WAIT), (2.0, Phase.REST)])
async def test_while_a_neighbour_is_waited_for_that_does_not_come_a_device_waits_and_does_not_exchange(
    pair: tuple[Device, Device], rest_s: float, pause: Phase
) -> None:
    """Where boards rest it is a rest, and lasts for half a one before the exchange goes on."""
    one, other = pair
    one.rest_s, one.clock = rest_s, DeviceClock(time_scale=4.0)
    one.hold(10.0)
    async with one.living(), other.living():
        one.peers.grace_s = 0.1
        near = Neighbour(0, one.name, one.peers.address, 0.5)
        late = other.peers.announce(1, [near], 0.0, BoardLoad())
        half_step = HalfStep(blob := encode(model(21.0), LAYOUT), digest_of(blob))
        late.offer.provide(half_step)  # who may take it, before it comes and takes
        one.order_queue.submit(order(1, 0, [(1, other)]))
        async with asyncio.timeout(30):
            while late.offer.served != {one.name} or one.timeline.phase is not pause:
                await asyncio.sleep(0.01)
        await other.peers.exchange(late, half_step, 1, 0.5, 20.0)
        answer = await one.answer()
        assert (list(answer.exchange.left_out), list(answer.exchange.not_taken)) == ([], [])
        assert one.held_value() == 16.0
        one.timeline.close()
    told = [(span.phase.value, span.transferred_bytes) for span in one.spans]
    came, went = answer.exchange.received_bytes, answer.exchange.sent_bytes
    exchanged = [("exchange", came), (pause.value, 0), ("exchange", went)]
    if rest_s:
        assert told == [("rest", 0), ("train", 0), ("rest", 0), *exchanged, ("rest", 0), ("wait", 0)]
    else:
        assert told == [("train", 0), ("wait", 0), *exchanged, ("wait", 0)]
    on_air_s = sum(span.duration_s for span in one.spans if span.phase is Phase.EXCHANGE)
    rested_s = one.spans[told.index(exchanged[0]) + 1].duration_s
    assert rested_s >= 0.5 * rest_s - 0.05
    assert answer.exchange.exchange_s < on_air_s + 0.5 * rested_s


@pytest.mark.asyncio
async def test_a_device_without_a_model_says_so(pair: tuple[Device, Device]) -> None:
    one, _ = pair
    async with one.living():
        one.order_queue.submit(order(3, 0, []))
        refused = await one.answer()
        assert (refused.status, refused.reason) == (wire.Answer.REFUSED, NO_MODEL_HELD)
        one.order_queue.submit(GivenOrder(COLLECT, 60.0))
        refused = await one.answer(2)
        assert (refused.status, refused.reason) == (wire.Answer.REFUSED, NO_MODEL_HELD)
        assert one.jobs == []


@pytest.mark.asyncio
@pytest.mark.parametrize("present", [True, False])
async def test_whose_model_is_collected_goes_on_being_away(
    pair: tuple[Device, Device], present: bool
) -> None:
    one, _ = pair
    async with one.living():
        one.order_queue.submit(GivenOrder(IdleOrder("run/3/0/idle", 0, 3, present), 60.0))
        one.order_queue.submit(GivenOrder(COLLECT, 60.0))
        await one.answer(1)
        async with asyncio.timeout(30):
            while one.timeline.current.phase is not (Phase.WAIT if present else Phase.ABSENT):
                await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_another_runs_model_is_none(pair: tuple[Device, Device]) -> None:
    one, _ = pair
    blob = encode(model(1.0), LAYOUT)
    HeldModel(one.folder / "held").keep("another run", "x/0/0/exchange", blob, digest_of(blob), b"")
    async with one.living():
        one.order_queue.submit(order(3, 0, []))
        assert (await one.answer()).reason == NO_MODEL_HELD


@pytest.mark.asyncio
async def test_a_half_step_that_fails_is_told_to_the_neighbours_and_leaves_the_held_model(
    pair: tuple[Device, Device],
) -> None:
    one, other = pair
    one.hold(10.0)
    other.hold(20.0)
    other.refuses = "training diverged"
    async with one.living(), other.living():
        one.order_queue.submit(order(1, 0, [(1, other)]))
        other.order_queue.submit(order(1, 1, [(0, one)]))
        refused, done = await other.answer(), await one.answer()
        assert (refused.status, refused.reason) == (wire.Answer.REFUSED, "training diverged")
        (short,) = done.exchange.left_out
        assert (short.device, short.reason) == (1, "refused: it has no half step in this iteration")
        assert one.held_value() == 11.0  # its own weight and its neighbour's
        assert other.held_value() == 20.0


@pytest.mark.asyncio
async def test_neighbours_of_a_device_without_a_model_hear_so_at_once(pair: tuple[Device, Device]) -> None:
    one, other = pair
    one.hold(10.0)
    async with one.living(), other.living():
        one.order_queue.submit(order(1, 0, [(1, other)]))
        other.order_queue.submit(order(1, 1, [(0, one)]))
        refused, done = await other.answer(), await one.answer()  # within 15 s: the deadline is 20 s
        assert (refused.status, refused.reason) == (wire.Answer.REFUSED, NO_MODEL_HELD)
        (short,) = done.exchange.left_out
        assert (short.device, short.reason) == (1, "refused: it has no half step in this iteration")
        assert one.held_value() == 11.0


@pytest.mark.asyncio
async def test_an_answer_that_was_never_sent_is_told_by_the_next_life(pair: tuple[Device, Device]) -> None:
    one, _ = pair
    one.hold(10.0)
    async with one.living():
        one.order_queue.submit(order(1, 0, [], own_weight=1.0))
        first = await one.answer()
    (one.folder / "model-cache" / "answers.json").unlink()  # it died before it could note it
    async with one.living():
        assert one.exchange.held.last().order_id == "run/1/0/exchange"
        one.order_queue.submit(order(1, 0, [], own_weight=1.0))
        assert await one.answer(2) == first
        assert len(one.jobs) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"own_weight": float("nan")}, "NaN"),
        ({"exchange_mbit_s": -1.0}, "-1.0 Mbit/s"),
        ({"deadline_s": float("inf")}, "within inf s"),
        ({"neighbours": [wire.ExchangeOrder.Neighbour(device=0, name="pi-00")]}, "expected others"),
        (
            {"neighbours": [wire.ExchangeOrder.Neighbour(device=n, name="x") for n in (3, 2)]},
            "expected others, ascending",
        ),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused(
    pair: tuple[Device, Device], fields: dict[str, Any], complaint: str
) -> None:
    one, _ = pair
    one.hold(10.0)
    async with one.living():
        one.order_queue.submit(order(1, 0, [], **fields))
        refused = await one.answer()
        assert refused.status == wire.Answer.REFUSED
        assert complaint in refused.reason
        assert one.held_value() == 10.0


def test_a_held_model_is_whole_or_none(tmp_path: Path) -> None:
    held = HeldModel(tmp_path)
    for number in (1, 2):
        held.velocity_draft(f"order {number}").write_bytes(b"velocity %d" % number)
        held.keep(RUN, f"order {number}", b"model %d" % number, "ab", b"answer")
    kept = held.of_run(RUN)
    assert kept is not None
    assert (kept.order_id, kept.model.read_bytes()) == ("order 2", b"model 2")
    assert kept.velocity is not None
    assert kept.velocity.read_bytes() == b"velocity 2"
    assert len(list(tmp_path.glob("*.blob"))) == 2  # those of the first are gone
    kept.velocity.unlink()
    assert held.last() is None
    (tmp_path / "held.json").write_text(json.dumps({"run_id": RUN, "model": "../../etc/passwd"}))
    assert held.last() is None
    held.clear()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("data_address", "status", "reason"),
    [
        ("127.0.0.1:50052", wire.Answer.DONE, ""),
        ("no-such-host.invalid:50052", wire.Answer.FAILED, "the peer port is closed: no exchange"),
    ],
)
async def test_an_order_waits_until_it_is_known_whether_there_is_a_peer_port(
    pair: tuple[Device, Device], data_address: str, status: int, reason: str
) -> None:
    one, _ = pair
    one.hold(10.0)
    async with one.living():
        await one.peers.close()  # as an agent is that has just come back
        one.order_queue.submit(order(1, 0, []))
        await asyncio.sleep(0.1)
        assert one.told == []
        await one.exchange.begin_run(Welcome(run_id=RUN, data_address=data_address, exchanges=True))
        answer = await one.answer()
    assert (answer.status, answer.reason) == (status, reason)


@pytest.mark.asyncio
async def test_devices_rest_around_their_half_steps_and_their_exchange(pair: tuple[Device, Device]) -> None:
    for device in pair:
        device.rest_s, device.clock = 4.0, DeviceClock(time_scale=20.0)
        device.hold(10.0)
    one, other = pair
    async with one.living(), other.living():
        one.peers.grace_s = other.peers.grace_s = 20.0  # nobody pauses
        one.timeline.resume()
        other.timeline.resume()
        for step in (1, 2):
            one.order_queue.submit(order(step, 0, [(1, other)]))
            other.order_queue.submit(order(step, 1, [(0, one)]))
            for device in pair:
                assert (await device.answer(step)).exchange.left_out == []
        for device in pair:
            device.timeline.close()
    for device in pair:
        worked = ["rest", "train", "rest", "exchange", "rest", "wait"]
        assert [span.phase.value for span in device.spans] == ["idle", *worked, *worked]
        rests_s = [span.duration_s for span in device.spans if span.phase is Phase.REST]
        assert rests_s[0] + device.spans[0].duration_s >= 1.95
        assert all(rests_s[at] >= 3.95 for at in (1, 2, 4, 5))
        assert rests_s[3] >= 1.95
