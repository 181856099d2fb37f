"""Models in a shared sparse file, and which of them a virtual device holds."""

from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import RunError
from roambench.fleet.simulated.held_models import HeldModels
from roambench.fleet.simulated.model_rows import ModelRows


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
