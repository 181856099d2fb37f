"""Calls that are opened and never send their request, over many connections, for as long as a test wants.

    python silent_calls.py IDENTITY_DIR ADDRESS SERVER_NAME SECONDS CONNECTIONS EACH METHOD...

prints how many were opened.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from roambench.identity.authority import Credential


@dataclass
class SilentCalls:
    """`refused` counts the calls that the port ended, by status; who was refused calls again."""

    refused: dict[grpc.StatusCode, int]
    opened: int = 0


@asynccontextmanager
async def silent_calls(
    address: str,
    credential: Credential,
    methods: Sequence[str],
    server_name: str,
    connections: int = 12,
    each: int = 16,
) -> AsyncIterator[SilentCalls]:
    told, over = SilentCalls({}), asyncio.Event()

    async def nothing() -> AsyncIterator[bytes]:
        await over.wait()
        for _ in ():
            yield b""

    async def hold(channel: grpc.aio.Channel, method: str) -> None:
        while not over.is_set():
            told.opened += 1
            try:
                await channel.stream_unary(method)(nothing(), wait_for_ready=True)
            except grpc.aio.AioRpcError as error:
                told.refused[error.code()] = told.refused.get(error.code(), 0) + 1
            await asyncio.sleep(1.0)

    channels = [
        grpc.aio.secure_channel(
            address,
            grpc.ssl_channel_credentials(
                credential.authority_pem, credential.key_pem, credential.certificate_pem
            ),
            options=[
                ("grpc.ssl_target_name_override", server_name),
                ("grpc.use_local_subchannel_pool", 1),  # a connection of its own
            ],
        )
        for _ in range(connections)
    ]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    holds = [
        asyncio.ensure_future(hold(channel, methods[number % len(methods)]))
        for channel in channels
        for number in range(each)
    ]
    try:
        yield told
    finally:
        over.set()
        for task in holds:
            task.cancel()
        await asyncio.gather(*holds, return_exceptions=True)
        for channel in channels:
            await channel.close()


async def _main(folder: str, address: str, server_name: str, seconds: str, *more: str) -> None:
    connections, each, *methods = more
    own = Credential.load(Path(folder))
    calls = silent_calls(address, own, methods, server_name, int(connections), int(each))
    async with asyncio.timeout(float(seconds) + 20.0), calls as told:
        await asyncio.sleep(float(seconds))
        print(told.opened)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
