"""An agent's link: its certificate, the session with the controller, the models on their way, other devices,
and when it is silent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from roambench.agent.background import Chores
from roambench.agent.peers.exchange import Peers
from roambench.agent.peers.server import Refusals
from roambench.agent.reporter import Notebook, Reporter
from roambench.agent.session.control_link import ControlLink, RunDrain
from roambench.agent.session.data_dial import DataDial
from roambench.agent.session.identity_files import IdentityFiles
from roambench.agent.session.quiet import Quiet
from roambench.agent.session.session_models import SessionModels
from roambench.agent.settings import AgentSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.session import Welcome
from roambench.spool.spool import Spool

_IDENTITY_PERIOD_S: Final = 10.0  # host seconds between looks (three stats) at the certificate's files


class Link:
    """Connects one agent; what it sends and reports goes through here."""

    def __init__(self, settings: AgentSettings, clock: DeviceClock, spool: Spool) -> None:
        device, folder = settings.device, Path(settings.state_dir)
        notebook = Notebook(device, clock, spool)
        self._identity_dir = settings.identity_dir
        self.identity = IdentityFiles(Path(settings.identity_dir), device, notebook)
        self.control = ControlLink(
            settings.controller,
            self.identity,
            device,
            notebook,
            keepalive=not settings.quiet,
            patient=not settings.run,
        )
        self.quiet = Quiet(settings.quiet, self.control, notebook)
        self.reporter = Reporter(device, clock, spool, self.quiet)
        self.chores = Chores(self.reporter)
        self.data = DataDial(self.identity, device, clock, self.chores, SessionModels(self.control, clock))
        self.peers = Peers(self.identity.current, clock, folder, Refusals(self.reporter))

    def drain_of(self, device: str, spool: Spool) -> RunDrain:
        """Drain of `spool`, whose records are `device`'s."""
        return RunDrain(self.control, device, spool)

    def is_as(self, welcome: Welcome) -> bool:
        """Return whether the session is as the run wants it; if not, it is dialled again."""
        self.control.serves_run = False
        if self.control.keepalive == welcome.quiet:
            self.control.keepalive = not welcome.quiet
            self.control.redial("dialling as this run wants it")
            return False
        return True

    def work_for(self, welcome: Welcome) -> None:
        """Take orders and models from this controller, and send it records."""
        keepalive = not welcome.quiet
        self.control.serves_run = True
        self.chores.begin(self.quiet.set_quiet(False))  # the session before may have wanted silence
        self.data.dial(welcome.data_address, keepalive=keepalive)  # or a restarted controller's
        self.peers.credential, self.peers.keepalive = self.identity.current, keepalive

    async def watch_identity(self) -> None:
        """Use a new certificate as soon as it is there; the session goes on with the one it began with."""
        while True:
            await asyncio.sleep(_IDENTITY_PERIOD_S)
            before = self.identity.current
            self.identity.refresh()
            if self.identity.current is not before:
                self.reporter.report_and_log(EventKind.CERTIFICATE_RENEWED, self._identity_dir)
                self.data.renew(keepalive=not self.quiet.on)

    async def forget_run(self) -> None:
        """Be as between runs."""
        self.quiet.on, self.control.keepalive = False, True
        await self.peers.close()
        await self.data.close()

    async def close(self) -> None:
        """Close all that is open but the session."""
        await self.chores.close()
        await self.peers.close()
        await self.data.close()
