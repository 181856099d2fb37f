"""An agent's own order queue at a real controller, over links that a test cuts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agent_ports import Log, Records, reporter
from cut_links import Cut, CutLinks, cut_links
from hand_agent import (
    LAYOUT,
    MODEL,
    Bench,
    HandAgent,
    connected,
    hand_agent,
)
from roambench.agent.background import Chores
from roambench.agent.board_load import BoardLoad
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.queue import OrderQueue
from roambench.agent.orders.worker import Worker
from roambench.agent.orders.workplace import Workplace
from roambench.agent.readings.timeline import PhaseTimeline
from roambench.agent.session.data_dial import DataDial
from roambench.agent.session.identity_files import IdentityFiles
from roambench.agent.settings import ChaosSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Answer, AnswerStatus, TrainOrder, TrainReply, UploadOrder, UploadReply
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import RecordKind, phase_from_bytes
from roambench.wire.frames import agent_frame, given_order
from roambench.wire.v1 import control_pb2 as wire

TRAINED = "run/1/0/train"
BLOB = encode(MODEL + 1, LAYOUT)


@dataclass
class Device:
    """An agent's own order queue, model cache, phases and link; its trainer is a test's: it adds 1 to any
    model."""

    order_queue: OrderQueue
    dial: DataDial
    links: CutLinks
    spans: list[PhaseSpan] = field(default_factory=list)
    downloaded: list[str] = field(default_factory=list)

    def shelve(self, order_id: str, blob: bytes = BLOB) -> TrainReply:
        draft = self.order_queue.model_cache.draft(order_id)
        draft.write_bytes(blob)
        reply = TrainReply(5, 1, 1.5, 2.5, digest_of(blob))
        self.order_queue.model_cache.keep(order_id, reply, draft)
        return reply

    def phases(self, phase: Phase) -> list[PhaseSpan]:
        return [span for span in self.spans if span.phase is phase]


@asynccontextmanager
async def device(
    where: Bench, folder: Path, cuts: Sequence[Cut], name: str = "pi-01", *, keepalive: bool = True
) -> AsyncIterator[Device]:
    folder.mkdir()
    where.authority.issue(name).save(folder / "identity")
    clock, chores, spans = DeviceClock(), Chores(Log()), list[PhaseSpan]()
    ours, theirs = socket.socketpair()

    def record(kind: RecordKind, payload: bytes) -> None:
        if kind is RecordKind.PHASE:
            spans.append(phase_from_bytes(name, payload))

    async def take(agent: HandAgent, message: wire.Order) -> None:
        given = given_order(message)
        if isinstance(order := given.order, TrainOrder):
            blob, _ = await place.download(given, order.ap, order.start_digest, 0.0)
            made.downloaded.append(digest_of(blob))
            agent.link.send(agent_frame(given.done(made.shelve(order.order_id))))
        else:
            made.order_queue.submit(given)

    async with (
        cut_links(where.fleet.data_port, cuts) as links,
        hand_agent(where, name, on_order=take) as agent,
    ):
        identity = IdentityFiles(folder / "identity", name, Log())
        dial = DataDial(identity, name, clock, chores, agent.session)
        place = Workplace(
            timeline=PhaseTimeline(name, "boot", clock, folder, Records(record)),
            worker=Worker(ours),
            clock=clock,
            folder=folder,
            reporter=reporter(record, agent.link.say, clock=clock, name=name),
            load=BoardLoad(),
            dial=dial,
        )
        made = Device(
            OrderQueue(place, ModelCache(folder / "model-cache"), ChaosSettings()), dial, links, spans
        )
        dial.dial(f"127.0.0.1:{links.port}", keepalive=keepalive)
        order_queue = asyncio.ensure_future(made.order_queue.run())
        try:
            await connected(where, int(name[-1]))
            yield made
        finally:
            order_queue.cancel()
            await asyncio.gather(order_queue, return_exceptions=True)
            await dial.close()
            await chores.close()
            ours.close()
            theirs.close()


async def uploaded(where: Bench, made: Device, step: int = 2) -> Answer:
    (answer,) = await where.fleet.perform([UploadOrder(f"run/{step}/0/upload", 0, step, 4, TRAINED)])
    return answer


def arrived(answer: Answer) -> None:
    assert (answer.status, answer.reason) == (AnswerStatus.DONE, "")
    assert isinstance(answer.reply, UploadReply)
    np.testing.assert_array_equal(answer.reply.model, MODEL + 1)
