"""The living agent: one event loop that reads the meter, spools, drains, and carries out orders.

It is the same on a board, where systemd keeps it alive through many runs, and on a laptop, where it is
started for one: that one ends when it has left its run.
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Final

from roambench.agent.background import Work, lasting
from roambench.agent.life.burning import Burner
from roambench.agent.life.ctl_handler import CtlHandler
from roambench.agent.life.ctl_server import serve_ctl
from roambench.agent.life.notify import keep_watchdog, notify, watchdog_period_s
from roambench.agent.life.session import AgentSession
from roambench.agent.readings.host_metrics import HostMetrics
from roambench.agent.session.control_link import InFrames

#: Host seconds for the last word over an open session, which says what is left in the spool.
_GOODBYE_S: Final = 10.0


class Agent:
    """Lives: one task for each work, orders as they come, an orderly end."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    async def run(self) -> int:
        """Live until something ends it; returns the exit status."""
        one = self._session
        meter, link, trainer = one.meter, one.link, one.trainer
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end)
        one.begin_life()
        await trainer.worker.open()
        tasks = [
            asyncio.create_task(lasting(name, work, link.reporter), name=name)
            for name, work in self._works().items()
        ]
        talk = asyncio.create_task(lasting("session", self._hold_sessions, link.reporter), name="session")
        ending = asyncio.create_task(one.ending.begun.wait(), name="end")
        notify("READY=1")
        done, _ = await asyncio.wait({*tasks, talk, ending}, return_when=asyncio.FIRST_COMPLETED)
        failed = [error for task in done if (error := task.exception()) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await one.duty.end()
        end = one.ending
        meter.sign_off(end.reason)
        if one.settings.run:  # else a restarted agent, or a board that boots, goes on with its run
            meter.end_run()
        await meter.flush(end.drain_s, waits_for_controller=end.is_asked)
        link.control.hang_up(end.reason, meter.left)
        if link.control.is_open:
            await asyncio.wait({talk}, timeout=_GOODBYE_S)
        talk.cancel()
        await asyncio.gather(talk, return_exceptions=True)
        await one.close()
        if failed:
            raise failed[0]
        return 0

    async def _hold_sessions(self) -> None:
        await self._session.link.control.run(InFrames(self._session))

    def _works(self) -> dict[str, Work]:
        """By name, what goes on for as long as the agent lives; first the meter: what is not read is lost."""
        one, settings = self._session, self._session.settings
        works = {
            **one.meter.works(),
            "orders": one.trainer.carry_out_orders,
            "identity": one.link.watch_identity,
            **one.load.works(),
        }
        if settings.ctl_socket:
            burner = Burner(one.clock, one.load)
            handler = CtlHandler(one, HostMetrics(settings.host, emulated=False), burner)
            works["ctl"] = partial(serve_ctl, Path(settings.ctl_socket), handler)
        if period_s := watchdog_period_s():
            works["watchdog"] = partial(keep_watchdog, period_s)
        return works

    def _end(self) -> None:
        notify("STOPPING=1")
        self._session.ending.begin("SIGTERM")
