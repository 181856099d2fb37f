"""The meter's last description and state: for questions, and for runs that begin long after it was
opened."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from roambench.contract.events import AnyEventKind, EventKind
from roambench.contract.records import AgentEvent, Reading
from roambench.meters.protocol import MeterState

#: Readings kept for questions: half an hour of a meter that speaks once a second, and of one that speaks
#: more often a reading every KEPT_EVERY_NS, twelve minutes in all.
NEWEST: Final = 1800
KEPT_EVERY_NS: Final = 400_000_000
#: The events that tell a meter's state, and the word for it.
STATES: Final[Mapping[AnyEventKind, str]] = {
    EventKind.METER_OK: MeterState.OK.value,
    EventKind.METER_STALE: MeterState.STALE.value,
    EventKind.METER_OFF: MeterState.OFF.value,
    EventKind.METER_LOST: MeterState.LOST.value,
    EventKind.METER_UNAVAILABLE: "unavailable",
}


@dataclass(slots=True)
class MeterWatch:
    """Takes every item of the meter. `settled`: its state is known, by a first line or by the want of one."""

    reading: Reading | None = None
    readings: int = 0
    state: AgentEvent | None = None
    description: AgentEvent | None = None
    newest: deque[Reading] = field(default_factory=lambda: deque(maxlen=NEWEST))
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, item: Reading | AgentEvent) -> None:
        """Note a reading or an event of the meter."""
        if isinstance(item, Reading):
            self.reading = item
            self.readings += 1
            self.settled.set()  # a meter of another package need not tell states
            if not self.newest or item.monotonic_ns - self.newest[-1].monotonic_ns >= KEPT_EVERY_NS:
                self.newest.append(item)
        elif item.kind == EventKind.METER_DESCRIBED:
            self.description = item
        elif item.kind in STATES:
            self.state = item
            self.settled.set()

    def repeated(self, ns: int) -> list[AgentEvent]:
        """The events that a run which begins at `ns` has to know."""
        return [replace(event, monotonic_ns=ns) for event in (self.description, self.state) if event]

    def status(self, now_ns: int) -> dict[str, Any]:
        """All of it, JSON-ready: what is unknown is null."""
        state, about, last = self.state, self.description, self.reading
        return {
            "state": STATES[state.kind] if state is not None else "unknown",
            "detail": state.detail if state is not None else "",
            "readings": self.readings,
            "description": json.loads(about.detail) if about is not None else None,
            "last": None
            if last is None
            else {
                **{name: _known(getattr(last, name)) for name in ("volts", "amps", "watts")},
                "age_s": round((now_ns - last.monotonic_ns) * 1e-9, 3),
                "monotonic_ns": last.monotonic_ns,
                "flags": int(last.flags),
            },
        }

    def since(self, ns: int) -> dict[str, Any]:
        """The newest readings after `ns`, JSON-ready; inconsistent ones and those of a meter that is off are
        among them, with their flags. At most NEWEST are kept."""
        chosen = [reading for reading in self.newest.copy() if reading.monotonic_ns >= ns]
        return {
            "ns": [reading.monotonic_ns for reading in chosen],
            "volts": [_known(reading.volts) for reading in chosen],
            "amps": [_known(reading.amps) for reading in chosen],
            "watts": [_known(reading.watts) for reading in chosen],
            "flags": [int(reading.flags) for reading in chosen],
        }


def _known(value: float) -> float | None:
    """NaN: the meter does not say."""
    return None if math.isnan(value) else value
