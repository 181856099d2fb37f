"""Virtual devices with real worker processes: equal to training here, whoever dies meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from roambench.contract.errors import FleetError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import (
    AnswerStatus,
    DiscardOrder,
    ExchangeOrder,
    IdleOrder,
    SyncOrder,
    SyncReply,
    TrainOrder,
    TrainReply,
    UploadOrder,
    UploadReply,
)
from roambench.fleet import fork_server
from roambench.fleet.fork_server import ForkedProcess, ForkServer
from roambench.fleet.simulated.job import WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.simulated_fleet import SimulatedFleet, VirtualDevice, Workload
from roambench.fleet.simulated.workers import TrainingWorkers
from roambench.learning.layout import flatten
from roambench.learning.learner import Learner
from roambench.learning.models.build import build
from roambench.learning.shards import Shard

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("workers_of_one_server", "one_thread")]

SPEC = LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, "")
PARTS = ([0, 5, 9, 11], [1, 2, 3], [4, 6, 7, 8, 10])
LAYOUT = "c" * 32


def whole_shard() -> Shard:
    draws = np.random.default_rng(3)
    images = draws.standard_normal((12, 1, 32, 32)).astype(np.float32)
    return Shard(images, draws.integers(0, 10, 12))


def files_in(folder: Path) -> list[str]:
    """The files of the whole shard, and of who has which part of it."""
    shard = whole_shard()
    arrays = {
        "images": shard.images,
        "labels": shard.labels,
        "parts": np.concatenate([np.array(part) for part in PARTS]),
        "offsets": np.cumsum([0, *(len(part) for part in PARTS)]),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [str(folder / f"{name}.npy") for name in arrays]


def setting_in(folder: Path, model: str = "mlp") -> WorkerSetting:
    spec = LearningSpec(model, 1, 10, 0.01, 0.9, 0.0, 8, "")
    size = flatten(build("mlp", 1, 10)).size
    return WorkerSetting(spec, *files_in(folder), str(folder / "models.bin"), size, 40)


@asynccontextmanager
async def fleet_in(folder: Path, workers: int) -> AsyncIterator[tuple[SimulatedFleet, TrainingWorkers]]:
    setting = setting_in(folder)
    rows = ModelRows(Path(setting.models_path), setting.model_size, setting.model_capacity, create=True)
    pool = TrainingWorkers(setting, folder, workers)
    await pool.start()
    try:
        yield SimulatedFleet(rows, pool, LAYOUT, VirtualDevice(0.5, 8.0, 4.0), workload), pool
    finally:
        await pool.stop()


def start_model() -> np.ndarray:
    return flatten(build("mlp", 1, 10, seed=4))


def workload(order: TrainOrder | ExchangeOrder) -> Workload:
    samples = len(PARTS[order.device])
    return Workload(samples, order.training.sgd_steps(samples, SPEC.batch_size))


def train(device: int, digest: str, step: int = 0, **changes: object) -> TrainOrder:
    training = replace(LocalTraining(2, 100 + device), **changes)
    return TrainOrder(f"r/{step}/{device}/train", device, step, 0, digest, training)


def upload(device: int, step: int = 0, *, keep: bool = False) -> UploadOrder:
    return UploadOrder(f"r/{step}/{device}/up", device, step, 0, f"r/{step}/{device}/train", keeps_model=keep)


def expected(device: int, start: np.ndarray) -> np.ndarray:
    """What one device's two epochs make of `start`, trained here with one thread."""
    shard, part = whole_shard(), PARTS[device]
    mine = Shard(shard.images[part], shard.labels[part])
    return Learner(SPEC).train(mine, LocalTraining(2, 100 + device), start).vector


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fleet starts what forks its workers, as outside tests."""
    monkeypatch.setattr(fork_server, "inherited", None)


async def test_virtual_devices_train_to_the_bits_that_training_here_gives(tmp_path: Path) -> None:
    start = start_model()
    async with fleet_in(tmp_path, 2) as (fleet, _):
        digest = fleet.publish(start)
        assert digest == digest_of(encode(start, LAYOUT))
        trained = await fleet.perform([train(device, digest) for device in range(3)])
        sent = await fleet.perform([upload(device) for device in range(3)])
    for device, (told, answer) in enumerate(zip(trained, sent, strict=True)):
        assert isinstance(told.reply, TrainReply)
        assert isinstance(answer.reply, UploadReply)
        assert answer.reply.model.tobytes() == expected(device, start).tobytes()
        # Two epochs of one batch each at 0.5 s a step; 8 Mbit/s down, 4 up.
        size = len(encode(start, LAYOUT))
        assert (told.reply.samples, told.reply.device_s) == (len(PARTS[device]), 1.0)
        assert told.reply.download_s == pytest.approx(8e-6 * size / 8.0)
        assert answer.reply.upload_s == pytest.approx(8e-6 * size / 4.0)


async def test_a_worker_that_is_killed_costs_time_and_no_bit(tmp_path: Path) -> None:
    start = start_model()
    async with fleet_in(tmp_path, 2) as (fleet, pool):
        digest = fleet.publish(start)
        first = pool.process_ids

        async def kill() -> None:
            for process in first:
                os.kill(process, signal.SIGKILL)
                await asyncio.sleep(0.01)

        killing = asyncio.create_task(kill())
        trained = await fleet.perform([train(device, digest) for device in range(3)])
        await killing
        # Whoever was killed after its last job is found dead, and replaced, at the next.
        again = await fleet.perform([train(device, digest) for device in range(3)])
        sent = await fleet.perform([upload(device) for device in range(3)])
        assert set(pool.process_ids).isdisjoint(first)
    assert {answer.status for answer in [*trained, *again]} == {AnswerStatus.DONE}
    for device, answer in enumerate(sent):
        assert isinstance(answer.reply, UploadReply)
        assert answer.reply.model.tobytes() == expected(device, start).tobytes()


@pytest.mark.usefixtures("own_server")
async def test_what_forks_the_workers_is_replaced_too_when_killed(tmp_path: Path) -> None:
    start = start_model()
    async with fleet_in(tmp_path, 1) as (fleet, pool):
        digest = fleet.publish(start)
        (worker,) = pool.process_ids
        fork_server = psutil.Process(worker).parent()
        assert fork_server is not None
        fork_server.kill()
        psutil.Process(worker).kill()
        (trained,) = await fleet.perform([train(0, digest)])
        (sent,) = await fleet.perform([upload(0)])
        assert pool.process_ids != [worker]
        assert psutil.Process(pool.process_ids[0]).ppid() != fork_server.pid
    assert trained.status is AnswerStatus.DONE
    assert isinstance(sent.reply, UploadReply)
    assert sent.reply.model.tobytes() == expected(0, start).tobytes()


@pytest.mark.usefixtures("own_server")
async def test_a_worker_that_is_killed_before_it_is_warm_is_replaced(tmp_path: Path) -> None:
    before = set(psutil.Process().children())

    def unborn() -> list[psutil.Process]:
        fork_servers = set(psutil.Process().children()) - before
        return [worker for fork_server in fork_servers for worker in fork_server.children()]

    start = start_model()
    setting = setting_in(tmp_path)
    rows = ModelRows(Path(setting.models_path), setting.model_size, setting.model_capacity, create=True)
    pool = TrainingWorkers(setting, tmp_path, 1)
    starting = asyncio.create_task(pool.start())
    while not (born := unborn()):
        assert not starting.done()
        await asyncio.sleep(0.001)
    born[0].kill()
    await starting
    try:
        fleet = SimulatedFleet(rows, pool, LAYOUT, VirtualDevice(0.5, 8.0, 4.0), workload)
        await fleet.perform([train(0, fleet.publish(start))])
        (sent,) = await fleet.perform([upload(0)])
        assert pool.process_ids != [born[0].pid]
    finally:
        await pool.stop()
    assert isinstance(sent.reply, UploadReply)
    assert sent.reply.model.tobytes() == expected(0, start).tobytes()


async def test_a_worker_that_is_killed_again_and_again_keeps_its_own_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one starts, and what it prints meanwhile is not taken for a reason."""
    setting = setting_in(tmp_path)
    ModelRows(Path(setting.models_path), setting.model_size, setting.model_capacity, create=True)
    pool = TrainingWorkers(setting, tmp_path, 2)
    fork = pool._fork_server.fork

    async def killed(module: str, argument: str, log: Path, **options: bool) -> ForkedProcess | None:
        worker = await fork(module, argument, log, **options)
        if log.name == "worker-2.log":
            assert worker is not None
            os.kill(worker.pid, signal.SIGKILL)
            with (tmp_path / "worker-1.log").open("a") as other:
                other.write("a warning\n")
        return worker

    monkeypatch.setattr(pool._fork_server, "fork", killed)
    with pytest.raises(FleetError) as refused:
        await pool.start()
    assert "it was killed 3 times before it was ready" in str(refused.value)
    assert str(refused.value).endswith(f"fewer simulated.workers need less; see {tmp_path / 'worker-2.log'}")
    assert (tmp_path / "worker-2.log").read_text() == ""


