"""Frames of an agent's session on their way: events travel with the frame behind them.

A frame costs its controller 0.2 ms of a core, be it small or large.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from roambench.contract.events import EventKind
from roambench.wire.v1 import control_pb2 as wire

#: Host seconds that an event may wait for another frame: a live page looks as often.
EVENTS_WAIT_S: Final = 1.0
#: Events that an answer or another event follows, and that cause nothing. An event that must arrive before
#: its agent may die (a training began) goes at once.
_MAY_WAIT: Final = frozenset(
    (
        EventKind.DOWNLOAD_STARTED,
        EventKind.TRAIN_FINISHED,
        EventKind.EVALUATE_FINISHED,
        EventKind.UPLOAD_STARTED,
        EventKind.EXCHANGE_FINISHED,
    )
)
_MOST_EVENTS: Final = 32  # of one frame; each has some hundred bytes


class OutgoingFrames:
    """Frames in the order in which they were put. An event goes with the frame behind it: one that may wait
    does so for `wait_s` host seconds at most, another takes only what is there already."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._queue: asyncio.Queue[wire.AgentFrame | None] = asyncio.Queue()

    def put(self, frame: wire.AgentFrame | None) -> None:
        """Queue a frame; None: no other follows."""
        self._queue.put_nowait(frame)

    async def frames(self) -> AsyncIterator[wire.AgentFrame]:
        """The frames to send."""
        now_s = asyncio.get_running_loop().time
        while (frame := await self._queue.get()) is not None:
            due_s = now_s() + self._wait_s
            while frame.WhichOneof("frame") is None and 0 < len(frame.events) < _MOST_EVENTS:
                if self._queue.empty() and (frame.events[-1].kind not in _MAY_WAIT or now_s() >= due_s):
                    break
                try:
                    async with asyncio.timeout_at(due_s):
                        following = await self._queue.get()
                except TimeoutError:
                    break
                if following is None:
                    yield frame
                    return
                frame = _joined(frame, following)
            yield frame


def _joined(events: wire.AgentFrame, frame: wire.AgentFrame) -> wire.AgentFrame:
    joined = wire.AgentFrame()
    joined.MergeFrom(events)
    joined.MergeFrom(frame)
    return joined
