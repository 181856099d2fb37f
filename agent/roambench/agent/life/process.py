"""The living agent: one event loop that reads the meter, spools, drains, and carries out orders.

It is the same on a board, where systemd keeps it alive through many runs, and on a laptop, where it is
started for one: that one ends when it has left its run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from roambench.agent.background import lasting, why
from roambench.agent.life.burning import Burner
from roambench.agent.life.ctl_handler import CtlHandler
from roambench.agent.life.ctl_server import serve_ctl
from roambench.agent.life.notify import keep_watchdog, notify, watchdog_period_s
from roambench.agent.life.parts import AgentParts
from roambench.agent.life.runs import Runs
from roambench.agent.orders.worker import rss_bytes
from roambench.agent.readings.host_metrics import HostMetrics
from roambench.agent.readings.meter_reader import read_meter
from roambench.contract.errors import ConfigError, MeterError, RoambenchError, SpoolError
from roambench.contract.events import EventKind
from roambench.contract.orders import GivenOrder
from roambench.contract.records import AgentEvent
from roambench.contract.session import (
    ClockEcho,
    ClockProbe,
    ControllerWord,
    DutySchedule,
    Hello,
    Silence,
    Stop,
    Welcome,
)
from roambench.wire.frames import controller_word, hello_message
from roambench.wire.v1.methods import PROTOCOL_VERSION

#: Records of no run that are kept for whoever asks: an hour of readings.
KEPT_BETWEEN_RUNS: Final = 3600
_CAPABILITIES: Final = ("train", "upload", "meter")
_TIDY_PERIOD_S: Final = 60.0
_METER_RETRY_S: Final = 10.0
#: Host seconds for the last word over an open session, which says what is left in the spool.
_GOODBYE_S: Final = 10.0
_IDENTITY_PERIOD_S: Final = 10.0  # host seconds between looks (three stats) at the certificate's files


class Agent:
    """Lives: one task per part, orders as they come, an orderly end."""

    def __init__(self, parts: AgentParts) -> None:
        self.parts = parts
        self.runs = Runs(parts)
        self._started_ns = time.monotonic_ns()
        self._machine_id = parts.settings.machine_id or Path("/etc/machine-id").read_text().strip()

    async def run(self) -> int:
        """Live until told to end; returns the exit status."""
        parts = self.parts
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end)
        self.runs.begin_life()
        await parts.worker.open()
        tasks = [
            asyncio.create_task(lasting(name, work, parts.lacks), name=name)
            for name, work in {**self._works(), **parts.stores.works()}.items()
        ]
        session = asyncio.create_task(lasting("session", self._hold_sessions, parts.lacks), name="session")
        ending = asyncio.create_task(parts.ending.begun.wait(), name="end")
        notify("READY=1")
        done, _ = await asyncio.wait({*tasks, session, ending}, return_when=asyncio.FIRST_COMPLETED)
        failed = [error for task in done if (error := task.exception()) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await parts.duty.end()
        end = parts.ending
        self.runs.sign_off(end.reason)
        if parts.settings.run:  # else a restarted agent, or a board that boots, goes on with its run
            parts.context.end_run()
        await parts.stores.flush(end.drain_s, None if end.is_asked else lambda: parts.link.is_open)
        parts.link.hang_up(end.reason, parts.stores.left)
        if parts.link.is_open:
            await asyncio.wait({session}, timeout=_GOODBYE_S)
        session.cancel()
        await asyncio.gather(session, return_exceptions=True)
        await parts.close()
        if failed:
            raise failed[0]
        return 0

    async def _hold_sessions(self) -> None:
        await self.parts.link.run(
            lambda: hello_message(self.hello()), lambda frame: self.take(controller_word(frame))
        )

    def take(self, word: ControllerWord | None) -> None:
        """What the controller says, None where it was of an unknown kind."""
        parts = self.parts
        if self.runs.is_leaving:
            return
        match word:
            case Welcome():
                self.runs.welcome(word)
            case GivenOrder():
                parts.order_queue.submit(word)
            case ClockProbe():
                if not parts.quiet.gate.is_open:
                    return  # an echo now would be traffic, and one later would tell nothing
                received_ns = parts.clock.now_ns()
                parts.send(ClockEcho(word.probe, received_ns, parts.clock.now_ns()))
            case DutySchedule():
                try:
                    parts.duty.take(word)
                except ValueError as error:
                    parts.reporter.report(EventKind.DUTY_REFUSED, str(error))
            case Silence():
                parts.chores.begin(parts.quiet.set_quiet(word.on))
            case Stop():
                parts.chores.begin(self.runs.leave(word.reason, word.drain_s, word.resumes_at))
            case None:
                parts.log("frame of unknown kind ignored")

    def hello(self) -> Hello:
        """What a session begins with."""
        parts = self.parts
        trained, held = parts.model_cache.trained(), parts.held.last()
        return Hello(
            protocol_version=PROTOCOL_VERSION,
            device=parts.settings.device,
            machine_id=self._machine_id,
            boot_id=parts.context.boot_id,
            agent_version=version("roambench"),
            capabilities=_CAPABILITIES,
            spool_uuid=parts.spool.uuid,
            trained_order_ids=tuple(model.order_id for model in (trained, held) if model is not None),
            rss_bytes=rss_bytes(),
            trainer_rss_bytes=parts.worker.rss_bytes,
            started_ns=self._started_ns,
            peer_address=parts.peers.address,
            build=build_hash(),
        )

    def about(self) -> dict[str, Any]:
        """The agent's identity, versions and state, JSON-ready."""
        parts, phase = self.parts, self.parts.timeline.phase
        session = "open" if parts.link.is_open else "dialling"
        return {
            "device": parts.settings.device,
            "version": version("roambench"),
            "build": build_hash(),
            "pid": os.getpid(),
            "boot_id": parts.context.boot_id,
            "uptime_s": round((parts.clock.now_ns() - parts.clock.from_host_ns(self._started_ns)) * 1e-9, 1),
            "controller": parts.settings.controller,
            "run": self.runs.run_id,
            "session": "leaving" if self.runs.is_leaving else session,
            "phase": phase.value if phase is not None else "",
            "trainer_rss_bytes": parts.worker.rss_bytes,
        }

    def _works(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """By name, what goes on for as long as the agent lives."""
        parts, settings = self.parts, self.parts.settings
        works: dict[str, Callable[[], Awaitable[None]]] = {}
        if settings.meter.port:  # first: dialling takes its time, and what is not read is lost
            works["meter"] = self._read_meter
        works["orders"] = self.runs.carry_out_orders
        works["spool sync"] = parts.spool.keep_synced
        works["identity"] = self._watch_identity
        works["host metrics"] = parts.host.run
        works |= parts.load.works()
        if not settings.run:
            works["tidy"] = self._tidy
        if settings.ctl_socket:
            handler = CtlHandler(
                device=settings.device,
                clock=parts.clock,
                spool=parts.spool,
                unsent=parts.unsent,
                meter=parts.meter,
                worker=parts.worker,
                host=HostMetrics(settings.host, emulated=False),
                state_dir=Path(settings.state_dir),
                about=self.about,
                end_run=self.runs.leave,
                burner=Burner(parts.clock, parts.load.burn),
            )
            works["ctl"] = partial(serve_ctl, Path(settings.ctl_socket), handler.answer)
        if period_s := watchdog_period_s():
            works["watchdog"] = partial(keep_watchdog, period_s)
        return works

    def _end(self) -> None:
        notify("STOPPING=1")
        self.parts.ending.begin("SIGTERM")

    async def _read_meter(self) -> None:
        """A meter that is away is looked for again; what is wrong with it is told once."""
        parts, told = self.parts, ""
        settings, folder = parts.settings.meter, Path(parts.settings.state_dir)
        while True:
            try:
                await read_meter(
                    settings, parts.clock, parts.spool, folder, parts.timeline.alive, parts.meter.take
                )
            except SpoolError:
                raise
            except (ConfigError, MeterError, OSError) as error:
                reason = str(error) if isinstance(error, RoambenchError) else why(error)
                if reason != told:
                    told = reason
                    parts.reporter.report_and_log(EventKind.METER_UNAVAILABLE, told)
                    parts.meter.take(AgentEvent(EventKind.METER_UNAVAILABLE, parts.clock.now_ns(), told))
            await asyncio.sleep(_METER_RETRY_S)

    async def _watch_identity(self) -> None:
        """Use a new certificate as soon as it is there; the session goes on with the one it began with."""
        parts = self.parts
        while True:
            await asyncio.sleep(_IDENTITY_PERIOD_S)
            before = parts.identity.current
            parts.identity.refresh()
            if parts.identity.current is not before:
                parts.reporter.report_and_log(EventKind.CERTIFICATE_RENEWED, parts.settings.identity_dir)
                parts.data.renew(keepalive=not parts.quiet.on)

    async def _tidy(self) -> None:
        while True:
            if not self.runs.run_id:
                self.parts.unsent.set_aside(KEPT_BETWEEN_RUNS)
            await asyncio.sleep(_TIDY_PERIOD_S)


def build_hash() -> str:
    """The build that this process runs, from where its environment lies; empty: none that was provisioned."""
    prefix = Path(sys.prefix).resolve()
    return prefix.parent.name if prefix.name == "venv" and prefix.parent.parent.name == "builds" else ""
