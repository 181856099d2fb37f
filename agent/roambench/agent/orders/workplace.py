"""The place where orders are carried out: a device's phases, its trainer, its link, its reports."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from roambench.agent.board_load import BoardLoad, RadioLoad
from roambench.agent.orders.program import Computed
from roambench.agent.orders.worker import (
    CodeJob,
    CodeOutcome,
    TrainerDied,
    TrainerRefused,
    TrainJob,
    TrainOutcome,
    Worker,
)
from roambench.agent.readings.timeline import PhaseTimeline
from roambench.agent.reporter import Reporter
from roambench.agent.session.data_link import BrokeOff, DataLink, ModelTransfer
from roambench.agent.session.session_models import SessionModels
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import (
    ExchangeReply,
    GivenOrder,
    ProgramOrder,
    TrainOrder,
    TrainReply,
    rests_of,
)
from roambench.contract.phases import NOTHING_MOVED, Moved, Phase
from roambench.contract.records import AgentEvent, RecordKind
from roambench.contract.session import AgentWord, SessionEvent

Result = TypeVar("Result")
Report = TypeVar("Report", TrainReply, ExchangeReply)
Spent = TypeVar("Spent", Computed, CodeOutcome)

#: Host seconds between the attempts of one transfer; `AgentLimits.transfers_beyond` allows for more.
_PAUSES_S: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0)


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training phase, how long it lasted, and by how much this machine was late (device
    time)."""

    outcome: TrainOutcome
    device_s: float
    late_s: float


@dataclass(frozen=True, slots=True)
class ProgramDone:
    """A program's answer, how long its phase lasted, and by how much this machine was late (device time)."""

    computed: Computed
    device_s: float
    late_s: float


#: Moves a device's models.
ModelLink = DataLink | SessionModels


class Dial(Protocol):
    """Port to the ways of models (`data_dial`)."""

    @property
    def session(self) -> ModelLink:
        """The link for models that fit into the session."""
        ...

    @property
    def link(self) -> DataLink | None:
        """None until the controller has named its data plane."""
        ...

    async def connected(self, limit_s: float) -> None:
        """Wait for the connection of `link`."""
        ...

    def redial(self) -> None:
        """Have `link` over a new connection."""
        ...


class QuietPort(Protocol):
    """Port to quiet runs (`agent.session.quiet`)."""

    async def before_phase(self) -> bool:
        """Fall quiet; whether something might have been on its way until now."""
        ...


