"""The lock of a run's one writer, and those who only ask whether it is held."""

from __future__ import annotations

import fcntl
import threading
import time
from pathlib import Path

import pytest

from roambench.contract.errors import RunError
from roambench.runs.lock import WriterLock, is_held


def test_who_only_asks_on_a_busy_machine_is_no_writer(tmp_path: Path) -> None:
    """It was interrupted between taking its share of the lock and giving it back."""
    path = tmp_path / "lock"
    path.write_text("4194305\n")

    def ask(asking: threading.Event) -> None:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            asking.set()
            time.sleep(1.0)

    asking = threading.Event()
    asker = threading.Thread(target=ask, args=(asking,))
    asker.start()
    asking.wait()
    lock = WriterLock(path)
    assert is_held(path)
    asker.join()
    with pytest.raises(RunError, match=r"process \d+ is writing this run"):
        WriterLock(path)
    lock.release()
    assert not is_held(path)


def test_of_many_who_want_to_write_one_does(tmp_path: Path) -> None:
    path, locks, refused = tmp_path / "lock", list[WriterLock](), list[RunError]()

    def take() -> None:
        try:
            locks.append(WriterLock(path))
        except RunError as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(locks), len(refused)) == (1, 19)
    locks[0].release()
