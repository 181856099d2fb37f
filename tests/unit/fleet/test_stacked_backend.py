"""The stacked backend's process: virtual devices on it learn what worker processes teach them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from roambench.contract.errors import FleetError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.fleet.simulated.job import StackedSetting, TrainingJob, TrainingOutcome, WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows, free_of_others
from roambench.fleet.simulated.stacked import StackedTrainer, shared_in
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner
from roambench.learning.models.build import build
from roambench.learning.shards import Shard
from samples import sampled

from .test_simulated_fleet import PARTS, files_in, whole_shard

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("one_thread")]

SIZE = flatten(build("mlp", 1, 10)).size


def spec(model: str = "mlp", rate: float = 0.05) -> LearningSpec:
    return LearningSpec(model, 1, 10, rate, 0.9, 0.0, 2, "", precision="float64")


def setting_in(
    folder: Path, model: str = "mlp", device: str = "cpu", compute: str = "float64", rate: float = 0.05
) -> StackedSetting:
    worker = WorkerSetting(spec(model, rate), *files_in(folder), str(folder / "models.bin"), SIZE, 40)
    return StackedSetting(worker, 2, device, 1, compute)


@asynccontextmanager
async def trainer_in(folder: Path) -> AsyncIterator[tuple[StackedTrainer, ModelRows]]:
    setting = setting_in(folder)
    rows = ModelRows(folder / "models.bin", SIZE, 40, create=True, precision="float64")
    trainer = StackedTrainer(setting, folder)
    try:
        await trainer.start()
        yield trainer, rows
    finally:
        await trainer.stop()


def model(seed: int) -> np.ndarray:
    return flatten(build("mlp", 1, 10, seed=seed)).astype(np.float64)


def jobs_on(rows: ModelRows, **changes: object) -> list[TrainingJob]:
    """Every device starts from half the AP's model, half its own; proximal terms hold it to the global
    one."""
    ap_row, global_row = rows.store(model(1)), rows.store(model(2))
    plain = replace(LocalTraining(2, start_rule="average", objective="middle_plus"), **changes)
    return [
        TrainingJob(
            device,
            ap_row,
            rows.store(model(10 + device)),
            global_row,
            rows.take(),
            replace(plain, seed=device),
        )
        for device in range(3)
    ]


def assert_trained(rows: ModelRows, jobs: list[TrainingJob], rate: float = 0.05) -> None:
    shard = whole_shard()
    for job in jobs:
        part = PARTS[job.device]
        expected = Learner(spec(rate=rate)).train(
            Shard(shard.images[part], shard.labels[part]),
            job.training,
            model(1),
            model(10 + job.device),
            model(2),
        )
        apart = np.abs(rows.row(job.out_row) - expected.vector).max() / np.linalg.norm(expected.vector)
        assert apart < 1e-12


async def test_models_and_reports_are_those_of_workers(tmp_path: Path) -> None:
    async with trainer_in(tmp_path) as (trainer, rows):
        assert await trainer.train([]) == []
        jobs = jobs_on(rows)
        outcomes = await trainer.train(jobs)
        assert_trained(rows, jobs)
        again = jobs_on(rows, steps=3, start_rule="own_head", objective="ce")
        counted = await trainer.train(again)
        assert_trained(rows, again)
    # Batches of 2: devices with 4, 3 and 5 images have 2, 2 and 3 an epoch.
    assert [(told.samples, told.sgd_steps, told.refused) for told in outcomes] == [
        (4, 4, ""), (3, 4, ""), (5, 6, ""),
    ]  # fmt: skip
    assert all(0.1 < told.mean_loss < 20.0 and told.cpu_s > 0.0 for told in outcomes)
    assert [told.sgd_steps for told in counted] == [3, 3, 3]


async def test_a_job_that_cannot_be_done_is_refused_beside_the_others(tmp_path: Path) -> None:
    async with trainer_in(tmp_path) as (trainer, rows):
        sound, wrong, _ = jobs_on(rows)
        guess = LocalTraining(1, 1, start_rule="guess")
        wrong = TrainingJob(1, wrong.ap_row, wrong.own_row, -1, wrong.out_row, guess)
        done, refused = await trainer.train([sound, wrong])
        assert_trained(rows, [sound])
    assert done.refused == ""
    assert "unknown start rule 'guess'" in refused.refused


async def test_a_process_that_is_killed_costs_time_and_no_model(tmp_path: Path) -> None:
    async with trainer_in(tmp_path) as (trainer, rows):
        first = trainer.process_id
        os.kill(first, signal.SIGKILL)
        jobs = jobs_on(rows)
        outcomes = await trainer.train(jobs)
        assert_trained(rows, jobs)
        assert trainer.process_id != first
    assert [told.refused for told in outcomes] == ["", "", ""]


@asynccontextmanager
async def sharing(
    folder: Path, runs: int, rates: Sequence[float] = (0.05,) * 4
) -> AsyncIterator[list[tuple[StackedTrainer, ModelRows]]]:
    """Runs that meet in the folder; at the end their process is gone."""
    meeting: list[tuple[StackedTrainer, ModelRows]] = []
    with shared_in(folder):
        for number in range(runs):
            (folder / str(number)).mkdir()
            setting = setting_in(folder / str(number), rate=rates[number])
            rows = ModelRows(folder / str(number) / "models.bin", SIZE, 40, create=True, precision="float64")
            meeting.append((StackedTrainer(setting, folder / str(number)), rows))
    try:
        await asyncio.gather(*(trainer.start() for trainer, _ in meeting))
        yield meeting
    finally:
        await asyncio.gather(*(trainer.stop() for trainer, _ in meeting))
    await asyncio.to_thread(_gone, {trainer.process_id for trainer, _ in meeting})


def _gone(process_ids: set[int]) -> None:
    psutil.wait_procs([psutil.Process(pid) for pid in process_ids if psutil.pid_exists(pid)], timeout=60)
    assert not any(psutil.pid_exists(pid) for pid in process_ids)


async def at_once(
    meeting: list[tuple[StackedTrainer, ModelRows]], work: list[list[TrainingJob]]
) -> list[list[TrainingOutcome] | BaseException]:
    """What comes of each run's jobs, all ordered while their process is busy."""
    (process,) = {trainer.process_id for trainer, _ in meeting}
    os.kill(process, signal.SIGSTOP)
    orders = [
        asyncio.create_task(trainer.train(jobs)) for (trainer, _), jobs in zip(meeting, work, strict=True)
    ]
    await asyncio.sleep(0.2)  # they are in its sockets
    os.kill(process, signal.SIGCONT)
    return await asyncio.gather(*orders, return_exceptions=True)


