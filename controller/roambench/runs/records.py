"""Queries of an analysis to a run's records, wherever they are kept: in the folder or in a database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy.typing as npt

from roambench.contract.phases import PhaseSpan
from roambench.contract.records import AgentEvent, RecordKind
from roambench.runs.folder import RunFolder
from roambench.runs.record_store import ReadingColumns


class Records(Protocol):
    """`RecordStore` reads the run folder, `InfluxRecords` a database; both give equal answers."""

    def devices(self) -> list[str]:
        """Names of the devices with at least one record, sorted."""
        ...

    def counts(self, device: str) -> dict[RecordKind, int]:
        """Return how many records of each kind there are; a kind without any is left out."""
        ...

    def readings(self, device: str) -> ReadingColumns:
        """All readings of `device` over all its spools, ascending by time (ties in order of arrival)."""
        ...

    def spans(self, device: str) -> list[PhaseSpan]:
        """The finished phases of `device`, ascending by (start, end)."""
        ...

    def events(self, device: str) -> list[AgentEvent]:
        """Events that the agent of `device` noted, other than phases, ascending by time."""
        ...

    def host_table(self, device: str) -> npt.NDArray[Any]:
        """A table of `record_store.HOST_DTYPE`: how the board of `device` was, ascending by time."""
        ...


#: Opens the records of a run that are kept elsewhere than in its folder, for as long as they are read.
OpenRecords = Callable[[RunFolder], AbstractContextManager[Records]]
