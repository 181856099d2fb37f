"""The data link of an agent, over a channel that gives what the test wants."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from roambench.agent.session.data_link import DataLink
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError

PIECES = [bytes([number]) * 1000 for number in range(24)]
DIGEST = hashlib.sha256(b"".join(PIECES)).hexdigest()


class Channel:
    """Its downloads are a header and these pieces, so many seconds apart."""

    def __init__(self, pause_s: float, pieces: list[bytes]) -> None:
        self._pause_s, self._pieces = pause_s, pieces

    def unary_stream(self, method: str) -> Callable[..., AsyncIterator[bytes]]:
        async def download(request: bytes, timeout: float = 60.0, **ignored: Any) -> AsyncIterator[bytes]:
            async with asyncio.timeout(timeout):
                yield b""
                for piece in self._pieces:
                    await asyncio.sleep(self._pause_s)
                    yield piece
                if len(self._pieces) < len(PIECES):
                    await asyncio.Event().wait()

        return download

    def stream_unary(self, method: str) -> None:
        pass


@pytest.mark.asyncio
async def test_data_that_come_slowly_are_waited_for_as_long_as_some_come(tmp_path: Path) -> None:
    link = DataLink(cast(Any, Channel(0.1, PIECES)), "pi-01", DeviceClock())
    await link.fetch_shard(DIGEST, tmp_path / "shard", 2.0)  # 2.4 s in all
    assert (tmp_path / "shard").read_bytes() == b"".join(PIECES)


@pytest.mark.asyncio
async def test_data_that_come_no_more_break_off_and_leave_nothing(tmp_path: Path) -> None:
    link = DataLink(cast(Any, Channel(0.0, PIECES[:3])), "pi-01", DeviceClock())
    with pytest.raises(LinkError, match=f"shard {DIGEST[:12]} broke off: nothing came for 0.5 s"):
        await link.fetch_shard(DIGEST, tmp_path / "shard", 0.5)
    assert list(tmp_path.iterdir()) == []
