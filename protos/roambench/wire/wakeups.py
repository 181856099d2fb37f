"""One wake-up of an event loop for all that gRPC has for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_MOST_AT_ONCE: Final = 1024


@contextmanager
def few_wakeups() -> Iterator[None]:
    """To make a server or channel of grpc.aio in, the first of its event loop.

    A thread of grpc.aio 1.85 writes a byte to a socket for every event of its core. The event loop, woken by
    it, takes all events and reads one byte: it is woken again for each of the others, without need. Here the
    bytes of one wake-up are read together.
    """
    loop = asyncio.get_running_loop()
    add_reader = loop.add_reader

    def add(source: Any, callback: Callable[..., Any], *arguments: Any) -> None:
        if isinstance(source, socket.socket):
            callback, arguments = _once, (source, callback, *arguments)
        add_reader(source, callback, *arguments)

    loop.add_reader = add  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        del loop.add_reader


def _once(source: socket.socket, callback: Callable[..., Any], *arguments: Any) -> None:
    """Leave one byte to the callback, which waits for it."""
    waiting = len(source.recv(_MOST_AT_ONCE, socket.MSG_PEEK))
    if waiting > 1:
        source.recv(waiting - 1)
    callback(*arguments)
