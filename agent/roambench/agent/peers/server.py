"""A device's peer port: neighbours of the present iteration pull its half-step model from here."""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from roambench.agent.peers.offers import Offers, Withheld
from roambench.agent.reporter import Reporter
from roambench.contract.addresses import host_port
from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.errors import IdentityError, LinkError
from roambench.contract.events import EventKind
from roambench.contract.model_blob import chunks
from roambench.contract.model_digest import to_wire
from roambench.identity.authority import Credential, name_of, serial_of
from roambench.wire.server import LastingServer, first_request
from roambench.wire.v1 import peer_pb2 as wire
from roambench.wire.v1.methods import (
    MAX_DATA_MESSAGE_BYTES,
    MAX_PULL_REQUEST_BYTES,
    PEER_SERVICE,
    channel_options,
)

Context = grpc.aio.ServicerContext[Any, Any]

#: Host seconds for which a request may wait for its iteration, also where its caller names a later deadline.
LONGEST_WAIT_S: Final = 600.0
#: What is more is refused, so that no crowd fills a board's memory.
_MOST_CONNECTIONS: Final = 256
_CALLS_AT_ONCE: Final = 4  # of one neighbour; it needs one or two
_REQUEST_S: Final = 20.0  # from the opening of a call to its request
#: Reports of refused pulls in an agent's life: a stranger may knock for ever.
_MOST_REFUSALS: Final = 100
_IDLE_MS: Final = 30_000  # that a connection may stay without a call
_HANDSHAKE_MS: Final = 10_000  # until a connection must have shown its certificate


class RefusalTaker(Protocol):
    """Port to the reports of refused pulls."""

    def take(self, name: str, reason: str) -> None:
        """Note that `name` (empty: a stranger) got no model, and why."""
        ...


@dataclass(slots=True)
class Refusals:
    """Reports which callers got no model, and why, each once."""

    reporter: Reporter
    _reported: set[tuple[str, str]] = field(default_factory=set)

    def take(self, name: str, reason: str) -> None:
        """Report a refused pull, unless it was reported before."""
        if (name, reason) not in self._reported and len(self._reported) < _MOST_REFUSALS:
            self._reported.add((name, reason))
            self.reporter.report(EventKind.PEER_REFUSED, f"{name}: {reason}")


