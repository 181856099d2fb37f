"""Padding over the real data port: moved as often as ordered, paced, counted, stamped phase by phase."""

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent_ports import Records, reporter
from fixed_dial import FixedDial
from hand_agent import HandAgent, bench, connected, done, hand_agent
from roambench.agent.board_load import BoardLoad
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.queue import OrderQueue
from roambench.agent.orders.worker import Worker
from roambench.agent.orders.workplace import Workplace
from roambench.agent.readings.timeline import PhaseTimeline
from roambench.agent.settings import ChaosSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.orders import Answer, AnswerStatus, TransferOrder, TransferReply
from roambench.contract.pacing import padding
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import RecordKind, phase_from_bytes
from roambench.wire.frames import given_order
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio


def order(direction: str = "down", total_bytes: int = 50_000, mbit_s: float = 4.0, repeats: int = 3):
    return TransferOrder(f"run/window/{direction}", 0, 0, direction == "up", total_bytes, mbit_s, repeats)


async def carried_out(tmp_path: Path, given: TransferOrder) -> tuple[Answer, list[PhaseSpan]]:
    """The agent's real order queue at a real controller."""
    spans: list[PhaseSpan] = []

    def record(kind: RecordKind, payload: bytes) -> None:
        if kind is RecordKind.PHASE:
            spans.append(phase_from_bytes("pi-01", payload))

    ours, theirs = socket.socketpair()
    clock = DeviceClock()
    timeline = PhaseTimeline("pi-01", "boot", clock, tmp_path, Records(record))
    timeline.resume()

    queues: list[OrderQueue] = []  # an order may come twice: one queue carries it out once

    async def take(agent: HandAgent, message: wire.Order) -> None:
        if queues:
            return queues[0].submit(given_order(message))
        place = Workplace(
            timeline=timeline,
            worker=Worker(ours),
            clock=clock,
            folder=tmp_path,
            reporter=reporter(record, agent.link.say, clock=clock),
            load=BoardLoad(),
            dial=FixedDial(agent.data),
        )
        queue = OrderQueue(place, ModelCache(tmp_path / "model-cache"), ChaosSettings())
        queues.append(queue)
        queue.submit(given_order(message))
        return await queue.run()

    with ours, theirs:
        async with bench() as where, hand_agent(where, on_order=take):
            await connected(where)
            (answer,) = await where.fleet.transfer([given])
    timeline.close()
    return answer, spans


@pytest.mark.parametrize(("direction", "phase"), [("up", Phase.UPLOAD), ("down", Phase.DOWNLOAD)])
async def test_a_window_is_its_transfers_back_to_back_each_a_phase_with_its_bytes(tmp_path, direction, phase):
    answer, spans = await carried_out(tmp_path, order(direction))
    assert answer.status is AnswerStatus.DONE, answer.reason
    assert isinstance(answer.reply, TransferReply)
    assert (answer.reply.transfers, answer.reply.transferred_bytes) == (3, 150_000)
    active = [span for span in spans if span.phase is phase]
    assert [span.transferred_bytes for span in active] == [50_000] * 3
    assert {span.order_id for span in active} == {f"run/window/{direction}"}
    assert [b.start_ns - a.end_ns for a, b in itertools.pairwise(active)] == [0, 0]
    # 0.4 Mbit at 4 Mbit/s are 0.1 s each, never less.
    assert all(span.duration_s >= 0.1 for span in active)
    assert answer.reply.transfer_s >= 0.3
    assert [span.phase for span in spans if span.phase not in (phase, Phase.IDLE)] == [Phase.WAIT]


@pytest.mark.parametrize(
    "wrong", [{"total_bytes": 0}, {"repeats": 0}, {"mbit_s": -1.0}, {"mbit_s": float("nan")}]
)
async def test_an_order_that_cannot_be_is_refused(tmp_path, wrong):
    answer, spans = await carried_out(tmp_path, order(**wrong))
    assert answer.status is AnswerStatus.REFUSED
    assert not [span for span in spans if span.phase in (Phase.UPLOAD, Phase.DOWNLOAD)]


async def ask(given: TransferOrder, act: Callable[[HandAgent, wire.Order], Awaitable[None]]) -> Answer:
    seen: set[str] = set()

    async def once(agent: HandAgent, message: wire.Order) -> None:
        if message.HasField("transfer") and message.order_id not in seen:  # it may come twice
            seen.add(message.order_id)
            await act(agent, message)

    async with bench() as where, hand_agent(where, on_order=once):
        await connected(where)
        (answer,) = await where.fleet.transfer([given])
    return answer


def report(
    transfers: int = 3, transferred_bytes: int = 150_000, transfer_s: float = 0.3
) -> wire.TransferReply:
    return wire.TransferReply(transfers=transfers, transferred_bytes=transferred_bytes, transfer_s=transfer_s)


async def test_uploads_that_never_arrived_are_not_believed():
    async def claim(agent: HandAgent, message: wire.Order) -> None:
        await agent.data.send_padding(message.order_id, 50_000, 0.0, 5.0)
        agent.link.send(done(message, transfer=report()))

    answer = await ask(order("up"), claim)
    assert answer.status is AnswerStatus.GARBAGE
    assert "1 of 3 uploads arrived" in answer.reason


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"transfer": report(transfers=2)},
        {"transfer": report(transferred_bytes=1)},
        {"transfer": report(transfer_s=float("nan"))},
        {"transfer": report(transfer_s=0.0)},
    ],
)
async def test_a_report_that_does_not_fit_the_order_is_garbage(fields):
    async def claim(agent: HandAgent, message: wire.Order) -> None:
        agent.link.send(done(message, **fields))
        await asyncio.sleep(0)

    answer = await ask(order(), claim)
    assert answer.status is AnswerStatus.GARBAGE
    assert "does not fit the order" in answer.reason


async def test_padding_of_another_length_or_direction_is_refused():
    problems = []

    async def misuse(agent: HandAgent, message: wire.Order) -> None:
        for attempt, error in (
            (agent.data.send_padding(message.order_id, 60_000, 0.0, 5.0), ModelError),
            (agent.data.fetch_padding(message.order_id, 50_000, 5.0), LinkError),
            (agent.data.send_padding("another order", 50_000, 0.0, 5.0), ModelError),
        ):
            with pytest.raises(error) as caught:
                await attempt
            problems.append(str(caught.value))
        failed = wire.Answer(order_id=message.order_id, status=wire.Answer.FAILED, reason="refused")
        agent.link.send(wire.AgentFrame(answer=failed))

    answer = await ask(order("up"), misuse)
    assert answer.status is AnswerStatus.GARBAGE
    assert "announces 60000 bytes of 50000 ordered" in problems[0]
    assert "no outstanding order names this model" in problems[1]
    assert "no outstanding order asks for this upload" in problems[2]


async def test_padding_has_its_length_in_pieces_and_does_not_compress():
    import zlib

    pieces = list(padding(1_000_000, 8.0))
    assert [len(piece) for piece in pieces] == [250_000] * 4
    assert len(b"".join(padding(10_000_001, 0.0))) == 10_000_001
    assert len(zlib.compress(pieces[0])) > 249_000
    assert list(padding(0, 1.0)) == []
