"""Models that came from neighbours and wait to be mixed: a few in memory, the others on disk.

Mixed is x_i ← Σ_j W_ij x_j, in every order of arrival, and where some did not come at all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from roambench.contract.errors import ModelError
from roambench.contract.model_blob import MAX_BLOB_BYTES, decode
from roambench.contract.model_digest import names
from roambench.contract.orders import Vector
from roambench.vectors import RunningSum

#: 24 models of MOHAWK's CNN; a Pi 3 has 1 GiB for everything.
MEMORY_BYTES: Final = 64 * 1024 * 1024


class Inbox:
    """Parcels of at most `memory_bytes` together stay in memory; what comes besides goes to `folder`.

    Its files have no name, so that a killed agent leaves none behind.
    """

    def __init__(self, folder: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self._folder = folder
        self._free_bytes = memory_bytes
        self.spilled = 0  # parcels that went to disk

    def parcel(self, total_bytes: int) -> Parcel:
        """Room for a model; ModelError if it is larger than any may be."""
        if total_bytes > MAX_BLOB_BYTES:
            raise ModelError(f"a model of {total_bytes} bytes is announced, the limit is {MAX_BLOB_BYTES}")
        if total_bytes <= self._free_bytes:
            self._free_bytes -= total_bytes
            return Parcel(self, total_bytes, None)
        self.spilled += 1
        return Parcel(self, total_bytes, tempfile.TemporaryFile(dir=self._folder))

    def give_back(self, total_bytes: int) -> None:
        """Return memory that a model of this size had taken."""
        self._free_bytes += total_bytes


class Parcel:
    """One model on its way in."""

    def __init__(self, inbox: Inbox, total_bytes: int, file: IO[bytes] | None) -> None:
        self.total_bytes = total_bytes
        self.received_bytes = 0
        self._inbox = inbox
        self._file = file
        self._pieces: list[bytes] = []
        self._closed = False

    @property
    def whole(self) -> bool:
        """Return whether as many bytes came as were announced."""
        return self.received_bytes == self.total_bytes

    def add(self, piece: bytes) -> None:
        """Raises ModelError for more bytes than were announced; they are not kept."""
        self.received_bytes += len(piece)
        if self.received_bytes > self.total_bytes:
            raise ModelError(f"more bytes than the {self.total_bytes} announced")
        if self._file is None:
            self._pieces.append(piece)
        else:
            self._file.write(piece)

    def check(self, digest: str, layout: str) -> None:
        """Raises ModelError unless this is the whole model that its digest names, of this layout."""
        if not self.whole:
            raise ModelError(f"{self.received_bytes} of {self.total_bytes} bytes came")
        blob = self._blob()
        if not names(digest, blob):
            raise ModelError("the digest does not match")
        decode(blob, layout=layout)

    def model(self, layout: str) -> Vector:
        """The model of a parcel that was checked, shape (parameters,)."""
        return decode(self._blob(), layout=layout)

    def close(self) -> None:
        """Forget it; its room is free again."""
        if self._closed:
            return
        self._closed = True
        self._pieces.clear()
        if self._file is None:
            self._inbox.give_back(self.total_bytes)
        else:
            self._file.close()

    def _blob(self) -> bytes:
        if self._file is not None:
            self._file.seek(0)
            return self._file.read()
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0] if self._pieces else b""


@dataclass(slots=True)
class Receipt:
    """The end of one neighbour's model: the whole, checked `parcel`, or the `reason` why it is left out.

    `weight` is W_ij; the reason begins with late, lost, refused or garbage.
    """

    device: int
    weight: float
    parcel: Parcel | None = None
    received_bytes: int = 0
    reason: str = ""


def mixed(device: int, own: Vector, own_weight: float, receipts: Sequence[Receipt], layout: str) -> Vector:
    """The mixed model of `device`, shape (parameters,): `vectors.weighted_mean` in ascending order of device,
    bit for bit. `receipts` ascend, too; each parcel is closed when it has been added.

    A model of weight 0 is not added. The weights of those left out are added to one's own, one by one.
    """
    for receipt in receipts:
        if receipt.reason:
            own_weight += receipt.weight
    total = RunningSum()
    count = 0
    for model, weight in _in_order(device, own, own_weight, receipts, layout):
        total.add(model, weight)
        count += 1
    if not count:
        total.add(own, own_weight)
    return total.total()


def _in_order(
    device: int, own: Vector, own_weight: float, receipts: Sequence[Receipt], layout: str
) -> Iterator[tuple[Vector, float]]:
    below = [receipt for receipt in receipts if receipt.device < device]
    above = [receipt for receipt in receipts if receipt.device > device]
    yield from _theirs(below, layout)
    if own_weight != 0.0:
        yield own, own_weight
    yield from _theirs(above, layout)


def _theirs(receipts: Sequence[Receipt], layout: str) -> Iterator[tuple[Vector, float]]:
    for receipt in receipts:
        if receipt.parcel is not None and not receipt.reason:
            if receipt.weight != 0.0:
                yield receipt.parcel.model(layout), receipt.weight
            receipt.parcel.close()
