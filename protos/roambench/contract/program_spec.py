"""The settings of a program that answers messages on a device, in a process beside its trainer."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """A program, by its name in `roambench.agent.orders.programs`, and its limits.

    `settings` is a JSON object that only the program reads; `folder`, where its files are on the device, is
    added to it. `python` is the interpreter that it runs in; "": the agent's own. A message, and an answer,
    is at most `message_bytes` long; nothing is kept of a longer one.
    """

    name: str
    settings: str
    folder: str = ""
    python: str = ""
    memory_bytes: int = 2**30  # of private memory, of each of its processes
    message_bytes: int = 2**26

    @property
    def settings_there(self) -> str:
        """The settings as the program gets them."""
        return json.dumps({**json.loads(self.settings), "folder": self.folder})
