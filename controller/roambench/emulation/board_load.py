"""Load of an emulated board: it follows its agent's phases, its radio, perhaps the agent's own work."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from roambench.agent.board_load import BoardLoad
from roambench.agent.settings import AgentSettings, EmulationSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.phases import COMPUTING_PHASES, Phase
from roambench.emulation.electric.power import CORES, IDLE, PORT_MBIT_S, Activity
from roambench.emulation.feed import WorkFeed

#: Device seconds between two looks at the agent's own CPU time.
OWN_COST_PERIOD_S: Final = 2.0


def load_of(settings: AgentSettings) -> BoardLoad:
    """The load of the board under the agent: an emulated one's where its settings say so."""
    return BoardLoad() if settings.emulation is None else EmulatedLoad(settings, settings.emulation)


class EmulatedLoad(BoardLoad):
    """Sends work records to the meter emulator; everything in device time."""

    is_emulated = True

    def __init__(self, settings: AgentSettings, emulation: EmulationSettings) -> None:
        self._slowdown = emulation.cpu_slowdown or 1.0
        self._counts_agent = emulation.agent_cost
        self._clock = DeviceClock(settings.epoch_ns, settings.time_scale, settings.ahead_ns)
        self._feed = WorkFeed(Path(emulation.work_feed), settings.device)
        self._activity = self._moving = IDLE
        self._phase = Phase.IDLE
        self._own_cores = 0.0  # what the board draws for the agent itself

    def follow(self, phase: Phase, ns: int, mbit_s: float) -> None:
        """From `ns` on the board is in `phase`, its link at `mbit_s` (0: as fast as its port)."""
        self._phase = phase
        self._moving = Activity(
            busy_cores=1.0 if phase in COMPUTING_PHASES else 0.0,
            tx_mbit_s=(mbit_s or PORT_MBIT_S) if phase is Phase.UPLOAD else 0.0,
            rx_mbit_s=(mbit_s or PORT_MBIT_S) if phase is Phase.DOWNLOAD else 0.0,
            waiting=phase is Phase.WAIT,
        )
        # Until the first byte the radio is on and waits for the other side.
        self._activity = self._moving if phase in COMPUTING_PHASES else self._moving.radio_resting()
        self._draw(ns)

    def radio_moves(self, first_byte_ns: int, total_bytes: int, mbit_s: float) -> None:
        """From `first_byte_ns` on the phase moves so much: the radio has done so when its rate says, and then
        waits for all that the phase still waits for. Else a busy machine's lateness would be drawn as
        traffic."""
        until_ns = first_byte_ns + round(total_bytes * 8e3 / (mbit_s or PORT_MBIT_S))
        self._activity = replace(self._moving, moves_until_ns=until_ns)
        self._draw(first_byte_ns)

    def exchange(self, sending_mbit_s: float, coming_mbit_s: float) -> None:
        """While models are exchanged: what is sent and what comes from now on (infinite: a port's speed)."""
        if self._phase is Phase.EXCHANGE:  # the last transfer's end may be reported after the phase's
            self._activity = Activity(
                tx_mbit_s=min(sending_mbit_s, PORT_MBIT_S), rx_mbit_s=min(coming_mbit_s, PORT_MBIT_S)
            )
            self._draw(self._clock.now_ns())

    def works(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what the agent itself computes is drawn, too, where the settings ask for it."""
        return {"own cost": self._draw_for_the_agent} if self._counts_agent else {}

    async def _draw_for_the_agent(self) -> None:
        """For ever: let the board draw what this process computed in the period before."""
        used_s, then_ns = time.process_time(), self._clock.now_ns()
        while True:
            await self._clock.sleep(OWN_COST_PERIOD_S)
            now_s, now_ns = time.process_time(), self._clock.now_ns()
            cores = (now_s - used_s) * self._slowdown / ((now_ns - then_ns) * 1e-9)
            self._own_cores = min(float(CORES), cores)
            used_s, then_ns = now_s, now_ns
            self._draw(now_ns)

    def burn(self, cores: float) -> None:
        """Load this many cores of the board from now on (between runs); 0: it rests."""
        self._activity = Activity(busy_cores=cores)
        self._draw(self._clock.now_ns())

    def close(self) -> None:
        """Close the feed to the emulated board."""
        self._feed.close()

    def _draw(self, ns: int) -> None:
        activity = self._activity
        if self._own_cores:
            activity = replace(activity, busy_cores=activity.busy_cores + self._own_cores)
        self._feed.send(activity, ns)
