"""What an exchange may take: of the air, of memory, of others' patience."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from peer_devices import BLOB_BYTES, devices, half_step
from roambench.agent.board_load import BoardLoad
from roambench.agent.peers.inbox import Inbox
from roambench.agent.peers.offers import MOST_PULLS, Offer, Offers, Withheld
from roambench.agent.peers.radio import RadioPace, Traffic
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ModelError


def test_an_inbox_keeps_its_bound_and_takes_room_back(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, memory_bytes=100)
    first, second = inbox.parcel(60), inbox.parcel(60)
    assert inbox.spilled == 1
    for parcel in (first, second):
        parcel.add(b"x" * 60)
        with pytest.raises(ModelError, match="more bytes than the 60"):
            parcel.add(b"y")
    second.close()
    first.close()
    first.close()  # once is enough
    inbox.parcel(100)
    assert inbox.spilled == 1
    with pytest.raises(ModelError, match="limit"):
        inbox.parcel(1 << 40)


@pytest.mark.asyncio
async def test_all_sends_of_a_device_share_its_link(tmp_path: Path) -> None:
    """A hub with three neighbours sends 3 x 80 kB at 8 Mbit/s: 0.24 s, and gets as much in the same time."""
    async with devices(tmp_path, 4) as bench:
        hub, *_ = await asyncio.gather(
            bench.exchange(0, [bench.neighbour(n) for n in (1, 2, 3)], mbit_s=8.0),
            *(bench.exchange(n, [bench.neighbour(0)], own_weight=0.75, mbit_s=8.0) for n in (1, 2, 3)),
        )
        air_s = 3 * BLOB_BYTES * 8e-6 / 8.0
        assert hub.left_out == ()
        assert hub.duration_s >= air_s - 0.001
        assert hub.sent_bytes == hub.received_bytes == 3 * BLOB_BYTES


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["send", "receive"])
async def test_pieces_of_several_transfers_share_the_air(way: str) -> None:
    """3 x 100 kB at 8 Mbit/s take 0.3 s in either direction, each beside the other."""
    clock = DeviceClock()
    pace = RadioPace(clock, 8.0)
    began_ns = clock.now_ns()
    await asyncio.gather(*(getattr(pace, way)(100_000) for _ in range(3)))
    assert (clock.now_ns() - began_ns) * 1e-9 >= 0.3 - 1e-6


class ExchangeLoad(BoardLoad):
    """Keeps what is sent and what comes, in Mbit/s."""

    def __init__(self) -> None:
        self.rates: list[tuple[float, float]] = []

    def exchange(self, sending_mbit_s: float, coming_mbit_s: float) -> None:
        self.rates.append((sending_mbit_s, coming_mbit_s))


@pytest.mark.asyncio
async def test_what_is_sent_hears_the_radio_begin_and_end(tmp_path: Path) -> None:
    async with devices(tmp_path, 2) as bench:
        load = ExchangeLoad()
        iteration = bench.peers[0].announce(7, [bench.neighbour(1)], 1.0, load)
        other = asyncio.create_task(bench.exchange(1, [bench.neighbour(0)], own_weight=0.75, mbit_s=1.0))
        await bench.peers[0].exchange(iteration, half_step(0), 0, 0.75, 20.0)
        await other
        assert (1.0, 1.0) in load.rates
        assert load.rates[-1] == (0.0, 0.0)


@pytest.mark.asyncio
async def test_a_device_is_not_made_to_send_for_ever() -> None:
    offer = Offer("run", 1, ["pi-01"], RadioPace(DeviceClock(), 0.0), Traffic(0.0, BoardLoad()))
    for _ in range(MOST_PULLS):
        async with offer.sending_to("pi-01"):
            assert offer.sending
    with pytest.raises(Withheld, match="times already"):
        async with offer.sending_to("pi-01"):
            pass
    assert not offer.sending


@pytest.mark.asyncio
async def test_who_waits_for_an_iteration_waits_in_bounded_number() -> None:
    offers = Offers()
    waiting = [asyncio.create_task(offers.wanted("run", 1, "pi-01")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Withheld, match="waits already"):
        await offers.wanted("run", 1, "pi-01")
    offer = Offer("run", 1, ["pi-01"], RadioPace(DeviceClock(), 0.0), Traffic(0.0, BoardLoad()))
    offers.announce(offer)
    assert await asyncio.gather(*waiting) == [offer, offer]
    assert await offers.wanted("run", 1, "pi-01") is offer


@pytest.mark.asyncio
async def test_nobody_waits_for_an_iteration_that_is_over() -> None:
    offers = Offers()
    passed_over = asyncio.create_task(offers.wanted("run", 1, "pi-01"))
    await asyncio.sleep(0)
    offers.announce(Offer("run", 2, ["pi-01"], RadioPace(DeviceClock(), 0.0), Traffic(0.0, BoardLoad())))
    for late in (passed_over, offers.wanted("run", 0, "pi-01")):
        with pytest.raises(Withheld, match="is over"):
            await asyncio.wait_for(late, 60.0)
