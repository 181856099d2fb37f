"""Flat models in one sparse file that all processes map: 10,000 devices' models need disk, not memory."""

from __future__ import annotations

import heapq
import mmap
import os
import shutil
import threading
import weakref
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.errors import RunError
from roambench.contract.orders import Vector

#: How much of the file a process keeps mapped before it lets go of all of it; the kernel keeps what it has
#: memory for, and to map a model again costs 0.1 ms.
RESIDENT_BYTES: Final = 96 * 1024 * 1024

#: At most a fifth of the rows is lent at a time; what is wanted beyond is copied.
_LENT_SHARE: Final = 5


class ModelRows:
    """Rows of `size` numbers each; `take`, `release` and `lend` are for the one owner, `row` and `write` for
    any process.

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
        self._released: list[int] = []
        self._next = 0
        self._readers: dict[int, int] = {}  # of lent rows
        self._released_but_lent: set[int] = set()
        self._returning = threading.RLock()  # a reader may be collected in any thread, within `release` too

    def take(self) -> int:
        """A row nobody uses, its content undefined; RunError when there is none left."""
        if self._released:
            return heapq.heappop(self._released)
        if self._next == self.capacity:
            raise RunError(f"{self.path}: all {self.capacity} models are in use")
        self._next += 1
        return self._next - 1

    def release(self, row: int) -> None:
        """Nobody uses it any more, but perhaps those to whom it was lent."""
        with self._returning:
            if row in self._readers:
                self._released_but_lent.add(row)
            else:
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
            if row in self._released_but_lent:
                self._released_but_lent.remove(row)
                heapq.heappush(self._released, row)

    @property
    def in_use(self) -> int:
        return self._next - len(self._released)

    def row(self, index: int) -> Vector:
        """A view of one model, shape (size,): what is written to it every process sees."""
        view: Vector = self._rows[index]
        self._mapped_bytes += self._row_bytes
        if self._mapped_bytes > self._resident_bytes:
            self._let_go()
        return view

    def store(self, model: Vector) -> int:
        """Copy a model into a row of its own; returns the row."""
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


def _require_disk(folder: Path, models: int, model_bytes: int) -> None:
    needed, free = models * model_bytes, shutil.disk_usage(folder).free
    if free < needed:
        raise RunError(
            f"{folder}: {models:,} models of {model_bytes:,} bytes need {needed:,} bytes of disk, {free:,} "
            "are free; expected room for all that virtual devices may hold at once: use another --runs-dir, "
            "fewer devices or a smaller model"
        )
