"""The agent's end of the line to its trainer: what a death leaves in the socket confuses nobody."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from roambench.agent.orders.worker import TrainerDied, TrainerRefused, TrainJob, TrainOutcome, Worker
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining

pytestmark = pytest.mark.asyncio

SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "shard.safetensors")
JOB = TrainJob("start.blob", "draft.blob", "", "", LocalTraining(1, 7))
PREPARED = {"rss_bytes": 200, "samples": 60, "step_cpu_s": 0.01, "layout": "a" * 32}
TRAINED = {
    "samples": 60,
    "sgd_steps": 8,
    "mean_loss": 1.5,
    "mean_squared_loss": 2.5,
    "cpu_s": 0.25,
    "model_digest": "ab" * 32,
}
OUTCOME = TrainOutcome(**TRAINED)  # type: ignore[arg-type]


@dataclass
class HandTrainer:
    """Fork server and trainer, played by the test."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def asked(self) -> dict[str, Any]:
        request: dict[str, Any] = json.loads(await asyncio.wait_for(self.reader.readline(), 30))
        return request

    def say(self, **values: object) -> None:
        self.writer.write(json.dumps(values).encode() + b"\n")

    def die(self, half_a_line: bytes = b"") -> None:
        self.writer.write(half_a_line + b"\n" + b'{"died": "signal SIGKILL", "pid": 7}\n')

    async def prepare_and_train(self) -> list[str]:
        """What is asked until a training was answered well."""
        operations = []
        while "train" not in operations:
            request = await self.asked()
            operations.append(request["op"])
            self.say(id=request["id"], **(PREPARED if request["op"] == "prepare" else TRAINED))
        return operations


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[Worker, HandTrainer]]:
    ours, theirs = socket.socketpair()
    worker = Worker(ours)
    await worker.open()
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    trainer = HandTrainer(reader, writer)
    preparing = asyncio.create_task(worker.prepare(SPEC))
    trainer.say(id=(await trainer.asked())["id"], **PREPARED)
    await preparing
    try:
        yield worker, trainer
    finally:
        worker.close()
        writer.close()
        await asyncio.sleep(0.01)


async def test_a_request_that_a_dead_trainer_never_read_is_not_taken_for_the_next_one() -> None:
    """SIGKILL before it read: the next trainer finds the request in the socket and refuses it, too late."""
    async with pair() as (worker, trainer):
        first = asyncio.create_task(worker.train(JOB))
        unread = await trainer.asked()
        trainer.die()
        with pytest.raises(TrainerDied, match="signal SIGKILL"):
            await first
        trainer.say(id=unread["id"], refused="not prepared")
        second = asyncio.create_task(worker.train(JOB))
        assert await trainer.prepare_and_train() == ["prepare", "train"]
        assert await second == OUTCOME


async def test_a_trainer_that_dies_while_nobody_asks_costs_only_a_preparation() -> None:
    async with pair() as (worker, trainer):
        trainer.die()
        await asyncio.sleep(0.05)
        job = asyncio.create_task(worker.train(JOB))
        assert await trainer.prepare_and_train() == ["prepare", "train"]
        assert await job == OUTCOME


async def test_a_trainer_that_was_forked_again_is_prepared_when_asked_for_and_its_board_is_as_fast() -> None:
    async with pair() as (worker, trainer):
        trainer.die()
        await asyncio.sleep(0.05)
        ready = asyncio.create_task(worker.ready())
        trainer.say(id=(await trainer.asked())["id"], **{**PREPARED, "step_cpu_s": 0.5})
        await ready
        assert (worker.is_prepared, worker.step_cpu_s) == (True, 0.01)
        job = asyncio.create_task(worker.train(JOB))
        assert await trainer.prepare_and_train() == ["train"]
        assert await job == OUTCOME


async def test_half_a_reply_of_a_dying_trainer_is_dropped() -> None:
    async with pair() as (worker, trainer):
        job = asyncio.create_task(worker.train(JOB))
        await trainer.asked()
        trainer.die(half_a_line=b'{"id": 2, "samples": 6')
        with pytest.raises(TrainerDied):
            await job


async def test_a_warm_trainer_is_asked_once_and_a_refusal_keeps_it_warm() -> None:
    async with pair() as (worker, trainer):
        refused = asyncio.create_task(worker.train(JOB))
        trainer.say(id=(await trainer.asked())["id"], refused="no such start model")
        with pytest.raises(TrainerRefused, match="no such start model"):
            await refused
        job = asyncio.create_task(worker.train(JOB))
        assert await trainer.prepare_and_train() == ["train"]
        assert await job == OUTCOME


async def test_without_a_fork_server_every_job_fails_at_once() -> None:
    async with pair() as (worker, trainer):
        trainer.writer.close()
        await asyncio.sleep(0.05)
        for _ in range(2):
            with pytest.raises(TrainerDied, match="fork server ended"):
                await asyncio.wait_for(worker.train(JOB), 30)