@dataclass(frozen=True, slots=True)
class PeerService:
    """Answers pulls from `offers`. `refusals` gets those that got nothing."""

    offers: Offers
    refusals: RefusalTaker
    revoked_serials: Collection[int] = ()
    _open: Counter[str] = field(default_factory=Counter)

    def handlers(self) -> grpc.GenericRpcHandler:
        """An identity serialiser: no protobuf copy is made of a model."""
        return grpc.method_handlers_generic_handler(
            PEER_SERVICE,
            {
                "Pull": grpc.stream_stream_rpc_method_handler(self.pull),
                "Ask": grpc.stream_stream_rpc_method_handler(self.ask),
            },
        )

    async def pull(self, messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        """The call by which a neighbour fetches this device's half step."""
        name = await self._admit(context)
        limit_s = min(LONGEST_WAIT_S, context.time_remaining() or LONGEST_WAIT_S)
        try:
            with self._counted(name):
                wanted = wire.PullRequest.FromString(await first_request(messages, _REQUEST_S))
                async with AwakeTimeout(limit_s):
                    offer = await self.offers.wanted(wanted.run_id, wanted.step, name)
                    half_step = await offer.model()
            with self._counted(name):
                async with offer.sending_to(name):
                    blob, pace = half_step.blob, offer.pace
                    header = wire.PullHeader(
                        total_bytes=len(blob),
                        digest=to_wire(half_step.digest),
                        mbit_s=offer.share_mbit_s,
                    )
                    yield header.SerializeToString()
                    for piece in chunks(blob, pace.mbit_s):
                        await pace.send(len(piece))
                        offer.check()
                        offer.sent_bytes[name] += len(piece)
                        yield piece
                    async for _ in messages:
                        offer.served.add(name)
                        break
        except DecodeError:
            await self._refuse(context, name, grpc.StatusCode.INVALID_ARGUMENT, "request is not readable")
        except LinkError as error:
            await self._refuse(context, name, grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
        except TimeoutError:
            await self._refuse(context, name, grpc.StatusCode.DEADLINE_EXCEEDED, "the model is not ready")
        except Withheld as error:
            await self._refuse(context, name, grpc.StatusCode.PERMISSION_DENIED, str(error))

    async def ask(self, messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        """The call by which a neighbour asks how this device stands with its model."""
        name = await self._admit(context)
        try:
            with self._counted(name):
                asked = wire.PullRequest.FromString(await first_request(messages, _REQUEST_S))
            stands = self.offers.standing(asked.run_id, asked.step, name)
            yield wire.Standing(kind=wire.Standing.Kind.Name(stands)).SerializeToString()
        except DecodeError:
            await self._refuse(context, name, grpc.StatusCode.INVALID_ARGUMENT, "request is not readable")
        except LinkError as error:
            await self._refuse(context, name, grpc.StatusCode.DEADLINE_EXCEEDED, str(error))

    @contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    async def _admit(self, context: Context) -> str:
        """The caller's name by its certificate, if it may call once more. Fails closed."""
        certificates = list(context.auth_context().get("x509_pem_cert", ()))
        try:
            if len(certificates) != 1:
                raise IdentityError("no client certificate")
            name, serial = name_of(certificates[0]), serial_of(certificates[0])
            if serial in self.revoked_serials:
                raise IdentityError(f"the certificate of {name!r} is revoked")
        except IdentityError as error:
            self.refusals.take("", str(error))
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            raise AssertionError("abort raises") from None
        if self._open[name] >= _CALLS_AT_ONCE:
            reason = f"{name} has {_CALLS_AT_ONCE} calls open already"
            await self._refuse(context, name, grpc.StatusCode.UNAVAILABLE, reason)
        return name

    async def _refuse(self, context: Context, name: str, code: grpc.StatusCode, reason: str) -> None:
        self.refusals.take(name, reason)
        await context.abort(code, reason)


def peer_server(
    credential: Credential,
    service: PeerService,
    host: str,
    *,
    keepalive: bool = True,
    on_replaced: Callable[[str], None],
) -> tuple[LastingServer, str]:
    """A mutual-TLS server on a free port of `host`, not started; and the address that neighbours dial.

    `on_replaced` is called when it had to be replaced. Raises LinkError when the address cannot be bound.
    """
    options = [
        *channel_options(MAX_DATA_MESSAGE_BYTES, keepalive=keepalive, server=True),
        ("grpc.max_receive_message_length", MAX_PULL_REQUEST_BYTES),
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        ("grpc.max_concurrent_streams", 16),  # of one connection; a neighbour needs one or two
        ("grpc.max_allowed_incoming_connections", _MOST_CONNECTIONS),
        ("grpc.max_connection_idle_ms", _IDLE_MS),
        ("grpc.max_metadata_size", 8 * 1024),
        ("grpc.absolute_max_metadata_size", 16 * 1024),
    ]

    def bound(address: str) -> tuple[grpc.aio.Server, int]:
        server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers((service.handlers(),))
        port = server.add_secure_port(
            address,
            grpc.ssl_server_credentials(
                [(credential.key_pem, credential.certificate_pem)],
                root_certificates=credential.authority_pem,
                require_client_auth=True,
            ),
        )
        return server, port

    try:
        server = LastingServer(bound, host_port(host, 0), on_replaced)
    except RuntimeError as error:
        raise LinkError(f"no peer port on {host}: {error}") from None
    return server, host_port(host, server.port)


def data_interface(data_address: str) -> str:
    """The address of this machine on the way to the controller's data port: there its neighbours find it.

    Raises LinkError when there is no way there.
    """
    host, _, port = data_address.rpartition(":")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # a datagram socket's: nothing is sent
            own: str = probe.getsockname()[0]
        return str(ipaddress.ip_address(own.partition("%")[0]))
    except (OSError, ValueError) as error:
        raise LinkError(f"no interface leads to {data_address}: {error}") from None
