"""The settings of a program that answers messages on a device, in a process beside its trainer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """A program, by its name in `roambench.agent.orders.programs`, and its limits.

    `settings` is text that only the program reads. `python` is the interpreter that it runs in; "": the
    agent's own. A message, and an answer, is at most `message_bytes` long; nothing is kept of a longer one.
    """

    name: str
    settings: str
    python: str = ""
    memory_bytes: int = 2**30  # of private memory, of each of its processes
    message_bytes: int = 2**26
