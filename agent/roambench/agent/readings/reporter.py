"""An agent's own events: into the spool, to the controller, into its own log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, RecordKind
from roambench.contract.session import SessionEvent


@dataclass(frozen=True, slots=True)
class Reporter:
    """Reports an agent's events: `record` keeps them, `emit` passes them on."""

    device: str
    clock: DeviceClock
    record: Callable[[RecordKind, bytes], object]
    emit: Callable[[SessionEvent], None]

    def note(self, kind: EventKind, detail: str) -> None:
        """Keep an event in the records."""
        self.record(RecordKind.EVENT, AgentEvent(kind, self.clock.now_ns(), detail).to_bytes())

    def report(self, kind: EventKind, detail: str) -> None:
        """Keep the event, and send it to the controller at once."""
        self.note(kind, detail)
        self.pass_on(kind, detail)

    def pass_on(self, kind: EventKind, detail: str) -> None:
        """Send an event to the controller alone."""
        self.emit(SessionEvent(kind, self.clock.now_ns(), detail=detail))

    def report_and_log(self, kind: EventKind, detail: str) -> None:
        """Spool the event, and print it."""
        log(self.device, f"{kind}: {detail}")
        self.report(kind, detail)


def log(device: str, text: str) -> None:
    """Print a line with date, time and device to stderr; else drop it."""
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%F %T')} {device}: {text}", file=sys.stderr, flush=True)
