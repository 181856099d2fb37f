"""A port of the controller: mutual TLS whose certificates may change while it is open."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psutil

from roambench.contract.addresses import host_port
from roambench.contract.errors import FleetError, IdentityError
from roambench.fleet.guard import FleetIdentity
from roambench.fleet.limits import AgentLimits
from roambench.fleet.traced_grpc import grpc
from roambench.identity.authority import Credential
from roambench.wire.server import LastingServer
from roambench.wire.v1.methods import channel_options


class SecurePort(LastingServer):
    """A mutual-TLS server of `handlers`, bound to `address`; `port` is its number.

    The identity is asked at every handshake, in a thread of gRPC's, and `handshake` is called there: a new
    certificate or authority holds from the next connection on, those that are open stay. An identity that
    cannot be read then changes nothing. `devices` is how many agents may call at once. `on_replaced` is
    called when the server had to be replaced.

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
        handshake: Callable[[], None],
        on_replaced: Callable[[str], None],
    ) -> None:
        limits = limits or AgentLimits()
        if isinstance(identity, Credential):
            identity = FleetIdentity.fixed(identity)
        self._certificates = _Certificates(identity, handshake)
        self._handlers = handlers
        self._options = [
            *channel_options(max_message_bytes, keepalive=keepalive, server=True),
            ("grpc.so_reuseport", 0),
            ("grpc.server_handshake_timeout_ms", int(limits.handshake_s * 1000)),
            ("grpc.max_concurrent_streams", 16),  # of one connection; an agent needs three
            ("grpc.max_allowed_incoming_connections", limits.connections(devices)),
            # Beyond 1,000 calls at one moment gRPC would drop some, whosever they are.
            ("grpc.server.max_pending_requests", 1000 + 16 * devices),
            ("grpc.server.max_pending_requests_hard_limit", 3000 + 48 * devices),
            ("grpc.max_connection_idle_ms", int(limits.idle_s * 1000)),
            ("grpc.max_metadata_size", 8 * 1024),
            ("grpc.absolute_max_metadata_size", 16 * 1024),
        ]
        try:
            super().__init__(self._serving, address, on_replaced)
        except RuntimeError:
            raise FleetError(f"cannot listen on {address}: {_why_not(address)}") from None

    def _serving(self, address: str) -> tuple[grpc.aio.Server, int]:
        # No limit of all calls together: gRPC would apply it before a caller is identified.
        server = grpc.aio.server(options=self._options)
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


def _why_not(address: str) -> str:
    """Return which program has the port of the address, and what to do."""
    port = int(address.rpartition(":")[2])
    for line in psutil.net_connections("tcp"):
        if line.laddr and line.laddr.port == port and line.status != psutil.CONN_TIME_WAIT:
            doing = f"a connection to {host_port(*line.raddr[:2])}" if line.raddr else "listening"
            return f"{_program(line.pid)} has the port ({doing}); end that program or choose another port"
    return (
        "the port is taken or the address is not this machine's; end the other program or choose another port"
    )


def _program(pid: int | None) -> str:
    try:
        return f"{psutil.Process(pid).name()} (pid {pid})" if pid else "another user's program"
    except psutil.NoSuchProcess:
        return "a program that has just ended"


class _Certificates:
    """Certificate source that gRPC asks at every handshake: a new configuration, or None for the one it
    has."""

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
                return None  # a caller is checked against the same identity again, and refused there
            if credential == self._current:
                return None
            self._current = credential
            return _configuration(credential)


def _configuration(credential: Credential) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(credential.key_pem, credential.certificate_pem)], root_certificates=credential.authority_pem
    )
