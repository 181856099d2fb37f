"""A process of light agents: links, spools and drains as boards have them, without meters and trainers.

    python benchmarks/setting/light_agents.py FOLDER ADDRESS NAME ...

FOLDER/NAME has an agent's certificate and gets its spool. The process reads commands, one a line: `go`
(dial), `read` (spool a reading a second each), `clear` (forget the times of drains), `tell` (print them as
JSON). It ends with its standard input, or is killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roambench.agent.link import Link
from roambench.agent.session.control_link import InFrames
from roambench.agent.settings import AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.events import EventKind
from roambench.contract.orders import Answer, GivenOrder, TrainOrder, TrainReply, UploadOrder, UploadReport
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.contract.session import (
    ClockEcho,
    ClockProbe,
    ControllerWord,
    Hello,
    ModelReceipt,
    ModelReply,
    SessionEvent,
    Stop,
    Welcome,
)
from roambench.fleet.crashes import logged_if_it_crashes
from roambench.spool.consumer import Record
from roambench.spool.drain import Drain
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import CONTROLLER, Spool
from roambench.wire.v1.methods import PROTOCOL_VERSION

RUN: Final = "benchmark"
_SLOTS: Final = 20  # of a second, in which agents read their meters in turn
_LIMIT_S: Final = 120.0  # of a transfer


@dataclass(slots=True)
class Drained:
    """Answers to drains, of all agents of this process."""

    answers_s: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


class LightAgent:
    """Answers orders with the model that it downloaded."""

    def __init__(self, folder: Path, name: str, address: str, drained: Drained) -> None:
        settings = AgentSettings(
            name, address, identity_dir=str(folder / name), state_dir=str(folder / name), run=RUN
        )
        self.name, self.drained, self.clock = name, drained, DeviceClock()
        self.spool = Spool(folder / name / "spool.sqlite")
        now_ns = self.clock.now_ns()
        if self.spool.context is None:
            boot = RecordContext(f"boot of {name}", "0/1.0", time.time_ns() - now_ns, "smartpower2", RUN)
            self.spool.begin_context(boot, now_ns)
        self.link = Link(settings, self.clock, self.spool)
        self.drain = Drain(self.spool.consumers[CONTROLLER], self._send, trouble=lambda reason: None)
        self.started_ns = time.monotonic_ns()
        self.trained: dict[str, tuple[bytes, str]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.link.control.run(InFrames(self)))
            tasks.create_task(self.drain.run())

    def read(self) -> None:
        now_ns = self.clock.now_ns()
        self.spool.append(RecordKind.READING, Reading(now_ns, 5.1, 0.5, 2.5).to_bytes())

    def hello(self) -> Hello:
        return Hello(
            protocol_version=PROTOCOL_VERSION,
            device=self.name,
            machine_id=self.name,
            boot_id=f"boot of {self.name}",
            agent_version="light",
            capabilities=("train", "upload", "meter"),
            spool_uuid=self.spool.uuid,
            trained_order_ids=tuple(self.trained),
            rss_bytes=0,
            trainer_rss_bytes=0,
            peer_address="",
            started_ns=self.started_ns,
        )

    def take(self, word: ControllerWord | None) -> None:
        match word:
            case Welcome():
                if self.link.is_as(word):
                    self.link.work_for(word)
                    self.drain.look_every(word.drain_period_s)
                    self.drain.nudge()
            case ClockProbe():
                now_ns = self.clock.now_ns()
                self.link.control.say(ClockEcho(word.probe, now_ns, now_ns))
            case ModelReply() | ModelReceipt():
                self.link.data.session.take(word)
            case GivenOrder():
                self.link.chores.begin(self._carry_out(word))
            case Stop():
                self.link.chores.begin(self._leave(word))
            case _:
                pass

    async def _leave(self, stop: Stop) -> None:
        await self.drain.flush(stop.drain_s)
        self.link.control.hang_up(stop.reason)

    async def _send(self, records: Sequence[Record]) -> int:
        began_s = time.perf_counter()
        try:
            through = await self.link.drain_of(self.name, self.spool).send(records)
        except LinkError as error:
            if self.link.control.is_open:
                self.drained.failures[str(error)[:80]] += 1
            raise
        self.drained.answers_s.append(time.perf_counter() - began_s)
        return through

    def _event(self, kind: EventKind, order_id: str) -> None:
        """As `agent.orders.workplace` has it: one record, and one word."""
        now_ns = self.clock.now_ns()
        self.spool.append(RecordKind.EVENT, AgentEvent(kind, now_ns, order_id).to_bytes())
        self.link.control.say(SessionEvent(kind, now_ns, order_id))

    async def _carry_out(self, given: GivenOrder) -> None:
        try:
            answer = await self._answer(given)
        except (LinkError, ModelError) as error:
            answer = given.failed(str(error))
        self.link.control.say(answer)

    async def _answer(self, given: GivenOrder) -> Answer:
        order, link = given.order, self.link.data.session  # 20 kB fit into the session
        match order:
            case TrainOrder():
                self._event(EventKind.DOWNLOAD_STARTED, order.order_id)
                blob, moved = await link.download(order.order_id, order.ap, order.start_digest, _LIMIT_S)
                self._event(EventKind.TRAIN_STARTED, order.order_id)
                self.trained = {order.order_id: (blob, order.start_digest)}
                self._event(EventKind.TRAIN_FINISHED, order.order_id)
                return given.done(
                    TrainReply(
                        1,
                        1,
                        1.0,
                        1.0,
                        order.start_digest,
                        downloaded_bytes=moved.transferred_bytes,
                        download_s=moved.duration_s,
                    )
                )
            case UploadOrder():
                self._event(EventKind.UPLOAD_STARTED, order.order_id)
                blob, digest = self.trained[order.train_order_id]
                sent = await link.upload(
                    order.order_id, order.train_order_id, order.ap, blob, digest, 0.0, _LIMIT_S
                )
                return given.done(UploadReport(digest, sent.transferred_bytes, sent.duration_s))
            case _:
                return given.refused("a light agent trains and uploads")


async def _read(agents: Sequence[LightAgent]) -> None:
    began_s, slot = time.monotonic(), 0
    while True:
        for agent in agents[slot % _SLOTS :: _SLOTS]:
            agent.read()
        slot += 1
        await asyncio.sleep(max(0.0, began_s + slot / _SLOTS - time.monotonic()))


async def serve(folder: Path, address: str, names: Sequence[str]) -> None:
    """Carry out the commands on standard input."""
    drained = Drained()
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    agents: list[LightAgent] = []
    tasks: list[asyncio.Task[None]] = []
    print("ready", flush=True)
    while line := (await commands.readline()).decode().strip():
        match line:
            case "go":
                agents = [LightAgent(folder, name, address, drained) for name in names]
                tasks += [logged_if_it_crashes(asyncio.create_task(agent.run())) for agent in agents]
            case "read":
                tasks.append(logged_if_it_crashes(asyncio.create_task(_read(agents))))
            case "clear":
                drained.answers_s.clear()
                drained.failures.clear()
            case "tell":
                depth = sum(agent.spool.consumers[CONTROLLER].depth for agent in agents)
                told = {"answers_s": drained.answers_s, "failures": drained.failures, "depth": depth}
                print(json.dumps(told), flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
