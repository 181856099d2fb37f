"""Harm to the TCP connections of other processes, done to the sockets themselves: no proxy, no root.

A duplicate of a process's socket (pidfd_getfd, Linux 5.6) has the same connection behind it. Disconnecting it
sends a RST, shutting it down sends a FIN, a socket filter on it loses what arrives (TCP sends it again, as
over any bad link).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import psutil

_PIDFD_GETFD: Final = 438  # on every architecture
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_UNSPECIFIED: Final = struct.pack("H14x", socket.AF_UNSPEC)
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Found:
    """A TCP socket of a process; `remote` 0: it listens."""

    pid: int
    fd: int
    local: int
    remote: int


def tcp_sockets(pid: int) -> list[Found]:
    """Those of the process that are connected or listen; none of a process that is gone."""
    try:
        rows = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return []
    return [
        Found(pid, row.fd, row.laddr.port, row.raddr.port if row.raddr else 0)
        for row in rows
        if row.status in (psutil.CONN_ESTABLISHED, psutil.CONN_LISTEN) and row.fd >= 0
    ]


def both_ends(mine: Iterable[Found], others: Iterable[Found]) -> list[Found]:
    """`mine`, and those of `others` that are their other ends."""
    mine = list(mine)
    pairs = {(one.remote, one.local) for one in mine if one.remote}
    return mine + [other for other in others if (other.local, other.remote) in pairs]


def taken(found: Found) -> socket.socket | None:
    """A duplicate; None if the socket or its process is gone, or is another one by now."""
    try:
        pidfd = os.pidfd_open(found.pid)
    except OSError:
        return None
    try:
        fd = _LIBC.syscall(_PIDFD_GETFD, pidfd, found.fd, 0)
    finally:
        os.close(pidfd)
    if fd < 0:
        return None
    try:
        one = socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        return None
    try:
        same = one.getsockname()[1] == found.local
        same = same and (not found.remote or one.getpeername()[1] == found.remote)
    except OSError:
        same = False
    if same:
        return one
    one.close()
    return None


@contextmanager
def held(found: Iterable[Found]) -> Iterator[list[socket.socket]]:
    """Duplicates of all that are still there."""
    with ExitStack() as stack:
        yield [stack.enter_context(one) for one in map(taken, found) if one is not None]


def reset(one: socket.socket) -> None:
    """RST to the other end; its owner finds it broken."""
    _LIBC.connect(one.fileno(), _UNSPECIFIED, len(_UNSPECIFIED))


def half_close(one: socket.socket) -> None:
    """FIN to the other end; what comes from there still arrives."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_WR)


def lose(one: socket.socket, share: float) -> None:
    """From now on this share of what arrives is lost on the way, 1: all of it."""
    accept, drop = (0x06, 0, 0, 0xFFFFFFFF), (0x06, 0, 0, 0)  # BPF_RET
    if share >= 1.0:
        program = [drop]
    else:
        random = (0x20, 0, 0, 0xFFFFF000 + 56)  # BPF_LD from SKF_AD_OFF + SKF_AD_RANDOM
        program = [random, (0x25, 0, 1, int(share * 0xFFFFFFFF)), accept, drop]  # BPF_JGT
    rows = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in program))
    with contextlib.suppress(OSError):
        one.setsockopt(
            socket.SOL_SOCKET,
            _SO_ATTACH_FILTER,
            struct.pack("HxxxxxxP", len(program), ctypes.addressof(rows)),
        )


def lose_nothing(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
