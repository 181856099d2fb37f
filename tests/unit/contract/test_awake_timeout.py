"""Patience, in a loop that really stands still."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.stillness import AwakeTime

#: Longer than the patience, and than what counts as standing still.
STANDS_STILL_S = 4.0


@pytest.mark.asyncio
async def test_it_ends_when_nothing_comes() -> None:
    with pytest.raises(TimeoutError):
        async with AwakeTimeout(0.05):
            await asyncio.get_running_loop().create_future()


@pytest.mark.asyncio
async def test_what_came_while_the_loop_stood_still_is_taken_before_it_ends() -> None:
    loop = asyncio.get_running_loop()
    came: asyncio.Future[bytes] = loop.create_future()
    out, into = os.pipe()
    loop.add_reader(out, lambda: came.done() or came.set_result(os.read(out, 16)))
    writing = threading.Timer(1.0, os.write, (into, b"an answer"))
    writing.start()
    try:
        async with AwakeTimeout(0.5):
            loop.call_soon(time.sleep, STANDS_STILL_S)
            answer = await came
            for _ in range(100):  # from the socket to who waits an answer takes some turns of the loop
                await asyncio.sleep(0)
    finally:
        writing.join()
        loop.remove_reader(out)
        os.close(out)
        os.close(into)
    assert answer == b"an answer"


@pytest.mark.asyncio
async def test_restarted_it_begins_again() -> None:
    async with AwakeTimeout(2.0) as patience:
        for _ in range(5):
            await asyncio.sleep(0.5)
            patience.restart()


def test_time_awake_leaves_out_what_lies_between_two_late_looks() -> None:
    awake = AwakeTime()
    time.sleep(STANDS_STILL_S)
    assert awake.seconds() < STANDS_STILL_S
    awake.restart()
    assert awake.seconds() < STANDS_STILL_S
