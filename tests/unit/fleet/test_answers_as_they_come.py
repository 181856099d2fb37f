"""Fleets hand answers on as they arrive, and keep of them what they are told to keep."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hand_agent import LAYOUT, MODEL, HandAgent, bench, connected, done, hand_agent
from roambench.contract.local_training import LocalTraining
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of, to_wire
from roambench.contract.orders import (
    Answer,
    AnswerStatus,
    IdleOrder,
    SyncOrder,
    TrainOrder,
    UploadOrder,
    UploadReply,
)
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.simulated_fleet import SimulatedFleet, VirtualDevice, Workload
from roambench.fleet.simulated.trainer import OnOutcome, no_hurry
from roambench.rounds.intake import Intake
from roambench.rounds.settle import answers_by_order
from roambench.rounds.state import RoundState, initial_state
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import Training
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio

DEVICES = 60
SIZE = 50_000  # 200 kB
APS = 2


class DeviceNumber:
    """A trainer whose models are full of their device's number."""

    def __init__(self, rows: ModelRows) -> None:
        self._rows = rows

    async def start(self) -> None: ...

    async def train(
        self, jobs: Sequence[TrainingJob], on_outcome: OnOutcome = no_hurry
    ) -> list[TrainingOutcome]:
        outcome = TrainingOutcome("", 1, 1, 0.5, 0.25)
        for index, job in enumerate(jobs):
            self._rows.row(job.out_row)[:] = job.device
            on_outcome(index, outcome)
        return [outcome] * len(jobs)

    async def stop(self) -> None: ...


async def trained_fleet(folder: Path) -> tuple[SimulatedFleet, list[UploadOrder], RoundState]:
    """All devices have trained; their uploads go to the APs in turn."""
    rows = ModelRows(folder / "models.bin", SIZE, DEVICES + 4, create=True)
    fleet = SimulatedFleet(
        rows, DeviceNumber(rows), LAYOUT, VirtualDevice(1.0, 0.0, 0.0), lambda order: Workload(1, 1)
    )
    start = np.ones(SIZE, np.float32)
    digest = fleet.publish(start)
    await fleet.perform(
        [TrainOrder(f"{d}/train", d, 0, d % APS, digest, LocalTraining()) for d in range(DEVICES)]
    )
    trainings = {d: Training(d, 0, d % APS, f"{d}/train", 1) for d in range(DEVICES)}
    uploads = [UploadOrder(f"{d}/up", d, 1, d % APS, f"{d}/train") for d in range(DEVICES)]
    return fleet, uploads, replace(initial_state(start, digest, APS), outstanding=trainings)


@pytest.mark.parametrize(("name", "models"), [("hierfavg", 5), ("mohawk", DEVICES // APS + 5)])
async def test_a_simulated_step_never_has_all_uploads_in_memory(
    tmp_path: Path, name: str, models: int
) -> None:
    fleet, uploads, state = await trained_fleet(tmp_path)
    intake = Intake(make_system(name, SystemOptions()), uploads, state, dict.fromkeys(range(DEVICES), 50.0))
    tracemalloc.start()
    try:
        answers = await fleet.perform(uploads, intake.take)
        settled = intake.settled(answers_by_order(uploads, answers))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The even devices' numbers 0, 2 .. 58, and the odd ones', all equally weighed (or nearly, by cosine).
    assert settled.edges[0].model[0] == pytest.approx(29.0, abs=0.2)
    assert settled.edges[1].model[-1] == pytest.approx(30.0, abs=0.2)
    # Two new models and a few at work, or one AP's uploads of 30; all 60 would be 12 MB.
    assert peak_bytes < models * SIZE * 4


async def test_a_simulated_fleet_hands_uploads_on_ap_by_ap_and_answers_in_the_order_given(
    tmp_path: Path,
) -> None:
    fleet, uploads, state = await trained_fleet(tmp_path)
    given = [uploads[5], uploads[2], uploads[1], uploads[4], IdleOrder("0/idle", 0, 1, True)]
    given.append(SyncOrder("7/sync", 7, 1, 0, state.global_digest))
    handed: list[str] = []

    def note(answer: Answer) -> Answer:
        handed.append(answer.order_id)
        return replace(answer, reason="kept")

    answers = await fleet.perform(given, note)
    assert handed == ["0/idle", "7/sync", "2/up", "4/up", "1/up", "5/up"]
    assert [answer.order_id for answer in answers] == [order.order_id for order in given]
    assert {answer.reason for answer in answers} == {"kept"}


async def test_an_agents_upload_is_handed_on_before_the_others_are_answered() -> None:
    handed: dict[str, Answer] = {}
    first_is_there = asyncio.Event()

    async def serve(agent: HandAgent, order: wire.Order) -> None:
        if order.order_id == "1/up":  # answers only when the other's model was handed on
            async with asyncio.timeout(60.0):
                await first_is_there.wait()
            refusal = wire.Answer(order_id=order.order_id, status=wire.Answer.FAILED)
            agent.link.send(wire.AgentFrame(answer=refusal))
            return
        blob = encode(MODEL + 1, LAYOUT)
        await agent.data.upload(
            order.order_id, order.upload.train_order_id, order.upload.ap, blob, digest_of(blob), 0.0, 4.0
        )
        report = wire.UploadReport(uploaded_bytes=len(blob), model_digest=to_wire(digest_of(blob)))
        agent.link.send(done(order, upload=report))

    def take(answer: Answer) -> Answer:
        handed[answer.order_id] = answer
        first_is_there.set()
        return replace(answer, reply=None)

    async with (
        bench() as where,
        hand_agent(where, on_order=serve),
        hand_agent(where, "pi-02", on_order=serve, machine="machine-2"),
    ):
        await connected(where, 2)
        where.fleet.publish(MODEL)
        orders = [UploadOrder(f"{device}/up", device, 2, 0, f"{device}/train") for device in (0, 1)]
        answers = await where.fleet.perform(orders, take)
    reply = handed["0/up"].reply
    assert isinstance(reply, UploadReply)
    np.testing.assert_array_equal(reply.model, MODEL + 1)
    assert list(handed) == ["0/up", "1/up"]
    assert [answer.reply for answer in answers] == [None, None]
    assert answers[0].status is AnswerStatus.DONE
    assert answers[1].status is AnswerStatus.FAILED
