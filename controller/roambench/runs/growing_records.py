"""The records of a run that goes on: each look reads what was drained since the last one."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from roambench.contract.records import RecordKind
from roambench.runs.record_store import HOST_DTYPE, READING_DTYPE, ReadingColumns, RecordStore, columns_of

_NEW = "SELECT seq, kind, payload FROM record WHERE device = ? AND spool_uuid = ? AND seq > ? ORDER BY seq"


@dataclass(slots=True)
class _Spool:
    """Records read of one spool, which is drained in its order."""

    through: int = -1
    readings: bytearray = field(default_factory=bytearray)
    seqs: array[int] = field(default_factory=lambda: array("q"))  # of the readings
    others: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)  # by kind


#: Spools by device and name.
Known = dict[tuple[str, str], _Spool]


class GrowingRecords(RecordStore):
    """`RecordStore` of one look. `known` is what the looks before it read; this one adds what is new."""

    def __init__(self, path: Path, known: Known) -> None:
        super().__init__(path, read_only=True)
        self._known = known
        for device, uuid in self.spools():
            spool = known.setdefault((device, uuid), _Spool())
            for seq, kind, payload in self._rows(_NEW, (device, uuid, spool.through)):
                spool.through = seq
                if kind == RecordKind.READING:
                    spool.readings += payload
                    spool.seqs.append(seq)
                else:
                    spool.others.setdefault(kind, []).append((seq, payload))

    def spooled(
        self, device: str, kind: RecordKind = RecordKind.READING
    ) -> list[tuple[str, npt.NDArray[Any]]]:
        """The readings, or host samples, of each spool of `device`, in the order they were spooled."""
        if kind == RecordKind.HOST:
            others = [(uuid, spool.others.get(int(kind), ())) for uuid, spool in self._spools(device)]
            return [
                (uuid, np.frombuffer(b"".join(body for _, body in rows), HOST_DTYPE)) for uuid, rows in others
            ]
        return [
            (uuid, np.frombuffer(bytes(spool.readings), READING_DTYPE))
            for uuid, spool in self._spools(device)
        ]

    def count_before(self, device: str, spool_uuid: str, seq: int, kind: RecordKind) -> int:
        """Return how many records of a kind a spool has before the one of number `seq`."""
        spool = self._known[device, spool_uuid]
        if kind == RecordKind.READING:
            return bisect_left(spool.seqs, seq)
        return bisect_left(spool.others.get(int(kind), []), seq, key=itemgetter(0))

    def placed_readings(self, device: str) -> tuple[ReadingColumns, list[tuple[str, int]]]:
        """The readings in the order they were spooled, and (spool uuid, seq) of each."""
        places = [(uuid, seq) for uuid, spool in self._spools(device) for seq in spool.seqs]
        data = b"".join(spool.readings for _, spool in self._spools(device))
        return columns_of(np.frombuffer(data, READING_DTYPE)), places

    def placed(self, device: str, kind: RecordKind) -> list[tuple[str, int, bytes]]:
        """(spool uuid, seq, payload) of all records of a kind other than readings, by spool, ascending."""
        return [
            (uuid, seq, payload)
            for uuid, spool in self._spools(device)
            for seq, payload in spool.others.get(int(kind), ())
        ]

    def _spools(self, device: str) -> list[tuple[str, _Spool]]:
        return [(uuid, spool) for (name, uuid), spool in sorted(self._known.items()) if name == device]
