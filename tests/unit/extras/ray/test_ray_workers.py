"""Trainings spread by Ray give the worker processes' bits, whoever dies meanwhile, and leave nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from roambench.contract.errors import FleetError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.extras.ray.ray_workers import LentModels, RayWorkers
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome, WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.workers import TrainingWorkers
from roambench.learning.layout import flatten
from roambench.learning.models.build import build
from samples import sampled
from soaking.influxd import free_port

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(600)]

DEVICES = 5
#: One more row than models that jobs start from: where the first result goes.
START_ROWS = 3


def setting_in(folder: Path, model: str = "mlp") -> WorkerSetting:
    draws = np.random.default_rng(5)
    arrays = {
        "images": draws.standard_normal((60, 1, 32, 32)).astype(np.float32),
        "labels": draws.integers(0, 10, 60),
        "parts": draws.permutation(60),
        "offsets": np.array([0, 20, 32, 41, 50, 60]),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    spec = LearningSpec(model, 1, 10, 0.01, 0.9, 0.0, 8, "")
    size = flatten(build("mlp", 1, 10)).size
    paths = [str(folder / f"{name}.npy") for name in ("images", "labels", "parts", "offsets")]
    return WorkerSetting(spec, *paths, str(folder / "models.bin"), size, START_ROWS + 2 * DEVICES)


def rows_of(setting: WorkerSetting) -> ModelRows:
    rows = ModelRows(Path(setting.models_path), setting.model_size, setting.model_capacity, create=True)
    for seed in range(START_ROWS):
        rows.store(flatten(build("mlp", 1, 10, seed=seed)))
    return rows


def jobs(epochs: int = 2) -> list[TrainingJob]:
    """Two rounds of five devices at two APs; some go on from an own model, one is pulled to a global one."""
    plain = [
        TrainingJob(
            number % DEVICES, number % 2, -1, -1, START_ROWS + number, LocalTraining(epochs, 40 + number)
        )
        for number in range(2 * DEVICES)
    ]
    own = replace(plain[3].training, start_rule="own")
    plain[3] = replace(plain[3], own_row=2, training=own)
    pulled = replace(plain[8].training, objective="fedprox:mu=0.1")
    plain[8] = replace(plain[8], global_row=2, training=pulled)
    return plain


def told(outcomes: Sequence[TrainingOutcome]) -> list[TrainingOutcome]:
    return [replace(outcome, cpu_s=0.0) for outcome in outcomes]


def models(rows: ModelRows, work: Sequence[TrainingJob]) -> list[bytes]:
    return [rows.row(job.out_row).tobytes() for job in work]


async def by_processes(
    folder: Path, work: Sequence[TrainingJob]
) -> tuple[list[TrainingOutcome], list[bytes]]:
    setting = setting_in(folder)
    rows = rows_of(setting)
    pool = TrainingWorkers(setting, folder, 2)
    await pool.start()
    try:
        return told(await pool.train(work)), models(rows, work)
    finally:
        await pool.stop()


def of_ray() -> list[str]:
    """Processes of a Ray that this one started."""
    below = psutil.Process().children(recursive=True)
    return [name for name in (process.name() for process in below) if "ray" in name or "gcs" in name]


async def test_two_ray_workers_give_the_bits_of_two_processes_even_if_one_is_killed(tmp_path: Path) -> None:
    (tmp_path / "processes").mkdir()
    work = jobs()
    outcomes, vectors = await by_processes(tmp_path / "processes", work)
    assert [outcome.refused for outcome in outcomes] == [""] * len(work)
    assert [outcome.samples for outcome in outcomes] == [20, 12, 9, 9, 10] * 2
    assert len(set(vectors)) == len(work)

    setting = setting_in(tmp_path)
    rows = rows_of(setting)
    environment, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    pool = RayWorkers(setting, rows, 2)
    await pool.start()
    try:
        assert (dict(os.environ), signal.getsignal(signal.SIGTERM)) == (environment, handler)
        first = pool.process_ids
        assert len(set(first)) == 2
        assert told(await pool.train(work)) == outcomes
        assert models(rows, work) == vectors
        assert pool.process_ids == first

        for job in work:
            rows.row(job.out_row)[:] = 0.0
        long = asyncio.create_task(pool.train(jobs()))
        await asyncio.sleep(0.0)  # all that can be asked has been asked
        os.kill(first[0], signal.SIGKILL)
        assert told(await long) == outcomes
        assert models(rows, work) == vectors
        assert first[0] not in pool.process_ids
        assert first[1] in pool.process_ids

        refused = await pool.train([replace(work[0], training=LocalTraining(objective="mse")), work[1]])
        assert "unknown local algorithm 'mse'" in refused[0].refused
        assert told(refused[1:]) == outcomes[1:2]
        assert "raylet" in of_ray()
    finally:
        await pool.stop()
    assert of_ray() == []
    assert not list(Path("/tmp").glob(f"rb-ray-{os.getpid()}-*"))
    await pool.stop()  # a second time does nothing


async def head_node(folder: Path, port: int) -> asyncio.subprocess.Process:
    """A head node of two CPUs in a folder of its own, once its raylet listens, or has given up."""
    head = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"),
        *("--node-ip-address=127.0.0.1", "--num-cpus=2", "--include-dashboard=false"),
        *(f"--object-store-memory={200 << 20}", f"--temp-dir={folder}", "--disable-usage-stats"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "RAY_AUTH_MODE": "disabled"},
    )
    while head.returncode is None and not (folder / "session_latest/sockets/raylet").exists():
        await asyncio.sleep(0.1)
    return head


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[str]:
    """The address of a head node that was there before us. On a busy machine Ray gives up while one
    starts; then another is begun."""
    for attempt in range(3):
        port = free_port()
        (place := folder / str(attempt)).mkdir()
        head = await head_node(place, port)
        if head.returncode is None:
            break
    assert head.returncode is None, "Ray did not start a head node three times"
    try:
        yield f"127.0.0.1:{port}"
        assert head.returncode is None
    finally:
        if head.returncode is None:
            head.terminate()
        await head.wait()


async def test_a_cluster_is_joined_by_its_address_and_goes_on_without_us(tmp_path: Path) -> None:
    (tmp_path / "processes").mkdir()
    work = jobs(epochs=1)[:4]
    outcomes, vectors = await by_processes(tmp_path / "processes", work)
    setting = setting_in(tmp_path)
    rows = rows_of(setting)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        async with cluster(Path(folder)) as address:
            with pytest.raises(FleetError, match=r"3 of them, but the Ray cluster has 2 CPUs"):
                await RayWorkers(setting, rows, 3, address).start()
            pool = RayWorkers(setting, rows, 0, address)  # one for each of its CPUs
            await pool.start()
            assert len(pool.process_ids) == 2
            assert told(await pool.train(work)) == outcomes
            assert models(rows, work) == vectors
            await pool.stop()


async def test_ray_workers_that_cannot_start_say_why_and_leave_nothing(tmp_path: Path) -> None:
    setting = setting_in(tmp_path, model="resnet-1000")
    with pytest.raises(FleetError, match=r"cannot start: .*unknown model 'resnet-1000'.*on node"):
        await RayWorkers(setting, rows_of(setting), 1).start()
    assert of_ray() == []


#: As Ray says it, of two waits.
SLOW = (
    RuntimeError("Timed out waiting for file /tmp/session/gcs_server_port"),
    Exception(
        "The current node timed out during startup. This could happen because some of the raylet failed"
    ),
)


@pytest.mark.parametrize("slow_of", sampled(SLOW[:1], SLOW))
async def test_a_ray_whose_own_server_starts_too_slowly_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_of: Exception
) -> None:
    node = pytest.importorskip("ray._private.node")
    waited, failed = node.wait_for_persisted_port, list[Exception]()

    def slow(*words: object) -> object:
        if len(failed) < 2:
            failed.append(slow_of)
            raise slow_of
        return waited(*words)

    monkeypatch.setattr(node, "wait_for_persisted_port", slow)
    setting = setting_in(tmp_path)
    pool = RayWorkers(setting, rows_of(setting), 1)
    await pool.start()
    assert (len(pool.process_ids), len(failed)) == (1, 2)
    await pool.stop()
    assert of_ray() == []  # nor is anything left of the first two


async def test_without_ray_the_error_has_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = setting_in(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FleetError, match=r"-m pip install 'ray"):
        await RayWorkers(setting, rows_of(setting), 1).start()


async def test_a_model_is_lent_once_and_given_up_with_its_last_job(tmp_path: Path) -> None:
    work = jobs()[:3]  # rows 0, 1, 0
    rows = rows_of(setting_in(tmp_path))
    stored: list[bytes] = []
    lent = LentModels(rows, work, lambda model: stored.append(model.tobytes()) or len(stored))
    assert [lent.lend(row) for row in (0, 1, 0, -1)] == [1, 2, 1, None]
    lent.done(work[0])
    assert lent.lend(0) == 1  # the third job still needs it
    lent.done(work[2])
    assert lent.lend(0) == 3  # stored anew
    assert stored == [rows.row(row).tobytes() for row in (0, 1, 0)]
