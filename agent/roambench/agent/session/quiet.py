"""Sends nothing while energy is measured, if the experiment wants it so.

Quiet phases are download, train, evaluate, upload, exchange, the rests around them, and what the controller
calls quiet (the idle baselines). In them no record is drained, no event sent and no clock probe echoed; what
is to be said waits for the end of the phase. What still flows is the measured transfer itself, the order that
begins a phase, the answer that follows its end, and TCP's own acknowledgements of them. gRPC's keepalive is
off for such a run: that an agent is gone is noticed by its order's deadline.
"""

from __future__ import annotations

from typing import Final, Protocol

from roambench.agent.reporter import Notebook
from roambench.contract.events import EventKind
from roambench.contract.phases import MEASURED_PHASES, Phase
from roambench.contract.session import AgentWord
from roambench.spool.gate import Gate

#: Host seconds that a batch on its way may hold up the phase that wants silence.
PATIENCE_S: Final = 5.0


class WordPort(Protocol):
    """Port to the session with the controller (`control_link`)."""

    def say(self, word: AgentWord) -> None:
        """Send `word`; without a session it is dropped."""
        ...


class Quiet:
    """With `on` False it lets everything pass at once. `notebook` keeps what spoils a measurement: sending it
    would disturb more."""

    def __init__(self, on: bool, line: WordPort, notebook: Notebook) -> None:
        self.on = on
        self.gate = Gate()
        self._line = line
        self._notebook = notebook
        self._held: list[AgentWord] = []
        self._in_phase = False
        self._asked = False
        self._resting = False

    async def before_phase(self) -> bool:
        """Call before a measured phase: returns when nothing of ours is on its way any more, and whether
        something might have been until now."""
        was_loud = self.on and self.gate.is_open
        if self.on:
            self._in_phase = True
            await self._fall_silent("the phase that begins")
        return was_loud

    def follow(self, phase: Phase, ns: int = 0, mbit_s: float = 0.0) -> None:
        """Call when a phase has begun."""
        self._in_phase = self.on and phase in MEASURED_PHASES
        self._settle()

    async def set_quiet(self, quiet: bool) -> None:
        """The controller wants silence, or does not any more."""
        self._asked = self.on and quiet
        if self._asked:
            await self._fall_silent("the idle baseline")
        self._settle()

    async def rest(self, resting: bool) -> None:
        """Send nothing until this ends, in loud experiments too (`agent.life.duty`)."""
        self._resting = resting
        if resting:
            await self._fall_silent("the level of duty")
        self._settle()

    def emit(self, word: AgentWord) -> None:
        """Send `word` now, or when the quiet is over."""
        if self.gate.is_open:
            self._line.say(word)
        else:
            self._held.append(word)

    async def _fall_silent(self, what: str) -> None:
        if not await self.gate.shut(PATIENCE_S):  # a slow link, or a controller that is slow to answer
            detail = f"records were still on their way after {PATIENCE_S:g} s: {what} carries them"
            self._notebook.note(EventKind.NOT_QUIET, detail)

    def _settle(self) -> None:
        if self._in_phase or self._asked or self._resting:
            return
        self.gate.open()
        held, self._held = self._held, []
        for word in held:
            self._line.say(word)
