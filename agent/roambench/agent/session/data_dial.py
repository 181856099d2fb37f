"""The ways of models: small ones in the session, others over a channel to the controller's data port."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
import grpc.aio

from roambench.agent.background import Chores
from roambench.agent.session.control_link import secure_channel
from roambench.agent.session.data_link import DataLink
from roambench.agent.session.identity_files import IdentityFiles
from roambench.agent.session.session_models import SessionModels
from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.device_time import DeviceClock
from roambench.wire.v1.methods import HOLD, MAX_DATA_MESSAGE_BYTES

_TRANSFER_GRACE_S = 600.0  # host seconds that a transfer over a channel we left may go on
_AGAIN_S = 1.0  # between a connection that broke and the next


class DataDial:
    """The channel is opened by who first asks for `link`, and opened again for another address or another
    certificate. Old channels are closed as `chores`. `session` moves what needs no channel."""

    def __init__(
        self,
        identity: IdentityFiles,
        device: str,
        clock: DeviceClock,
        chores: Chores,
        session: SessionModels,
    ) -> None:
        self.session = session
        self._identity = identity
        self._device = device
        self._clock = clock
        self._link: DataLink | None = None
        self._chores = chores
        self._channel: grpc.aio.Channel | None = None
        self._holding: asyncio.Task[None] | None = None
        self._address = ""
        self._keepalive = True
        self._credential = identity.current

    def dial(self, address: str, *, keepalive: bool) -> None:
        """Note where the data port is. An open channel is replaced if the address or our certificate has
        changed; transfers that are under way may finish on the old one."""
        if address == self._address and self._credential is self._identity.current:
            return
        self._address, self._credential, self._keepalive = address, self._identity.current, keepalive
        if self._channel is not None:
            self._let_go()
            self._chores.begin(self._channel.close(_TRANSFER_GRACE_S))
            self._open()

    @property
    def link(self) -> DataLink | None:
        """Models over the channel, which this opens; None until the controller has said where to dial."""
        if self._link is None and self._address:
            self._open()
        return self._link

    async def connected(self, limit_s: float) -> None:
        """Wait for a connection, for `limit_s` host seconds at most: in the phase of a transfer its
        handshakes of TCP and TLS would be measured as well."""
        if self.link is not None and self._channel is not None:
            with suppress(TimeoutError, grpc.aio.UsageError):  # it is late, or was closed meanwhile
                async with AwakeTimeout(limit_s):
                    await self._channel.channel_ready()

    def _open(self) -> None:
        self._channel = secure_channel(
            self._address, self._credential, MAX_DATA_MESSAGE_BYTES, keepalive=self._keepalive
        )
        self._holding = asyncio.create_task(_hold(self._channel, again=self._keepalive))
        self._link = DataLink(self._channel, self._device, self._clock)

    def redial(self) -> None:
        """Another connection to where we dialled last: this one may be dead without knowing it."""
        if self._channel is not None:
            address, self._address = self._address, ""
            self.dial(address, keepalive=self._keepalive)

    def renew(self, *, keepalive: bool) -> None:
        """Use our new certificate from now on."""
        if self._address:
            self.dial(self._address, keepalive=keepalive)

    async def close(self) -> None:
        """Close the channel, if there is one."""
        channel, self._channel, self._link, self._address = self._channel, None, None, ""
        if channel is not None:
            self._let_go()
            await channel.close()

    def _let_go(self) -> None:
        if self._holding is not None:
            self._holding.cancel()


async def _hold(channel: grpc.aio.Channel, *, again: bool) -> None:
    """Keep a call open until cancelled: the controller ends connections without a call.

    `again`: also when the connection broke; in quiet runs that waits for the next transfer.
    """
    hold: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HOLD)
    while True:
        try:
            await hold(b"", wait_for_ready=True)
            return
        except grpc.aio.AioRpcError as error:
            if not again or error.code() is not grpc.StatusCode.UNAVAILABLE:
                return
        await asyncio.sleep(_AGAIN_S)
