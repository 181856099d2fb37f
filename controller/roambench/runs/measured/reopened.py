"""Meters that may have been exchanged during a run: what was proven of it ends where it
was opened again, unless something tells that it is the same unit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.meters.traits import MeterDescription
from roambench.spool.record_context import RecordContext

_MOST_LETTERS: Final = 100


@dataclass(frozen=True, slots=True)
class Reopened:
    """An opening of a board's meter, at `ns`, after which nothing shows that it is the same one; `why`
    it was opened again, a phrase after the meter's name."""

    ns: int
    why: str

    def sentence(self, device: str, start_ns: int) -> str:
        """Cause, consequence and remedy."""
        return (
            f"{device}: {max(0.0, (self.ns - start_ns) * 1e-9):,.0f} s after the run began its meter was "
            f"opened again, as {self.why}; nothing shows that it is the same meter, so from there on its "
            "joules may be another board's: roambench fleet identify proves it again"
        )


def reopenings(events: Iterable[AgentEvent]) -> list[Reopened]:
    """Return those among a device's events in their order; [] while its meter is known to be the one that it
    began with."""
    found: list[Reopened] = []
    meter: MeterDescription | None = None
    unit, boot, why = "", "", ""
    for event in events:
        match event.kind:
            case EventKind.METER_LOST:
                why = f"its line was lost ({_short(event.detail)})"
            case EventKind.AGENT_STARTED if meter is not None:
                why = why or "its agent was started again"
            case EventKind.RECORD_CONTEXT_BEGINS:
                before, boot = boot, _boot(event) or boot
                if before not in ("", boot):
                    why = "its board was booted"
            case EventKind.METER_DESCRIBED:
                if (now := _description(event)) is None:
                    continue
                if meter is not None and (other := _other(meter, unit, now, why)):
                    found.append(Reopened(event.monotonic_ns, other))
                meter, unit, why = now, now.unit or ("" if why else unit), ""
    return found


def _other(meter: MeterDescription, unit: str, now: MeterDescription, why: str) -> str:
    """Return why what is opened `now` may be another than `meter`, "" where it is the same; `why` it was
    opened."""
    if (now.driver, now.serial) != (meter.driver, meter.serial):
        return why or "it is described as another meter"
    if why and not (unit and now.unit == unit):
        return why
    return "it is another unit" if unit and now.unit and now.unit != unit else ""


def _description(event: AgentEvent) -> MeterDescription | None:
    try:
        return MeterDescription.from_event(event)
    except ConfigError:
        return None


def _boot(event: AgentEvent) -> str:
    try:
        return RecordContext.from_json(event.detail).boot_id
    except ConfigError:
        return ""


def _short(text: str) -> str:
    """A board's own words, for one line."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MOST_LETTERS])
