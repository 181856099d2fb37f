"""Flat models in one sparse file that all processes map: 10,000 devices' models need disk, not memory."""

from __future__ import annotations

import asyncio
import fcntl
import heapq
import mmap
import os
import shutil
import threading
import weakref
from collections.abc import Collection
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.errors import RunError
from roambench.contract.orders import Vector
from roambench.fleet.left_processes import LeftProcesses

#: How much of the file a process keeps mapped before it lets go of all of it; the kernel keeps what it has
#: memory for, and to map a model again costs 0.1 ms.
RESIDENT_BYTES: Final = 48 * 1024 * 1024

#: Of rows that only a checkpoint keeps; with more of them another one is due.
MOST_KEPT_BYTES: Final = 256 * 1024 * 1024

#: At most a fifth of the rows is lent at a time; what is wanted beyond is copied.
_LENT_SHARE: Final = 5


class ModelRows:
    """Rows of `size` numbers each; `take`, `release` and `lend` are for the one owner, `row` and `write` for
    any process.

    A checkpoint names rows: what is in them then stays until the next one (`keep`), so that a run can go on
    from there however much was written since.

    The file is as long as all rows would be and holds only those that were written; a released row is
    taken again first, so that its pages stay few. A row belongs to one writer at a time. However many rows
    a process goes through, about `resident_bytes` of the file are in its memory.

    `peak`: how many rows may be in use at once. Where the disk has no room for as many, `create` raises
    RunError: a mapped file that runs into a full disk would kill the process in the middle of the run.
    """

    def __init__(
        self,
        path: Path,
        size: int,
        capacity: int,
        *,
        create: bool = False,
        precision: str = "float32",
        peak: int = 0,
        resident_bytes: int = RESIDENT_BYTES,
    ) -> None:
        self.path, self.size, self.capacity = path, size, capacity
        dtype = np.dtype(precision)
        self._row_bytes = dtype.itemsize * size
        self._resident_bytes = resident_bytes
        self._mapped_bytes = 0
        if create:
            _require_disk(path.parent, peak, self._row_bytes)
        try:
            if create:
                with path.open("xb") as file:
                    file.truncate(dtype.itemsize * size * capacity)
            self._rows = np.memmap(path, dtype=dtype, mode="r+", shape=(capacity, size))
            self._file = os.open(path, os.O_RDWR)
        except OSError as error:
            raise RunError(f"{path}: {capacity} models of {size} parameters: {error.strerror}") from None
        weakref.finalize(self, os.close, self._file)
        fcntl.flock(self._file, fcntl.LOCK_SH)  # `free_of_others` sees writers by it
        self._released: list[int] = []
        self._next = 0
        self._readers: dict[int, int] = {}  # of lent rows
        self._kept: frozenset[int] = frozenset()
        self._released_but_needed: set[int] = set()  # lent or kept
        self._returning = threading.RLock()  # a reader may be collected in any thread, within `release` too

    def take(self) -> int:
        """Return a free row, its content undefined; RunError when there is none left."""
        if self._released:
            return heapq.heappop(self._released)
        if self._next == self.capacity:
            raise RunError(f"{self.path}: all {self.capacity} models are in use")
        self._next += 1
        return self._next - 1

    def release(self, row: int) -> None:
        """Free a row, but for those to whom it was lent and the checkpoint."""
        with self._returning:
            self._released_but_needed.add(row)
            self._reuse(row)

    def leave(self) -> None:
        """This process writes no more: others may (`free_of_others`)."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def keep(self, rows: Collection[int]) -> None:
        """Until the next `keep`, these rows stay as they are, though they may be released meanwhile."""
        with self._returning:
            before, self._kept = self._kept, frozenset(rows)
            for row in before & self._released_but_needed:
                self._reuse(row)

    @property
    def keeps_much(self) -> bool:
        """True where much in the file is wanted by the checkpoint alone."""
        return len(self._kept & self._released_but_needed) * self._row_bytes > MOST_KEPT_BYTES

    def adopt(self, rows: Collection[int]) -> None:
        """Take over a file that was opened again: these rows are in use, and kept, and all others are not."""
        self._next = max(rows, default=-1) + 1
        self._released = sorted(set(range(self._next)) - set(rows))
        self.keep(rows)

    def sync(self) -> None:
        """Sync the file: what any process has written survives a power cut when this returns;
        OSError."""
        os.fdatasync(self._file)

    def _reuse(self, row: int) -> None:
        if row in self._released_but_needed and row not in self._readers and row not in self._kept:
            self._released_but_needed.remove(row)
            heapq.heappush(self._released, row)

    def lend(self, row: int) -> Vector:
        """A model to read, shape (size,), that stays as it is however long it is kept.

        Its row is taken again only when it is released and this array and all views of it are gone. To copy
        100 models of 2.6 MB takes 0.1 s, and their memory.
        """
        with self._returning:
            if row not in self._readers and len(self._readers) >= self.capacity // _LENT_SHARE:
                return self.row(row).copy()
            self._readers[row] = self._readers.get(row, 0) + 1
        # Made of a buffer, not of an array: views of it then refer to it and not to what lies beneath.
        model: Vector = np.frombuffer(self.row(row).data, dtype=self._rows.dtype)
        model.flags.writeable = False
        weakref.finalize(model, self._returned, row).atexit = False
        return model

    def _returned(self, row: int) -> None:
        with self._returning:
            self._readers[row] -= 1
            if self._readers[row]:
                return
            del self._readers[row]
            self._reuse(row)

    @property
    def in_use(self) -> int:
        """Rows that hold a model now."""
        return self._next - len(self._released)

    def row(self, index: int) -> Vector:
        """A view of one model, shape (size,): what is written to it every process sees."""
        view: Vector = self._rows[index]
        self._mapped_bytes += self._row_bytes
        if self._mapped_bytes > self._resident_bytes:
            self._let_go()
        return view

    def store(self, model: Vector) -> int:
        """Copy a model into a free row; return the row."""
        index = self.take()
        self.write(index, model)
        return index

    def write(self, index: int, model: Vector) -> None:
        """Copy a model into a row, through the file: `row` sees it there. To write to mapped pages would add
        them to the process's memory, and kill it when the disk is full. OSError then."""
        source = np.require(model, self._rows.dtype, ("C",)).reshape(self.size).data.cast("B")
        start = index * self._row_bytes
        while source:
            written = os.pwrite(self._file, source, start)
            source, start = source[written:], start + written

    def accept(self, index: int, model: Vector) -> str:
        """`write` a trained model; why it could not be kept, or nothing."""
        try:
            self.write(index, model)
        except OSError as error:
            return f"{self.path}: {error.strerror}"
        return ""

    def _let_go(self) -> None:
        """Unmap all pages. Nothing is lost: they are the file's, and views find them there again."""
        mapped = self._rows._mmap  # type: ignore[attr-defined]
        mapped.madvise(mmap.MADV_DONTNEED)
        self._mapped_bytes = self._row_bytes


async def free_of_others(path: Path, patience_s: float) -> None:
    """Wait until no process has the file open as ModelRows any more: workers of a controller that was killed
    end by themselves, after the training in hand. RunError where they have not computed for `patience_s`, or
    there is no file."""
    others = LeftProcesses(path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from None
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if others.hang(patience_s):
                    raise RunError(
                        f"{path}: a training worker of the run that was killed is still there and has not "
                        f"computed for {patience_s:.0f} s; expected it to end by itself: find it with "
                        f"`fuser {path}`"
                    ) from None
                await asyncio.sleep(0.1)
            else:
                return


def _require_disk(folder: Path, models: int, model_bytes: int) -> None:
    needed, free = models * model_bytes, shutil.disk_usage(folder).free
    if free < needed:
        raise RunError(
            f"{folder}: {models:,} models of {model_bytes:,} bytes need {needed:,} bytes of disk, {free:,} "
            "are free; expected room for all that virtual devices may hold at once: use another --runs-dir, "
            "fewer devices or a smaller model"
        )
