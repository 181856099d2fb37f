"""The protocol of a writer: a trace as the text of one or more files, and what that text leaves out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from roambench.contract.errors import TraceError
from roambench.mobility.presence import with_presence
from roambench.mobility.trace import Trace

Absent = Literal["stand", "omit"]


@dataclass(frozen=True, slots=True)
class Written:
    """Lines by the file's suffix, the asked-for file under "", and what they leave unsaid, as sentences."""

    lines: dict[str, Iterable[str]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Writer:
    """One output format. `omits` says whether it can leave out those that are absent."""

    name: str
    summary: str
    write: Callable[[Trace, Absent], Written]
    omits: bool


def standing(trace: Trace) -> tuple[Trace, tuple[str, ...]]:
    """The trace with everybody always there: absent devices stand where they last were (or will first be).

    With a sentence on how many absences that hides. Raises TraceError where nobody ever comes.
    """
    if not len(trace.step):
        raise TraceError("nobody is ever present in this trace: there is no position to write")
    whole = with_presence(trace, "always")
    hidden = len(whole.step) - len(trace.step)
    if not hidden:
        return whole, ()
    return whole, (
        f"the format knows no absence: at {hidden} of {len(whole.step)} (device, step) pairs the device is "
        "away, there it stands where it last was",
    )


def decimal(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value))