@dataclass(slots=True)
class Workplace:
    """`cpu_slowdown` is None on a board; on a laptop it stretches training to CPU-seconds x cpu_slowdown,
    unless `sgd_step_s` (above 0) says how many device seconds an SGD step lasts.
    `rest_s` is the device time of a rest after a measured phase, half of it before; 0: there are none.
    """

    timeline: PhaseTimeline
    worker: Worker
    clock: DeviceClock
    folder: Path
    reporter: Reporter
    load: BoardLoad
    dial: Dial
    cpu_slowdown: float | None = None
    sgd_step_s: float = 0.0
    quiet: QuietPort | None = None
    rest_s: float = 0.0

    async def fall_quiet(self) -> bool:
        """Wait until nothing of our own is on the network, where runs are quiet; whether something might have
        been until now."""
        return self.quiet is not None and await self.quiet.before_phase()

    async def rest_before(self, step: int) -> None:
        """Fall quiet, and rest for what is missing of half a rest: idling counts, as long as it was quiet."""
        was_loud = await self.fall_quiet()
        if not self.rest_s:
            return
        since_ns, wanted_ns = None if was_loud else self.timeline.rests_since_ns, self._ns(0.5 * self.rest_s)
        if since_ns is None:
            since_ns = self.timeline.enter(Phase.REST, step)
        elif self.timeline.phase is Phase.IDLE and self.clock.now_ns() - since_ns < wanted_ns:
            self.timeline.enter(Phase.REST, step)
        await self.clock.sleep_until_ns(since_ns + wanted_ns)

    async def rest_after(self, step: int, moved: Moved) -> Moved:
        """End the measured phase, which moved so much, and rest. Without rests it stays open; returns what
        the open phase has moved."""
        if not self.rest_s:
            return moved
        since_ns = self.timeline.rests_since_ns  # of an exchange that ended while it paused
        begins_ns = self.timeline.enter(Phase.REST, step, moved=moved)
        await self.clock.sleep_until_ns((begins_ns if since_ns is None else since_ns) + self._ns(self.rest_s))
        return NOTHING_MOVED

    def wait(self, step: int, moved: Moved = NOTHING_MOVED) -> None:
        """Wait for the step to close from now on; `moved` is what the phase before it moved."""
        if self.timeline.phase is not Phase.WAIT:
            self.timeline.enter(Phase.WAIT, step, moved=moved)

    def _ns(self, device_s: float) -> int:
        return round(device_s * 1e9)

    @property
    def pause(self) -> Phase:
        """The phase after a measured one."""
        return Phase.REST if self.rest_s else Phase.WAIT

    def event(self, kind: EventKind, order_id: str) -> None:
        """Tell the controller now (it may watch live) and keep it in the spool (it will be there later)."""
        ns = self.clock.now_ns()
        self.timeline.alive(ns)
        self.reporter.records.append(RecordKind.EVENT, AgentEvent(kind, ns, order_id).to_bytes())
        self.emit(SessionEvent(kind, ns, order_id))

    def emit(self, word: AgentWord) -> None:
        """Send a word to the controller, now or after the measured phase."""
        self.reporter.voice.emit(word)

    def limit_s(self, given: GivenOrder) -> float:
        """Host seconds a transfer may take: after its deadline an order's answer is not waited for. A part of
        the time is for the order's rests."""
        return self.clock.host_seconds(max(0.0, given.deadline_s - self.rest_s * rests_of(given.order)))

    def link(self) -> DataLink:
        """The link for models beside the session; ConnectionError before the controller's welcome."""
        link = self.dial.link
        if link is None:
            raise ConnectionError("no data plane: the controller has not welcomed this agent yet")
        return link

    async def connected(self, given: GivenOrder) -> None:
        """Wait for the connection for models, a tenth of the order's time at most: before measured phases,
        which its handshakes are no part of."""
        await self.dial.connected(0.1 * self.limit_s(given))

    async def transferred(
        self,
        given: GivenOrder,
        attempt: Callable[[ModelLink, float], Awaitable[Result]],
        *,
        in_session: bool,
    ) -> Result:
        """The result of `attempt(link, limit_s)`. One that breaks off is followed by another, over a new
        connection and after a pause that is a phase of waiting, until the order's time is up."""
        now_s = asyncio.get_running_loop().time
        end_s, pauses_s = now_s() + self.limit_s(given), iter(_PAUSES_S)
        while True:
            try:
                return await attempt(self.dial.session if in_session else self.link(), end_s - now_s())
            except BrokeOff as error:
                self.timeline.enter(Phase.WAIT, given.order.step)
                if not in_session:
                    self.dial.redial()  # also where the next order has to do it
                pause_s = next(pauses_s, math.inf)
                if now_s() + pause_s >= end_s:
                    raise
                self.event(EventKind.TRANSFER_BROKE_OFF, f"{given.order.order_id}: {error}")
            await asyncio.sleep(pause_s)

    async def download(
        self,
        given: GivenOrder,
        ap: int,
        digest: str,
        mbit_s: float,
        *,
        train_order_id: str = "",
        before: Moved = NOTHING_MOVED,
    ) -> tuple[bytes, ModelTransfer]:
        """A published model, in one phase; `before` is what the phase moved that ends with its beginning.
        Raises as `DataLink.download` does."""
        order, moved_before = given.order, [before]

        async def attempt(link: ModelLink, limit_s: float) -> tuple[bytes, ModelTransfer]:
            self.timeline.enter(
                Phase.DOWNLOAD,
                order.step,
                order_id=order.order_id,
                train_order_id=train_order_id,
                mbit_s=mbit_s,
                moved=moved_before.pop() if moved_before else NOTHING_MOVED,
            )
            return await link.download(
                order.order_id,
                ap,
                digest,
                limit_s,
                RadioLoad(self.load, mbit_s),
                coded=self.worker.codecs.codes_down,
            )

        return await self.transferred(given, attempt, in_session=given.in_session)

    async def train(self, order_id: str, step: int, job: TrainJob, before: Moved) -> Trained:
        """The training of an order, in one phase; what comes after it is no part of it, and begins with a
        rest. `before` is what the phase before it moved.

        An emulated board is done when its SGD steps are over (`sgd_step_s` each, or CPU-seconds x
        `cpu_slowdown`), also where they fail and on a busy machine: its power falls then. If the real
        training needs longer, the board pauses, and the lateness is reported, so that the run is flagged.
        """
        started_ns = self.timeline.enter(
            Phase.TRAIN,
            step,
            order_id=order_id,
            train_order_id=order_id,
            moved=before,
        )
        self.event(EventKind.TRAIN_STARTED, order_id)
        try:
            outcome, ended_ns, late_s = await self._train_for_its_time(job, step, started_ns)
        except TrainerRefused as refused:
            if not refused.device_s:
                refused.device_s = (self.timeline.enter(self.pause, step) - started_ns) * 1e-9
            await self.clock.sleep(self.rest_s)
            raise
        await self.clock.sleep(self.rest_s)  # from the end of the computing, where that was late
        return Trained(outcome, (ended_ns - started_ns) * 1e-9, late_s)

    async def compute(
        self, order: ProgramOrder | TrainOrder, before: Moved, call: Callable[[], Awaitable[Computed]]
    ) -> ProgramDone:
        """A program's answer, in one phase; `before` is what the phase before it moved.

        An emulated board computes for the processor seconds that `call` really took x `cpu_slowdown`. Where
        this machine needed longer, so did the board, and the lateness is reported.
        """
        evaluates = isinstance(order, ProgramOrder) and order.evaluates
        started_ns = self.timeline.enter(
            Phase.EVALUATE if evaluates else Phase.TRAIN,
            order.step,
            order_id=order.order_id,
            train_order_id="" if evaluates else order.order_id,
            moved=before,
        )
        self.event(EventKind.EVALUATE_STARTED if evaluates else EventKind.TRAIN_STARTED, order.order_id)
        return ProgramDone(*await self._for_its_time(order.step, started_ns, call))

    async def code(
        self, phase: Phase, given: GivenOrder, job: CodeJob, training_id: str, before: Moved = NOTHING_MOVED
    ) -> tuple[CodeOutcome, float]:
        """A model coded or decoded by the trainer, in one phase, and how long that lasted; `before` is what
        the phase before it moved. An emulated board takes its time as in `compute`."""
        order = given.order
        started_ns = self.timeline.enter(
            phase, order.step, order_id=order.order_id, train_order_id=training_id, moved=before
        )
        done, device_s, _ = await self._for_its_time(order.step, started_ns, lambda: self.worker.code(job))
        return done, device_s

    async def decoded(
        self, given: GivenOrder, blob: bytes, before: Moved, training_id: str = ""
    ) -> tuple[bytes, float]:
        """The plain blob of a model that was downloaded, in a separate phase where it was coded, and how
        long that lasted; `before` is what the phase before it moved."""
        if not self.worker.codecs.codes_down:
            return blob, 0.0
        job = self._decode_job(blob)
        _, coding_s = await self.code(Phase.DECODE, given, job, training_id, before)
        return Path(job.out_path).read_bytes(), coding_s

    async def plain(self, blob: bytes) -> bytes:
        """The same outside every measured phase."""
        if not self.worker.codecs.codes_down:
            return blob
        job = self._decode_job(blob)
        await self.worker.code(job)
        return Path(job.out_path).read_bytes()

    def _decode_job(self, blob: bytes) -> CodeJob:
        coded, plain = (self.folder / name for name in ("coded.blob", "decoded.blob"))
        overwrite(coded, blob)
        return CodeJob(str(coded), str(plain), up=False)

    async def _for_its_time(
        self, step: int, started_ns: int, call: Callable[[], Awaitable[Spent]]
    ) -> tuple[Spent, float, float]:
        """The result, how long its phase lasted, and by how much this machine was late."""
        late_s = 0.0
        try:
            computed = await call()
            if self.cpu_slowdown is not None:
                due_ns = started_ns + self._ns(computed.cpu_s * self.cpu_slowdown)
                late_s = max(0.0, (self.clock.now_ns() - due_ns) * 1e-9)
                await self.clock.sleep_until_ns(due_ns)
        finally:
            ended_ns = self.timeline.enter(self.pause, step)
        await self.clock.sleep(self.rest_s)
        return computed, (ended_ns - started_ns) * 1e-9, late_s

    def cost(
        self, kind: type[Report], training: LocalTraining, refused: TrainerRefused, download: ModelTransfer
    ) -> Report:
        """The report of a training that made no model: no losses, but what it took."""
        return kind(
            samples=self.worker.samples,
            sgd_steps=self.worker.sgd_steps(training),
            mean_loss=math.nan,
            mean_squared_loss=math.nan,
            model_digest="",
            device_s=refused.device_s,
            downloaded_bytes=download.transferred_bytes,
            download_s=download.duration_s,
        )

    async def _train_for_its_time(
        self, job: TrainJob, step: int, started_ns: int
    ) -> tuple[TrainOutcome, int, float]:
        """The outcome, the stamp at which the board was done, and the lateness."""
        training = asyncio.ensure_future(self.worker.train(job))
        if self.cpu_slowdown is None:
            outcome = await training
            return outcome, self.timeline.enter(self.pause, step), 0.0
        step_s = self.sgd_step_s or self.worker.step_cpu_s * self.cpu_slowdown
        expected_s = step_s * self.worker.sgd_steps(job.training)
        due_ns = started_ns + round(expected_s * 1e9)
        left_s = self.clock.host_seconds((due_ns - self.clock.now_ns()) * 1e-9)
        await asyncio.wait({training}, timeout=max(0.0, left_s))
        if training.done():
            if not isinstance(training.exception(), TrainerDied):
                # A refused one, too: one that diverged has made all its steps.
                await self.clock.sleep_until_ns(due_ns)
            return training.result(), self.timeline.enter(self.pause, step), 0.0
        ended_ns = self.timeline.enter(self.pause, step)
        try:
            outcome = await training
        except TrainerRefused as refused:  # late, as far as this machine goes
            refused.device_s = (ended_ns - started_ns) * 1e-9
            raise
        return outcome, ended_ns, (self.clock.now_ns() - due_ns) * 1e-9


def overwrite(path: Path, blob: bytes) -> None:
    """Write over the old bytes: a file that is truncated first is flushed when closed (4 ms, not 0.2)."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(blob)
        file.truncate(len(blob))
