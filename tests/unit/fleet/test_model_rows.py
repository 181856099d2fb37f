"""Models in a shared sparse file, and which of them a virtual device holds."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import RunError
from roambench.fleet.simulated.held_models import HeldModels
from roambench.fleet.simulated.model_rows import ModelRows, free_of_others


@pytest.fixture
def rows(tmp_path: Path) -> ModelRows:
    return ModelRows(tmp_path / "models.bin", 1000, 6, create=True)


def test_what_one_process_writes_another_that_maps_the_file_reads(rows: ModelRows) -> None:
    row = rows.store(np.arange(1000, dtype=np.float32))
    other = ModelRows(rows.path, 1000, 6)
    assert other.row(row).tolist() == list(range(1000))


def test_a_released_row_is_taken_again_before_a_new_one(rows: ModelRows) -> None:
    assert [rows.take() for _ in range(3)] == [0, 1, 2]
    rows.release(1)
    assert rows.in_use == 2
    assert [rows.take(), rows.take()] == [1, 3]


def test_a_lent_model_stays_as_it_is_until_nobody_reads_it_or_a_part_of_it(rows: ModelRows) -> None:
    row = rows.store(np.arange(1000, dtype=np.float32))
    lent = rows.lend(row)
    part = lent[500:502]
    rows.release(row)
    del lent
    other = rows.take()
    rows.write(other, np.zeros(1000, dtype=np.float32))
    assert (row, other, part.tolist()) == (0, 1, [500.0, 501.0])
    del part
    assert rows.take() == row


def test_a_model_is_lent_to_many_and_not_to_be_changed_by_them(rows: ModelRows) -> None:
    row = rows.store(np.ones(1000, dtype=np.float32))
    first, second = rows.lend(row), rows.lend(row)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 2.0
    rows.release(row)
    del first
    assert rows.take() == 1
    del second
    assert rows.take() == row


def test_where_many_models_are_lent_one_more_is_copied(rows: ModelRows) -> None:
    first, second = (rows.store(np.full(1000, value, dtype=np.float32)) for value in (1.0, 2.0))
    readers = [rows.lend(first), rows.lend(second)]  # a fifth of six rows is one
    rows.release(second)
    assert rows.take() == second
    rows.write(second, np.zeros(1000, dtype=np.float32))
    assert [float(reader[999]) for reader in readers] == [1.0, 2.0]


def test_what_is_written_through_the_file_is_seen_in_the_row(rows: ModelRows) -> None:
    rows.write(rows.take(), np.zeros(1000, dtype=np.float32))
    view = rows.row(0)
    rows.write(0, np.arange(1000))
    assert view.tolist() == list(range(1000))
    with pytest.raises(ValueError):
        rows.write(0, np.zeros(999, dtype=np.float32))


def test_more_models_than_were_foreseen_are_an_error_that_says_how_many(rows: ModelRows) -> None:
    for _ in range(6):
        rows.take()
    with pytest.raises(RunError, match="all 6 models are in use"):
        rows.take()


def test_rows_nobody_wrote_take_no_disk(tmp_path: Path) -> None:
    rows = ModelRows(tmp_path / "many.bin", 650_000, 30_000, create=True)
    rows.row(rows.take())[:] = 1.0
    status = rows.path.stat()
    assert status.st_size == 4 * 650_000 * 30_000  # 78 GB to look at
    assert status.st_blocks * 512 < 4_000_000


def test_a_process_that_goes_through_many_models_keeps_few_of_them_in_memory(tmp_path: Path) -> None:
    size, models = 650_000, 30  # 2.6 MB each, 78 MB together
    rows = ModelRows(tmp_path / "models.bin", size, models, create=True, resident_bytes=20_000_000)
    before = rows.row(0)
    most = 0
    for index in range(models):
        rows.row(rows.take())[:] = index + 1
        most = max(most, resident_bytes_of(rows.path))
    assert most < 25_000_000
    assert before[0] == 1.0
    assert [float(rows.row(index)[size - 1]) for index in range(models)] == list(range(1, models + 1))
    assert resident_bytes_of(rows.path) < 25_000_000
    assert rows.path.stat().st_blocks * 512 >= 4 * size * models


def resident_bytes_of(path: Path) -> int:
    """How much of a mapped file this process has in memory, by the kernel's account."""
    found = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found and line.startswith("Rss:"):
            return 1024 * int(line.split()[1])
        found = found or line.endswith(f" {path}")
    raise AssertionError(f"{path} is not mapped")


