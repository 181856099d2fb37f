"""Turns of hosts that are sent something: few at a time, those first that are soon done."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

#: Hosts at a time: enough to fill a network where each takes its time to write, and the others wait.
_AT_ONCE: Final = 4
_TURN_S: Final = 15.0


@dataclass(slots=True, eq=False)
class Turn:
    """One host's, as it waits and as it sends. `bytes_per_s` of its turns so far, 0.0 before the first."""

    left_bytes: int
    bytes_per_s: float = 0.0
    until_s: float = 0.0

    @property
    def over(self) -> bool:
        """True if another should have it."""
        return time.monotonic() >= self.until_s


class Turns:
    """The turns of all hosts of one command, `at_once` at a time, `turn_s` long; for several threads.

    Who needs the least time for what is left comes first. So hosts are done one after the other, and begin to
    install what they got while the next are sent theirs; a slow one, as soon as it is known to be slow, waits
    until the others are done. A host that was not sent anything yet is taken to be as fast as the fastest.
    """

    def __init__(self, at_once: int = _AT_ONCE, turn_s: float = _TURN_S) -> None:
        self._free = at_once
        self._turn_s = turn_s
        self._waiting: list[Turn] = []
        self._fastest = 1.0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, turn: Turn) -> Iterator[None]:
        """Wait for it, and send until it is over; note at its end what is left and how fast it was."""
        with self._changed:
            self._waiting.append(turn)
            self._changed.wait_for(lambda: self._free > 0 and self._next() is turn)
            self._waiting.remove(turn)
            self._free -= 1
            self._changed.notify_all()
        turn.until_s = time.monotonic() + self._turn_s
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._fastest = max(self._fastest, turn.bytes_per_s)
                self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """Hosts that wait now."""
        with self._changed:
            return len(self._waiting)

    def _next(self) -> Turn:
        return min(self._waiting, key=lambda turn: turn.left_bytes / (turn.bytes_per_s or self._fastest))
