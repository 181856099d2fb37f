"""The agent's control socket: one JSON request per connection, JSON lines back.

Root and the agent's group may open the socket (mode 0660), and ask. A request is one line like
{"ask": "status"}; the answer is one line, or many of an export. Nothing a client does ends the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from roambench.contract.errors import RoambenchError
from roambench.contract.json_values import json_or_none

#: The socket's permissions.
MODE: Final = 0o660
_MOST_REQUEST_BYTES: Final = 4096
_REQUEST_PATIENCE_S: Final = 10.0
_WRITE_PATIENCE_S: Final = 60.0
_CLIENTS_AT_ONCE: Final = 8


class RequestPort(Protocol):
    """Port to what answers requests (`ctl_handler`)."""

    def answer(self, request: Mapping[str, Any]) -> AsyncIterator[str]:
        """The answer, in lines of JSON. ValueError: the request is wrong."""
        ...


async def serve_ctl(path: Path, answering: RequestPort) -> None:
    """Serve at `path` until cancelled; a socket of an earlier life there is replaced.

    Where the socket cannot be made (a folder that is missing) the agent lives without it: that is said once,
    on standard error, and nothing is served.
    """
    places = asyncio.Semaphore(_CLIENTS_AT_ONCE)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with places:
            try:
                with contextlib.suppress(OSError):  # it has gone, or reads no more (TimeoutError)
                    await _talk(reader, writer, answering)
                writer.close()
                async with asyncio.timeout(_WRITE_PATIENCE_S):
                    await writer.wait_closed()
            except (OSError, asyncio.CancelledError):
                writer.transport.abort()  # what it has not read is dropped: its place is another's

    draft = path.with_name(path.name + ".new")
    try:
        draft.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(talk, str(draft), limit=_MOST_REQUEST_BYTES)
        draft.chmod(MODE)
        draft.replace(path)
    except OSError as error:
        why = f"control socket {path}: {error.strerror or error}; this agent cannot be asked"
        print(why, file=sys.stderr, flush=True)
        await asyncio.Event().wait()
        return
    try:
        await asyncio.Event().wait()
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def _talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answering: RequestPort) -> None:
    """Raises TimeoutError where the client does not read its answer."""
    async for line in _lines(reader, answering):
        writer.write(line.encode() + b"\n")
        async with asyncio.timeout(_WRITE_PATIENCE_S):
            await writer.drain()


async def _lines(reader: asyncio.StreamReader, answering: RequestPort) -> AsyncIterator[str]:
    """The answer's lines; one that says what is wrong where there is none."""
    try:
        try:
            async with asyncio.timeout(_REQUEST_PATIENCE_S):
                request = json_or_none(dict[str, Any], await reader.readline())
        except TimeoutError:
            raise ValueError(f"expected a request within {_REQUEST_PATIENCE_S:g} s") from None
        if request is None:
            raise ValueError("expected one line of JSON, an object with the key ask")
        async for line in answering.answer(request):
            yield line
    except (ValueError, RoambenchError, OSError, RuntimeError) as error:
        yield json.dumps({"error": str(error)[:1000] or type(error).__name__})
