"""A port of the controller: mutual TLS whose certificates may change while it is open."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

from roambench.contract.errors import FleetError, IdentityError
from roambench.fleet.guard import FleetIdentity
from roambench.fleet.limits import AgentLimits
from roambench.fleet.traced_grpc import grpc
from roambench.identity.authority import Credential
from roambench.wire.v1.methods import channel_options

_LOOK_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0  # before the next server, where somebody breaks one after the other
_FORGOTTEN_S: Final = 600.0
_RETIRE_S: Final = 7 * 86400.0  # a session may go on at a broken server for as long as the run lasts


class SecurePort:
    """A mutual-TLS server of `handlers`, bound to `address`; `port` is its number.

    The identity is asked at every handshake, in a thread of gRPC's, and `handshake` is called there: a new
    certificate or authority holds from the next connection on, those that are open stay. An identity that
    cannot be read then changes nothing. `devices` is how many agents may call at once. `told` hears when
    the server had to be replaced.

    Raises FleetError when the address cannot be bound, IdentityError when there is no identity to begin with.
    """

    def __init__(
        self,
        identity: FleetIdentity | Credential,
        address: str,
        max_message_bytes: int,
        handlers: grpc.GenericRpcHandler,
        *,
        keepalive: bool = True,
        devices: int = 0,
        limits: AgentLimits | None = None,
        handshake: Callable[[], None] = lambda: None,
        told: Callable[[str], None] = lambda reason: None,
    ) -> None:
        limits = limits or AgentLimits()
        if isinstance(identity, Credential):
            identity = FleetIdentity.fixed(identity)
        self._certificates = _Certificates(identity, handshake)
        self._handlers = handlers
        self._options = [
            *channel_options(max_message_bytes, keepalive=keepalive),
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", int(limits.handshake_s * 1000)),
            ("grpc.max_concurrent_streams", 16),  # of one connection; an agent needs three
            ("grpc.max_allowed_incoming_connections", limits.port_connections + 2 * devices),
            ("grpc.max_metadata_size", 8 * 1024),
            ("grpc.absolute_max_metadata_size", 16 * 1024),
        ]
        self._calls = limits.port_calls + 2 * limits.calls_at_once * max(devices, 1)
        self._told = told
        self._host = address.rpartition(":")[0]
        self._retiring: dict[grpc.aio.Server, asyncio.Task[None]] = {}
        try:
            self._server, self.port = self._bound(address)
        except RuntimeError:
            raise FleetError(
                f"cannot listen on {address}: the port is taken or the address is not this machine's; "
                "stop the other program or choose another port"
            ) from None

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace_s: float | None) -> None:
        await self._server.stop(grace_s)
        for server, stopping in self._retiring.items():
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            await server.stop(None)

    async def watch(self) -> None:
        """Put another server in the place of one that has broken; cancel to stop.

        One call whose path is no UTF-8 ends the loop in which grpc.aio 1.85 takes calls, and only a caller
        with a good certificate can make it. Calls in progress go on at the old server; new ones are taken
        again within two seconds, later if it happens often.
        """
        breaks, last_s = 0, 0.0
        while True:
            try:
                if not await self._server.wait_for_termination(_LOOK_S):
                    return
            except Exception as error:  # whatever its loop died of
                now_s = time.monotonic()
                breaks, last_s = 1 if now_s - last_s > _FORGOTTEN_S else breaks + 1, now_s
                await asyncio.sleep(min(_LONGEST_PAUSE_S, 0.1 * 2.0 ** min(breaks, 16)))
                await self._replace()
                self._told(f"replaced the port's server after a malformed call ({type(error).__name__})")

    async def _replace(self) -> None:
        broken = self._server
        self._retiring = {server: task for server, task in self._retiring.items() if not task.done()}
        self._retiring[broken] = asyncio.create_task(broken.stop(_RETIRE_S))
        while True:
            try:
                self._server, _ = self._bound(f"{self._host}:{self.port}")
                break
            except RuntimeError:  # the old one still holds the address
                await asyncio.sleep(0.1)
        await self._server.start()

    def _bound(self, address: str) -> tuple[grpc.aio.Server, int]:
        server = grpc.aio.server(options=self._options, maximum_concurrent_rpcs=self._calls)
        server.add_generic_rpc_handlers((self._handlers,))
        port = server.add_secure_port(
            address,
            grpc.dynamic_ssl_server_credentials(
                self._certificates.now(),
                self._certificates.fetch,  # type: ignore[arg-type]  # the stubs do not know None: no change
                require_client_authentication=True,
            ),
        )
        return server, port


class _Certificates:
    """What gRPC asks for at every handshake: a new configuration, or None for the one it has."""

    def __init__(self, identity: FleetIdentity, handshake: Callable[[], None]) -> None:
        self._identity = identity
        self._handshake = handshake
        self._lock = threading.Lock()
        self._current = identity.credential()

    def now(self) -> grpc.ServerCertificateConfiguration:
        return _configuration(self._current)

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        with self._lock:
            self._handshake()
            try:
                credential = self._identity.credential()
            except IdentityError:
                return None  # whoever calls is checked against the same identity again, and refused there
            if credential == self._current:
                return None
            self._current = credential
            return _configuration(credential)


def _configuration(credential: Credential) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(credential.key_pem, credential.certificate_pem)], root_certificates=credential.authority_pem
    )
