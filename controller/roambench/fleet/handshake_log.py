"""Reasons of failed TLS handshakes: gRPC's core tells Python nothing of it, but it can be made to write it
down.

The core writes to C's `stderr` and nowhere else. `HandshakeLog` gives it another one, a bounded file in
memory, and reads that. The descriptor 2 stays as it is: what Python and child processes say is not touched.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import ipaddress
import os
import platform
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

#: A handshake costs 6 kB of it; what does not fit until the next look is lost.
_MOST_BYTES: Final = 4 * 2**20
_UNBUFFERED: Final = 2  # glibc's _IONBF
_VERBOSITY, _TRACE = "GRPC_VERBOSITY", "GRPC_TRACE"

_MESSAGE = re.compile(r"^(?=[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+:\d+\] )", re.MULTILINE)
_FAILED = re.compile(r"CallNextHandshakerLocked: error=(?!OK\b)(?P<error>[^\n]*)")
_OURS = re.compile(r"\bgrpc\.internal\.endpoint_local_address=(?P<address>[^,}\s]+)")
_THEIRS = re.compile(r"\bgrpc\.internal\.endpoint_peer_address=(?P<address>[^,}\s]+)")
_TLS = re.compile(r"OPENSSL_internal:(?P<what>[A-Z0-9_]+)(?:: (?P<why>[A-Za-z0-9 ()\-]{1,80}))?")

#: BoringSSL's words (part of them) and ours, about the one who dialled.
_REASONS: Final = (
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "it showed no certificate"),
    ("certificate has expired", "its certificate has expired"),
    ("certificate is not yet valid", "its certificate is not valid yet: compare the clocks"),
    ("unable to get local issuer certificate", "its certificate is of another authority"),
    ("self signed certificate", "its certificate is of another authority"),
    ("self-signed certificate", "its certificate is of another authority"),
    ("certificate signature failure", "its certificate is of another authority"),
    ("WRONG_VERSION_NUMBER", "it did not speak TLS"),
    ("HTTP_REQUEST", "it did not speak TLS"),
    ("ALERT_UNKNOWN_CA", "it does not trust the controller's certificate"),
    ("ALERT_CERTIFICATE", "it does not trust the controller's certificate"),
    ("ALERT_BAD_CERTIFICATE", "it does not trust the controller's certificate"),
    ("Endpoint closing", "it was silent for too long"),
    ("Handshake read failed", "it broke off, as a client does that does not trust the controller"),
    ("Handshake write failed", "it broke off"),
)
#: Failures at ports that are not watched.
_MOST_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class FailedHandshake:
    """A failed handshake: who dialled `our_port` from where, and what was wrong. No certificate has proved
    who that is."""

    address: str
    port: int
    our_port: int
    reason: str


class HandshakeLog:
    """There is one of a process at most, from before gRPC's import until the end: see `traced`."""

    def __init__(self) -> None:
        """Raises OSError or ValueError where C's `stderr` cannot be given to gRPC."""
        if platform.libc_ver()[0] != "glibc":  # another libc's is a constant
            raise ValueError("not glibc")
        self._file = os.memfd_create("grpc-log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.truncate(self._file, _MOST_BYTES)
        # Beyond its size a write fails, and never waits for us: the writer may hold the GIL.
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        self._read = 0
        self._found: list[FailedHandshake] = []
        libc = ctypes.CDLL(None)
        libc.fdopen.restype, libc.fdopen.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_char_p)
        libc.setvbuf.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
        stream = libc.fdopen(self._file, b"w")
        if not stream:
            raise OSError("fdopen failed")
        libc.setvbuf(stream, None, _UNBUFFERED, 0)
        ctypes.c_void_p.in_dll(libc, "stderr").value = stream
        atexit.register(self.failures)

    def failures(self, ports: Collection[int] = ()) -> list[FailedHandshake]:
        """Those at our `ports` since the last look; what else is worth reading goes to standard error."""
        self._look()
        ours = [failure for failure in self._found if failure.our_port in ports]
        self._found = [failure for failure in self._found if failure.our_port not in ports][-_MOST_KEPT:]
        return ours

    def _look(self) -> None:
        end = os.lseek(self._file, 0, os.SEEK_CUR)
        text = os.pread(self._file, end - self._read, self._read).decode(errors="replace")
        self._read = end
        if end > _MOST_BYTES // 2:
            self._read = os.lseek(self._file, 0, os.SEEK_SET)
        for message in _MESSAGE.split(text):
            failure = _failure(message)
            if failure is not None:
                self._found.append(failure)
            elif message and not message.startswith("I"):
                sys.stderr.write(message)


@contextmanager
def traced() -> Iterator[HandshakeLog | None]:
    """Import gRPC for the first time within: it looks at its environment only then.

    None, and nothing is changed, when that is too late, or the user wants gRPC's log on standard error.
    """
    if "grpc" in sys.modules or _TRACE in os.environ or _VERBOSITY in os.environ:
        yield None
        return
    try:
        log = HandshakeLog()
    except (OSError, ValueError):
        yield None
        return
    os.environ[_TRACE] = "handshaker"
    try:
        yield log
    finally:
        del os.environ[_TRACE]  # child processes have their own log


def _failure(message: str) -> FailedHandshake | None:
    failed, ours, theirs = _FAILED.search(message), _OURS.search(message), _THEIRS.search(message)
    if failed is None or ours is None or theirs is None:
        return None
    try:
        address, port = endpoint(theirs["address"])
        _, our_port = endpoint(ours["address"])
    except ValueError:
        return None
    return FailedHandshake(address, port, our_port, _reason(failed["error"]))


def _reason(error: str) -> str:
    for theirs, ours in _REASONS:
        if theirs in error:
            return ours
    tls = _TLS.search(error)
    if tls is None:
        return "the handshake failed"
    if tls["what"] == "CERTIFICATE_VERIFY_FAILED" and tls["why"]:
        return f"its certificate is not valid ({tls['why']})"
    return tls["what"].replace("_", " ").lower()


def endpoint(peer: str) -> tuple[str, int]:
    """`ipv4:10.0.0.7:4242` and `ipv6:%5B::1%5D:4242` as gRPC writes them; ValueError if it is neither."""
    _, _, rest = unquote(peer).partition(":")
    address, _, port = rest.rpartition(":")
    return plain(address.strip("[]")), int(port)


def plain(address: str) -> str:
    """An IP address as people write it: IPv4 where it is IPv4 in disguise, without a scope."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)
