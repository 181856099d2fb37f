"""The reason of a dial that failed, in words: gRPC only says that there is no connection.

The same TLS handshake is tried once more with Python's own TLS, which does tell what it did not like.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Final

from roambench.contract.errors import ConfigError, IdentityError
from roambench.identity.authority import CONTROLLER_NAME, Credential, check, expiry_of, serial_of
from roambench.meters.ports import host_port

_PATIENCE_S: Final = 5.0
#: HTTP/2's preface and empty settings: a server that has taken our certificate answers with its own.
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_WRONG_NAME: Final = 62  # X509_V_ERR_HOSTNAME_MISMATCH
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED


async def dial_trouble(address: str, credential: Credential) -> str:
    """The trouble between this agent and the controller at `address`; empty when a handshake works now."""
    try:
        check(credential.certificate_pem, credential.authority_pem)
        context = _context(credential)
        host, port = host_port(address, 0, lambda what: ConfigError([what]))
    except (IdentityError, ConfigError, ssl.SSLError) as error:
        return str(error)
    except OSError as error:
        return f"this board cannot dial: {error.strerror or error}"
    try:
        async with asyncio.timeout(_PATIENCE_S):
            try:
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=context, server_hostname=CONTROLLER_NAME
                )
            except (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):  # before a word of TLS
                return f"{address} ends connections at once: its port is full, or no controller listens there"
            try:
                writer.write(_PREFACE)
                answer = await reader.read(1)
            finally:
                writer.transport.abort()
    except ssl.SSLCertVerificationError as error:
        return _distrust(address, error)
    except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
        answer = b""
    except TimeoutError:
        return f"no answer from {address} within {_PATIENCE_S:g} s"
    except socket.gaierror:
        return f"{address}: no such name"
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    return "" if answer else _distrusted(address, credential)


def _distrust(address: str, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _WRONG_NAME:
        return (
            f"the one that listens at {address} is not {CONTROLLER_NAME!r}: its certificate has another name"
        )
    if error.verify_code == _EXPIRED:
        return f"the certificate of the controller at {address} has expired, or this board's clock is wrong"
    return (
        f"the one that listens at {address} has no certificate of this bench's authority "
        f"({error.verify_message})"
    )


def _distrusted(address: str, credential: Credential) -> str:
    serial, ends = serial_of(credential.certificate_pem), expiry_of(credential.certificate_pem)
    return (
        f"the controller at {address} does not take this agent's certificate (serial {serial:x}, valid until "
        f"{ends:%F %T} UTC by this board's clock): another bench's, or of an authority it trusts no more; "
        "on the controller: roambench fleet certs rotate"
    )


def _context(credential: Credential) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=credential.authority_pem.decode("ascii"))
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["h2"])
    # Python reads keys from files only; this one is never on a disk.
    descriptor = os.memfd_create("roambench-identity")
    try:
        os.write(descriptor, credential.certificate_pem + credential.key_pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
