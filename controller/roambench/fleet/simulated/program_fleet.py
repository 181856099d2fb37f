"""Virtual devices whose programs answer: real programs of this machine, modelled transfers and times."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from roambench.agent.orders.program import Program
from roambench.agent.orders.program_models import train_message, trained_model
from roambench.agent.orders.worker import TrainerDied, TrainerRefused
from roambench.agent.session.data_link import TimeIsUp
from roambench.contract.errors import FleetError
from roambench.contract.model_blob import encode_message
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    GivenOrder,
    Order,
    ProgramOrder,
    TrainReply,
    UploadOrder,
    UploadReply,
    Vector,
)
from roambench.contract.program_spec import ProgramSpec
from roambench.fleet.fork_server import ONE_THREAD
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.simulated_fleet import VirtualDevice
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry
from roambench.learning.start_models import StartInputs, start_model
from roambench.rounds.ports import OnAnswer, keep_all


class ProgramFleet:
    """A `rounds.ports.Fleet` of programs, one process per device; `at_once` of them compute at a time.

    What ends a program, or lasts longer than `limit_s` seconds of this machine, fails as it does on an agent.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        device: VirtualDevice,
        *,
        at_once: int,
        limit_s: float,
    ) -> None:
        self._programs = programs
        self._device = device
        self._turns = asyncio.Semaphore(at_once)
        self._limit_s = limit_s
        self._published: dict[str, bytes] = {}
        self._held: dict[int, tuple[str, bytes]] = {}  # by device: the order, and its answer

    async def perform(self, orders: Sequence[Order], on_answer: OnAnswer = keep_all) -> list[Answer]:
        """Carry out the orders side by side; background orders are done at once."""

        async def answered(order: Order) -> Answer:
            match order:
                case ProgramOrder():
                    return on_answer(await self._compute(order))
                case UploadOrder():
                    return on_answer(self._upload(order))
                case _:
                    return on_answer(Answer(order.order_id, order.device, order.step, AnswerStatus.DONE))

        return list(await asyncio.gather(*(answered(order) for order in orders)))

    def publish(self, model: Vector | bytes) -> str:
        """Keep a message that devices may download; returns its digest."""
        assert isinstance(model, bytes)  # programs have no other models
        digest = digest_of(encode_message(model))
        self._published[digest] = model
        return digest

    def retain(self, digests: Collection[str]) -> None:
        """Forget published messages but those of `digests`."""
        self._published = {digest: self._published[digest] for digest in digests}

    async def _compute(self, order: ProgramOrder) -> Answer:
        given = GivenOrder(order, self._limit_s)
        program, message = self._programs[order.device], self._published[order.digest]
        try:
            async with self._turns:
                await program.ready()
                computed = await program.call(message, self._limit_s)
        except TrainerRefused as error:
            return given.refused(str(error))
        except TimeIsUp as error:
            return given.late(str(error))
        except TrainerDied as error:
            return given.failed(str(error))
        answer = encode_message(computed.answer)
        self._held[order.device] = order.order_id, computed.answer
        device, downloaded_bytes = self._device, len(encode_message(message))
        mbit_s = order.download_mbit_s or device.download_mbit_s
        download_s = device.transfer_s(downloaded_bytes, mbit_s)
        device_s = device.program_s(order.device, computed.cpu_s)
        if download_s + device_s > (order.limit_s or math.inf):
            return given.late(f"no answer within {order.limit_s:.0f} s")
        return given.done(
            TrainReply(
                samples=0,
                sgd_steps=0,
                mean_loss=math.nan,
                mean_squared_loss=math.nan,
                model_digest=digest_of(answer),
                cpu_s=computed.cpu_s,
                device_s=device_s,
                downloaded_bytes=downloaded_bytes,
                download_s=download_s,
            )
        )

    def _upload(self, order: UploadOrder) -> Answer:
        given = GivenOrder(order, self._limit_s)
        held = self._held.get(order.device)
        if held is None or held[0] != order.train_order_id:
            return given.refused(f"no answer to {order.train_order_id}")
        blob = encode_message(held[1])
        upload_s = self._device.transfer_s(len(blob), order.upload_mbit_s or self._device.upload_mbit_s)
        if upload_s > (order.limit_s or math.inf):
            return given.late(f"no answer within {order.limit_s:.0f} s")
        return given.done(UploadReply(np.zeros(0, np.float32), digest_of(blob), len(blob), upload_s, held[1]))


class ProgramTrainer:
    """A `TrainingBackend` of programs, one process per device; `at_once` of them train at a time."""

    def __init__(self, programs: Sequence[Program], rows: ModelRows, *, at_once: int, limit_s: float) -> None:
        self._programs, self._rows = programs, rows
        self._turns = asyncio.Semaphore(at_once)
        self._limit_s = limit_s

    async def start(self) -> None:
        """Nothing: the programs are loaded."""

    async def stop(self) -> None:
        """Nothing: who loaded the programs ends them."""

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        """One outcome per job; a program that ends, or gives no model in time, is one that says so."""

        async def done(index: int, job: TrainingJob) -> TrainingOutcome:
            async with self._turns:
                outcome = await self._train(job)
            on_outcome(index, outcome)
            return outcome

        return list(await asyncio.gather(*(done(index, job) for index, job in enumerate(jobs))))

    async def _train(self, job: TrainingJob) -> TrainingOutcome:
        rows = self._rows
        ap, own, last_global, previous = (None if row < 0 else rows.row(row) for row in job.read_rows)
        assert ap is not None  # every training starts from a model
        inputs = StartInputs(ap, own, last_global=last_global, previous_ap=previous)
        program = self._programs[job.device]
        try:
            message = train_message(start_model(job.training.start_rule, inputs), job.step, job.training)
            await program.ready()
            computed = await program.call(message, self._limit_s)
            made = trained_model(computed.answer, rows.size)
        except (TrainerRefused, TrainerDied, TimeIsUp) as error:
            return TrainingOutcome(refused=str(error)[:500])
        if refused := rows.accept(job.out_row, made.model):
            return TrainingOutcome(refused)
        return TrainingOutcome("", made.samples, 0, made.loss, made.loss * made.loss, computed.cpu_s)


@asynccontextmanager
async def loaded_programs(
    specs: Sequence[ProgramSpec], folders: Sequence[Path], *, at_once: int
) -> AsyncIterator[list[Program]]:
    """A program for each device; ended behind the body. FleetError says which cannot be loaded."""
    programs = [Program(folder, environment=ONE_THREAD) for folder in folders]  # as agents here have it
    turns = asyncio.Semaphore(at_once)

    async def load(place: int) -> None:
        folders[place].mkdir(parents=True, exist_ok=True)
        async with turns:
            try:
                await programs[place].prepare(specs[place])
            except (TrainerRefused, TrainerDied) as error:
                raise FleetError(f"{folders[place].name}: {error}") from None

    try:
        loads = await asyncio.gather(*(load(place) for place in range(len(specs))), return_exceptions=True)
        for failure in filter(None, loads):
            raise failure
        yield programs
    finally:
        await asyncio.gather(*(program.close() for program in programs))
