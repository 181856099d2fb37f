"""Device time runs time_scale times as fast as the host, from one epoch."""

import asyncio
import time

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.pacing import paced


def test_a_board_has_the_hosts_own_clock() -> None:
    clock = DeviceClock()
    assert clock.from_host_ns(123_456_789) == 123_456_789
    assert clock.to_host_ns(123_456_789) == 123_456_789


def test_an_emulated_second_lasts_a_quarter_at_scale_four() -> None:
    clock = DeviceClock(epoch_ns=1000, time_scale=4.0)
    assert clock.from_host_ns(1000 + 250_000_000) == 1000 + 1_000_000_000
    assert clock.to_host_ns(1000 + 1_000_000_000) == 1000 + 250_000_000
    assert clock.host_seconds(2.0) == 0.5


@pytest.mark.parametrize("time_scale", [1.0, 4.0])
def test_device_time_goes_on_where_the_hosts_clock_began_anew(time_scale: float) -> None:
    clock = DeviceClock(1000, time_scale, ahead_ns=7_000_000_000)
    assert clock.from_host_ns(1000) == 7_000_001_000
    clock.put_forward(500)
    assert clock.from_host_ns(1000) == 7_000_001_500
    assert clock.from_host_ns(1000 + 1_000_000) == 7_000_001_500 + round(1_000_000 * time_scale)
    assert clock.to_host_ns(clock.from_host_ns(123_456_789)) == 123_456_789


@pytest.mark.asyncio
async def test_sleeping_into_the_past_returns_at_once() -> None:
    clock = DeviceClock(time.monotonic_ns(), 4.0)
    before = clock.now_ns()
    await clock.sleep_until_ns(before - 10_000_000_000)
    assert clock.now_ns() - before < 1_000_000_000


@pytest.mark.asyncio
async def test_a_paced_transfer_lasts_its_bits_over_the_rate() -> None:
    clock = DeviceClock(time.monotonic_ns(), 10.0)
    started = clock.now_ns()
    pieces = [piece async for piece in paced([b"x" * 250_000] * 4, 8.0, clock)]  # 8 Mbit at 8 Mbit/s
    lasted_s = (clock.now_ns() - started) * 1e-9
    assert len(pieces) == 4
    assert lasted_s >= 1.0


@pytest.mark.asyncio
async def test_rate_zero_means_no_pacing() -> None:
    clock = DeviceClock(time.monotonic_ns(), 1.0)
    async with asyncio.timeout(30):
        pieces = [piece async for piece in paced([b"x" * 10_000_000] * 3, 0.0, clock)]
    assert len(pieces) == 3