@pytest.mark.usefixtures("own_server")
async def test_no_process_is_left_when_the_fleet_stops(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    async with fleet_in(tmp_path, 2) as (_, pool):
        processes = set(psutil.Process().children(recursive=True)) - before
        assert set(pool.process_ids) < {process.pid for process in processes}
    assert psutil.wait_procs(processes, timeout=60)[1] == []


async def test_a_device_goes_on_from_its_own_model_where_its_order_says_so(tmp_path: Path) -> None:
    start = start_model()
    async with fleet_in(tmp_path, 1) as (fleet, _):
        digest = fleet.publish(start)
        await fleet.perform([train(0, digest)])
        await fleet.perform([upload(0, keep=True)])
        other = fleet.publish(start * 2)
        await fleet.perform([train(0, other, 1, start_rule="own")])
        (again,) = await fleet.perform([upload(0, 1, keep=True)])
        (synced,) = await fleet.perform([SyncOrder("r/2/0/sync", 0, 2, 0, other)])
        await fleet.perform([train(0, digest, 3, start_rule="own")])
        (last,) = await fleet.perform([upload(0, 3)])
    assert isinstance(again.reply, UploadReply)
    assert again.reply.model.tobytes() == expected(0, expected(0, start)).tobytes()
    own, other_model = again.reply.model.astype(np.float64), (start * 2).astype(np.float64)
    assert synced.reply == SyncReply(
        len(encode(start, LAYOUT)),
        pytest.approx(8e-6 * len(encode(start, LAYOUT)) / 8),
        pytest.approx(np.linalg.norm(own - other_model) / np.linalg.norm(other_model)),
    )
    assert isinstance(last.reply, UploadReply)
    assert last.reply.model.tobytes() == expected(0, start * 2).tobytes()


async def test_a_training_that_cannot_be_done_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async with fleet_in(tmp_path, 1) as (fleet, _):
        digest = fleet.publish(start_model())
        (answer,) = await fleet.perform([train(0, digest, objective="mse")])
        (sent,) = await fleet.perform([upload(0)])
        told = await fleet.perform(
            [
                DiscardOrder("r/0/0/discard", 0, 0, "r/0/0/train", "test"),
                IdleOrder("r/0/1/idle", 1, 0, True),
            ]
        )
    assert answer.status is AnswerStatus.REFUSED
    assert "unknown local algorithm 'mse'" in answer.reason
    assert sent.status is AnswerStatus.REFUSED
    assert [answer.status for answer in told] == [AnswerStatus.DONE] * 2


async def test_workers_that_cannot_start_say_why(tmp_path: Path) -> None:
    setting = setting_in(tmp_path, model="resnet-1000")
    ModelRows(Path(setting.models_path), setting.model_size, setting.model_capacity, create=True)
    with pytest.raises(FleetError, match=r"unknown model 'resnet-1000'.*; see .*/worker-1\.log$"):
        await TrainingWorkers(setting, tmp_path, 1).start()


@pytest.mark.usefixtures("own_server")
async def test_a_process_whose_asker_was_cancelled_does_not_keep_the_fork_server_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reads_to_its_end.py").write_text(
        "import sys\ndef forked(_):\n    sys.stdin.read()\n    return 0\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = ForkServer(["reads_to_its_end"], tmp_path / "log")
    lost = await server.fork("reads_to_its_end", "", tmp_path / "log")
    assert lost is not None
    assert psutil.pid_exists(lost.pid)
    await asyncio.wait_for(server.end(), 60.0)
    assert not psutil.pid_exists(lost.pid)
