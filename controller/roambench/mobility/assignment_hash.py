"""One hash of who was served by which access point at every step: with it, runs saw the same world. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from roambench.mobility.association import Association

Indices = Sequence[int] | npt.NDArray[np.signedinteger[Any]]


def hash_of_steps(steps: Iterable[tuple[Indices, Indices]]) -> str:
    """BLAKE2b-256, as 64 hex digits, of every step's (devices, their APs), devices ascending, in order."""
    digest = hashlib.blake2b(digest_size=32)
    for devices, aps in steps:
        digest.update(len(devices).to_bytes(8, "little"))
        for column in (devices, aps):
            digest.update(np.ascontiguousarray(column, "<i4").tobytes())
    return digest.hexdigest()


def assignment_hash(association: Association) -> str:
    """That of all steps of the trace, as its association places the devices."""
    trace = association.trace
    aps = association.aps
    slices = (trace.rows(step) for step in range(trace.steps))
    return hash_of_steps((trace.device[rows], aps[rows]) for rows in slices)