def test_a_disk_too_small_for_the_peak_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "models.bin"
    with pytest.raises(RunError) as caught:
        ModelRows(path, 650_000, 10, create=True, peak=10**9)
    assert f"{tmp_path}: 1,000,000,000 models of 2,600,000 bytes need 2,600,000,000,000,000" in str(
        caught.value
    )
    assert "are free" in str(caught.value)
    assert not path.exists()
    ModelRows(path, 650_000, 10, create=True, peak=10)


def test_a_trained_model_is_the_devices_own_until_a_synchronisation(rows: ModelRows) -> None:
    held = HeldModels(rows)
    trained = rows.take()
    held.trained(3, "run/1", trained)
    assert held.of(3).start_row == trained
    held.release(3, "run/1", as_own=True)
    assert (held.of(3).start_row, held.of(3).trained_order_id) == (trained, "")
    published = rows.take()
    held.share(published)
    held.synchronise(3, published)
    assert (held.of(3).start_row, held.of(3).global_row) == (published, published)
    assert rows.in_use == 1


def test_releasing_another_order_leaves_the_model(rows: ModelRows) -> None:
    held = HeldModels(rows)
    held.trained(0, "run/1", rows.take())
    held.release(0, "run/0", as_own=False)
    assert held.of(0).trained_order_id == "run/1"
    held.release(0, "run/1", as_own=False)
    assert (held.of(0).start_row, rows.in_use) == (-1, 0)


def test_a_published_version_lives_as_long_as_anybody_uses_it(rows: ModelRows) -> None:
    held = HeldModels(rows)
    first, second = rows.take(), rows.take()
    for row in (first, second):
        held.share(row)  # the fleet publishes it
    held.synchronise(0, first)
    held.synchronise(1, first)
    held.unshare(first)  # the fleet forgets it; the devices still have it
    assert rows.in_use == 2
    held.synchronise(0, second)
    assert rows.in_use == 2
    held.synchronise(1, second)
    assert rows.in_use == 1


def test_rows_that_a_checkpoint_names_stay_until_the_next_one(rows: ModelRows) -> None:
    kept = rows.store(np.full(1000, 1.0, np.float32))
    other = rows.store(np.full(1000, 2.0, np.float32))
    rows.keep([kept])
    rows.release(kept)
    rows.release(other)
    assert [rows.take(), rows.take()] == [other, 2]  # not `kept`
    assert rows.row(kept)[0] == 1.0
    lent = rows.lend(kept)
    rows.keep([])
    assert rows.take() == 3  # not while it is lent, either
    del lent
    assert rows.take() == kept


def test_a_file_that_is_opened_again_goes_on_with_the_rows_of_the_checkpoint(rows: ModelRows) -> None:
    numbers = [rows.store(np.full(1000, float(number), np.float32)) for number in range(4)]
    rows.release(numbers[1])
    rows.sync()
    again = ModelRows(rows.path, 1000, 6)
    again.adopt({0, 3})
    again.release(3)
    assert [again.row(row)[0] for row in (0, 3)] == [0.0, 3.0]
    assert [again.take() for _ in range(4)] == [1, 2, 4, 5]  # 3 is kept


#: Has a file of models open, says so, computes for so long, and waits for the end of its input.
HOLDS = """
import sys, time
from pathlib import Path
from roambench.fleet.simulated.model_rows import ModelRows
rows = ModelRows(Path(sys.argv[1]), 1000, 6)
print('open', flush=True)
end_s = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end_s:
    pass
sys.stdin.read()
"""


@contextmanager
def worker_of_a_dead_controller(path: Path, computes_s: float) -> Iterator[subprocess.Popen[bytes]]:
    ModelRows(path, 1000, 6, create=True)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path), str(computes_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        yield worker


@pytest.mark.asyncio
async def test_a_file_is_free_when_the_last_process_that_has_it_open_is_gone(tmp_path: Path) -> None:
    """A worker of a controller that was killed may still write."""
    path = tmp_path / "models.bin"
    with worker_of_a_dead_controller(path, 0.0) as worker:
        with pytest.raises(RunError, match="is still there and has not computed for 2 s"):
            await free_of_others(path, 2.0)
        assert worker.stdin is not None
        worker.stdin.close()
        await free_of_others(path, 60.0)


@pytest.mark.asyncio
async def test_a_worker_that_still_computes_is_waited_for_however_long_it_takes(tmp_path: Path) -> None:
    path = tmp_path / "models.bin"
    with worker_of_a_dead_controller(path, 7.0) as worker:
        assert worker.stdin is not None
        worker.stdin.close()
        await free_of_others(path, 3.0)
