"""The request of a call, read when it is known who calls: gRPC reads a unary one before anybody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from roambench.contract.errors import LinkError


async def first_request(messages: AsyncIterator[bytes], patience_s: float) -> bytes:
    """The first of `messages`; LinkError when it does not come within `patience_s` host seconds, or never."""
    try:
        async with asyncio.timeout(patience_s):
            async for message in messages:
                return message
    except TimeoutError:
        raise LinkError(f"no request within {patience_s:g} s") from None
    raise LinkError("the call ended before its request")
