"""The protocol of every power meter: a stream of readings and of events about the meter itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Final, Protocol

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading

MeterItem = Reading | AgentEvent


class MeterState(StrEnum):
    """State of a meter as known now. Silence is never zero watts (rule R6)."""

    CLOSED = "closed"
    OK = "ok"
    STALE = "stale"  # the port is open, nothing came for 3 s: its output is off, or it hangs
    OFF = "off"  # the meter says that its output is off
    LOST = "lost"  # the port is gone


#: The event by which a meter tells that it is in that state; CLOSED has none.
STATE_EVENTS: Final = {
    MeterState.OK: EventKind.METER_OK,
    MeterState.STALE: EventKind.METER_STALE,
    MeterState.OFF: EventKind.METER_OFF,
    MeterState.LOST: EventKind.METER_LOST,
}


class Meter(Protocol):
    """Iterate over it: readings and events (METER_DESCRIBED, its states, METER_RESTARTED), stamped in device
    time. It ends with `aclose`, not with the meter's silence.
    """

    @property
    def state(self) -> MeterState:
        """Return how the meter is now."""
        ...

    async def open(self) -> None:
        """Open the port (done by the first iteration otherwise); MeterError names the port and the cause."""
        ...

    def __aiter__(self) -> AsyncIterator[MeterItem]: ...

    async def __anext__(self) -> MeterItem: ...

    async def aclose(self) -> None:
        """Close the port and end the iteration."""
        ...