async def test_what_runs_want_while_their_process_is_busy_is_one_stack(tmp_path: Path) -> None:
    async with sharing(tmp_path, 3) as meeting:
        work = [jobs_on(rows)[:2] for _, rows in meeting]
        for outcomes, jobs, (_, rows) in zip(await at_once(meeting, work), work, meeting, strict=True):
            assert not isinstance(outcomes, BaseException), outcomes
            assert [told.refused for told in outcomes] == ["", ""]
            assert_trained(rows, jobs)
    # Six models of at most two at a time.
    assert (tmp_path / "stacked.log").read_text().splitlines()[-1:] == ["6 trainings in 3 stacks"]


async def test_runs_with_other_settings_and_runs_that_make_a_stack_fail_harm_no_run(tmp_path: Path) -> None:
    """One asks for a device that is not there; the images of one are cut off, which kills the process."""
    rates = [0.05, 0.2, 0.05, 0.05]
    async with sharing(tmp_path, 4, rates) as meeting:
        work = [jobs_on(rows) for _, rows in meeting]
        work[2][0] = replace(work[2][0], device=99)
        os.truncate(tmp_path / "3" / "images.npy", 200)
        found = await at_once(meeting, work)
        for number in (0, 1):
            assert not isinstance(found[number], BaseException), found[number]
            assert_trained(meeting[number][1], work[number], rates[number])
        assert isinstance(found[2], FleetError)
        assert "out of bounds" in str(found[2])
        assert isinstance(found[3], FleetError)
        assert "cannot start" in str(found[3])


async def test_a_run_that_goes_or_is_refused_and_a_process_that_is_killed_harm_no_other_run(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path, 3) as meeting:
        (first, gone), (second, rows), (third, others) = meeting
        jobs = jobs_on(rows)
        leaving = asyncio.create_task(first.train(jobs_on(gone, epochs=100)))
        await asyncio.sleep(0.2)
        working = asyncio.create_task(second.train(jobs))
        leaving.cancel()
        await first.stop()
        assert [told.refused for told in await working] == ["", "", ""]
        assert_trained(rows, jobs)
        gone.leave()
        await free_of_others(gone.path, 60.0)  # another may go on with it

        broken = jobs_on(others)
        Path(others.path).with_name("images.npy").unlink()
        os.kill(third.process_id, signal.SIGKILL)
        found = await asyncio.gather(third.train(broken), second.train(jobs), return_exceptions=True)
        assert isinstance(found[0], FleetError)
        assert "No such file" in str(found[0])
        assert not isinstance(found[1], BaseException)
        assert_trained(rows, jobs)


LACKS = (
    ({"model": "resnet-1000"}, "unknown model 'resnet-1000'"),
    ({"device": "cuda"}, "torch finds no GPU here"),
    ({"compute": "tf32"}, "torch finds no GPU here"),
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    sampled(
        LACKS[:1],
        LACKS if not torch.cuda.is_available() else LACKS[:1],
    ),
)
async def test_what_it_lacks_is_told_before_anything_runs(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    setting = setting_in(tmp_path, **changes)
    ModelRows(tmp_path / "models.bin", SIZE, 40, create=True, precision="float64")
    trainer = StackedTrainer(setting, tmp_path)
    with pytest.raises(FleetError, match=f"cannot start: .*{reason}"):
        await trainer.start()
