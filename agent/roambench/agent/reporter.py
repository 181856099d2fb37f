"""An agent's own events: into the spool, to the controller, into its own log."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import Protocol

from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, RecordKind
from roambench.contract.session import AgentWord, SessionEvent


class RecordPort(Protocol):
    """Port to the spool."""

    def append(self, kind: RecordKind, payload: bytes) -> object:
        """Keep a record."""
        ...


class Voice(Protocol):
    """Port to the controller."""

    def emit(self, word: AgentWord) -> None:
        """Send `word` now, or as soon as the agent may send."""
        ...


@dataclass(frozen=True, slots=True)
class Notebook:
    """Keeps an agent's events, and prints its log; sends nothing."""

    device: str
    clock: DeviceClock
    records: RecordPort

    def note(self, kind: EventKind, detail: str) -> None:
        """Keep an event in the records."""
        self.records.append(RecordKind.EVENT, AgentEvent(kind, self.clock.now_ns(), detail).to_bytes())

    def log(self, text: str) -> None:
        """Print a line with date, time and device to stderr; else drop it."""
        with contextlib.suppress(OSError):
            print(f"{time.strftime('%F %T')} {self.device}: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Reporter(Notebook):
    """Sends an agent's events as well."""

    voice: Voice

    def report(self, kind: EventKind, detail: str) -> None:
        """Keep the event, and send it to the controller at once."""
        self.note(kind, detail)
        self.pass_on(kind, detail)

    def pass_on(self, kind: EventKind, detail: str) -> None:
        """Send an event to the controller alone."""
        self.voice.emit(SessionEvent(kind, self.clock.now_ns(), detail=detail))

    def report_and_log(self, kind: EventKind, detail: str) -> None:
        """Keep and send the event, and print it."""
        self.log(f"{kind}: {detail}")
        self.report(kind, detail)

    def lacks(self, detail: str) -> None:
        """Report what the agent cannot do now and should, and print it."""
        self.report_and_log(EventKind.AGENT_LACKS, detail)
