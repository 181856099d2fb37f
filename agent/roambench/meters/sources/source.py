"""The protocol of a meter's line of any kind."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import Protocol

#: Takes bytes as they arrive (for messages: one whole message).
Take = Callable[[bytes], None]
#: Called once, with the cause, when the line is gone; the source is then closed.
Lost = Callable[[str], None]


class MeterSource(Protocol):
    """A line to one meter. `take` and `lost` are called from the running loop, never after `close`.

    A source may also have an attribute `unit`, as `sources.unit` tells it of the line that is open, and one
    `traits` (`MeterTraits`), where only the open line has them; then `look_cpu_s` and `settings`, too. One
    that reckons with time has an attribute `clock` (`DeviceClock`), which its driver sets.
    """

    async def open(self, take: Take, lost: Lost) -> None:
        """Open the line; OSError or ValueError when it cannot be. A closed source may be opened again."""
        ...

    async def close(self) -> None:
        """Close the line; harmless when it is closed."""
        ...


def cause(error: BaseException) -> str:
    """Return why something failed, for people."""
    if isinstance(error, ssl.SSLError):  # whose numbers are not the system's
        return error.reason or str(error)
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # a name that cannot be resolved has a negative number
    return str(error) or type(error).__name__
