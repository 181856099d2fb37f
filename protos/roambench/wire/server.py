"""Parts of the gRPC servers of both ends: a server that lasts, and the first request of a call."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.errors import LinkError

if TYPE_CHECKING:
    import grpc.aio

_LOOK_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0  # before the next server, where a caller breaks one after the other
_FORGOTTEN_S: Final = 600.0
_RETIRE_S: Final = 7 * 86400.0  # a session may go on at a broken server for as long as the run lasts


async def first_request(messages: AsyncIterator[bytes], patience_s: float) -> bytes:
    """The first of `messages`; LinkError when it does not come within `patience_s` host seconds, or never.

    For a call that is declared as a stream, to read its request when it is known who calls: gRPC reads a
    unary one before a handler is asked.
    """
    try:
        async with AwakeTimeout(patience_s):
            async for message in messages:
                return message
    except TimeoutError:
        raise LinkError(f"no request within {patience_s:g} s") from None
    raise LinkError("the call ended before its request")


class LastingServer:
    """The server that `bound` makes for `address`, there again after a malformed call has broken it.

    `port` is its port's number and stays the same. `on_replaced` is called when it had to be replaced. Raises
    what `bound` raises, RuntimeError for an address that is taken.
    """

    def __init__(
        self,
        bound: Callable[[str], tuple[grpc.aio.Server, int]],
        address: str,
        on_replaced: Callable[[str], None],
    ) -> None:
        self._bound, self._replaced = bound, on_replaced
        self._host = address.rpartition(":")[0]
        self._retiring: dict[grpc.aio.Server, asyncio.Task[None]] = {}
        self._server, self.port = bound(address)

    async def start(self) -> None:
        """Listen and take calls."""
        await self._server.start()

    async def stop(self, grace_s: float | None) -> None:
        """End all calls, after `grace_s` seconds at most (None: at once)."""
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
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(partial(_without_traceback, loop.get_exception_handler()))
        while True:
            try:
                if not await self._server.wait_for_termination(_LOOK_S):
                    return
            except Exception as error:  # its loop may die of anything
                now_s = time.monotonic()
                breaks, last_s = 1 if now_s - last_s > _FORGOTTEN_S else breaks + 1, now_s
                await asyncio.sleep(min(_LONGEST_PAUSE_S, 0.1 * 2.0 ** min(breaks, 16)))
                await self._replace()
                self._replaced(f"replaced the port's server after a malformed call ({type(error).__name__})")

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


_Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


def _without_traceback(
    otherwise: _Handler | None, loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Drop gRPC's traceback of a server's loop that died: `watch` reports the reason."""
    error = context.get("exception")
    if error is not None and any(
        frame.name.endswith("_server_main_loop") for frame in traceback.extract_tb(error.__traceback__)
    ):
        return
    if otherwise is None:
        loop.default_exception_handler(context)
    else:
        otherwise(loop, context)
