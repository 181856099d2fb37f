"""Who is calling: the name in the peer's certificate, checked against the bench's revocation list."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import grpc
import grpc.aio

from roambench.contract.errors import FleetError, IdentityError
from roambench.identity.authority import Credential, name_of, serial_of
from roambench.wire.v1.methods import channel_options

Context = grpc.aio.ServicerContext[Any, Any]


class Guard:
    """Reads identities from TLS; fails closed."""

    def __init__(self, revoked_serials: Collection[int] = ()) -> None:
        self._revoked = frozenset(revoked_serials)

    async def identify(self, context: Context) -> str:
        """The caller's name. Aborts the call with UNAUTHENTICATED when there is none or it is revoked."""
        certificates = list(context.auth_context().get("x509_pem_cert", ()))
        try:
            if len(certificates) != 1:
                raise IdentityError("no client certificate")
            name, serial = name_of(certificates[0]), serial_of(certificates[0])
            if serial in self._revoked:
                raise IdentityError(f"the certificate of {name!r} is revoked")
        except IdentityError as error:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            raise AssertionError("abort raises") from None
        return name


def secure_server(
    credential: Credential,
    address: str,
    max_message_bytes: int,
    handlers: grpc.GenericRpcHandler,
    *,
    keepalive: bool = True,
) -> tuple[grpc.aio.Server, int]:
    """A mutual-TLS server with `handlers`, bound to `address`; returns it (not started) and its port.

    Raises FleetError when the address cannot be bound.
    """
    options = [*channel_options(max_message_bytes, keepalive=keepalive), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((handlers,))
    try:
        port = server.add_secure_port(
            address,
            grpc.ssl_server_credentials(
                [(credential.key_pem, credential.certificate_pem)],
                root_certificates=credential.authority_pem,
                require_client_auth=True,
            ),
        )
    except RuntimeError:
        raise FleetError(
            f"cannot listen on {address}: the port is taken or the address is not this machine's; "
            "stop the other program or choose another port"
        ) from None
    return server, port
