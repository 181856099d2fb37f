"""A TCP proxy between an agent and a port, whose connections break as a test says."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

import pytest

from roambench.wire.v1 import methods

#: reset: RST to both sides, as of a router that has forgotten the connection; down: the same, by the bytes
#: that came from the controller. half: no more comes from the agent, the controller learns it and may still
#: answer. hole: nothing comes through any more, and nobody learns it. unanswered: everything gets there, the
#: answer is lost with the connection. sink: a hole, by the bytes that came from the controller.
How = Literal["reset", "half", "hole", "unanswered", "down", "sink"]


def faster_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead connection is noticed within 20 s; in a test it takes two."""
    options = tuple(
        (key, value // 10 if key.endswith("_ms") else value) for key, value in methods.KEEPALIVE_OPTIONS
    )
    monkeypatch.setattr(methods, "KEEPALIVE_OPTIONS", options)


@dataclass(frozen=True, slots=True)
class Cut:
    """What happens to a connection once `after_bytes` have come over it."""

    how: How
    after_bytes: int


@dataclass
class CutLinks:
    """`cuts` are of the first connections, one each; all later ones are whole."""

    target: int
    cuts: list[Cut]
    port: int = 0
    connections: int = 0
    carried: list[int] = field(default_factory=list)  # bytes from the agent, by connection
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        self.carried.append(0)
        cut = self.cuts[number] if number < len(self.cuts) else None
        there, here = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers += [writer, here]
        due = asyncio.Event()
        for work in (
            self._up(reader, here, writer, number, cut, due),
            self._down(there, writer, here, cut, due),
        ):
            task = asyncio.ensure_future(work)
            self._tasks.add(task)

    async def _up(
        self,
        reader: asyncio.StreamReader,
        here: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
        number: int,
        cut: Cut | None,
        due: asyncio.Event,
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(16384):
                if cut is not None and cut.how == "sink":
                    if due.is_set():
                        await asyncio.Event().wait()
                    here.write(piece)
                    continue
                left = len(piece) if cut is None else cut.after_bytes - self.carried[number]
                here.write(
                    piece if cut is not None and cut.how in ("unanswered", "down") else piece[: max(0, left)]
                )
                self.carried[number] += len(piece)
                await here.drain()
                if cut is None or cut.how == "down" or self.carried[number] < cut.after_bytes:
                    continue
                due.set()
                if cut.how == "reset":
                    _reset(here, writer)
                elif cut.how == "half":
                    here.write_eof()
                elif cut.how == "hole":
                    await asyncio.Event().wait()
                if cut.how != "unanswered":
                    return
        _close(here)

    async def _down(
        self,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        here: asyncio.StreamWriter,
        cut: Cut | None,
        due: asyncio.Event,
    ) -> None:
        came = 0
        with suppress(OSError):
            while piece := await there.read(16384):
                came += len(piece)
                if cut is not None and cut.how == "down" and came >= cut.after_bytes:
                    _reset(writer, here)
                    return
                if cut is not None and cut.how == "sink" and came >= cut.after_bytes:
                    due.set()
                    await asyncio.Event().wait()
                if cut is not None and due.is_set() and cut.how in ("hole", "unanswered"):
                    if cut.how == "hole":
                        await asyncio.Event().wait()
                    await asyncio.sleep(0.3)  # the controller has said what it had to say
                    _reset(writer, here)
                    return
                writer.write(piece)
                await writer.drain()
        _close(writer)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            _close(writer)


@asynccontextmanager
async def cut_links(target: int, cuts: Sequence[Cut]) -> AsyncIterator[CutLinks]:
    links = CutLinks(target, list(cuts))
    with socket.socket() as port:  # whose connections soon hold no more, where nobody reads them
        port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        port.bind(("127.0.0.1", 0))
        server = await asyncio.start_server(links.accept, sock=port.dup())
        links.port = port.getsockname()[1]
    try:
        yield links
    finally:
        server.close()
        await links.close()


def _reset(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        writer.transport.abort()


def _close(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        writer.close()
