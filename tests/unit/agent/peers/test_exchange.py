"""Devices exchange half-step models over real mutual TLS; whatever a neighbour does, everybody goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_ports import Refused
from cut_links import Cut, How, cut_links, faster_keepalive
from peer_devices import BLOB_BYTES, LAYOUT, NOWHERE, PARAMETERS, Devices, devices, half_step, mean, model
from roambench.agent.board_load import BoardLoad
from roambench.agent.peers.exchange import Peers
from roambench.agent.peers.offers import HalfStep
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.identity.authority import Authority


@pytest.mark.asyncio
async def test_four_devices_mix_the_same_bits_as_a_weighted_mean_whoever_comes_first(tmp_path: Path) -> None:
    async with devices(tmp_path, 4) as bench:
        weights = [0.1, 0.2, 0.3, 0.4]
        done = await asyncio.gather(
            *(
                bench.exchange(
                    device,
                    [bench.neighbour(other, weights[other]) for other in range(4) if other != device],
                    own_weight=weights[device],
                    after_s=0.05 * (3 - device),  # asked before they know of the iteration
                )
                for device in range(4)
            )
        )
        for mixed in done:
            assert mixed.left_out == mixed.not_taken == ()
            assert mixed.sent_bytes == mixed.received_bytes == 3 * BLOB_BYTES
            assert np.array_equal(mixed.model, mean(dict(enumerate(weights))))
        assert bench.refusals == []


@pytest.mark.asyncio
async def test_a_model_of_weight_zero_travels_and_is_not_added(tmp_path: Path) -> None:
    async with devices(tmp_path, 2) as bench:
        one, other = await asyncio.gather(
            bench.exchange(0, [bench.neighbour(1, 0.0)], own_weight=1.0),
            bench.exchange(1, [bench.neighbour(0, 0.5)], own_weight=0.5),
        )
        assert np.array_equal(one.model, model(0))
        assert one.received_bytes == BLOB_BYTES
        assert np.array_equal(other.model, mean({0: 0.5, 1: 0.5}))


@pytest.mark.asyncio
async def test_a_late_neighbour_is_left_out_and_its_weight_goes_to_oneself(tmp_path: Path) -> None:
    async with devices(tmp_path, 3) as bench:
        bench.announce(2, [bench.neighbour(0), bench.neighbour(1)])  # it never gets ready
        one, other = await asyncio.gather(
            bench.exchange(0, [bench.neighbour(1), bench.neighbour(2)], own_weight=0.5, limit_s=6.0),
            bench.exchange(1, [bench.neighbour(0), bench.neighbour(2)], own_weight=0.5, limit_s=6.0),
        )
        for mixed, device in ((one, 0), (other, 1)):
            (short,) = mixed.left_out
            assert (short.device, short.moved_bytes) == (2, 0)
            assert short.reason.startswith("late: ")
            assert [missed.device for missed in mixed.not_taken] == [2]
            assert np.array_equal(mixed.model, mean({device: 0.75, 1 - device: 0.25}))


@pytest.mark.asyncio
async def test_a_neighbour_that_is_gone_or_has_no_model_costs_no_deadline(tmp_path: Path) -> None:
    async with devices(tmp_path, 3) as bench:
        failed = bench.announce(2, [bench.neighbour(0)])
        failed.offer.withhold("its half step failed")
        neighbours = [bench.neighbour(1, 0.2, NOWHERE), bench.neighbour(2, 0.3), bench.neighbour(3, 0.1, "")]
        async with asyncio.timeout(60):
            mixed = await bench.exchange(0, neighbours, own_weight=0.4, limit_s=600.0)
        gone, without, unknown = mixed.left_out
        assert [short.device for short in mixed.left_out] == [1, 2, 3]
        assert gone.reason.startswith("lost: ")
        assert without.reason == "refused: its half step failed"
        assert unknown.reason == "lost: it has no peer port"
        assert np.array_equal(mixed.model, model(0) * np.float32(0.4 + 0.2 + 0.3 + 0.1))


@pytest.mark.asyncio
@pytest.mark.parametrize("why", ["it died", "it has given up", "its exchange is over"])
async def test_a_neighbour_that_gave_its_model_and_will_not_take_ours_costs_no_deadline(
    tmp_path: Path, why: str
) -> None:
    async with devices(tmp_path, 2) as bench:
        theirs = bench.announce(1, [bench.neighbour(0)]).offer
        theirs.provide(half_step(1))
        async with asyncio.timeout(60):
            ours = asyncio.create_task(
                bench.exchange(0, [bench.neighbour(1)], own_weight=0.75, limit_s=600.0)
            )
            await theirs.taken(60.0)
            if why == "it died":
                await bench.peers[1].close()
            elif why == "it has given up":
                theirs.give_up("pi-00")
            else:
                theirs.withhold("the exchange is over")
            mixed = await ours
        assert mixed.left_out == ()
        assert [(missed.device, missed.moved_bytes) for missed in mixed.not_taken] == [(1, 0)]
        assert np.array_equal(mixed.model, mean({0: 0.75, 1: 0.25}))


@pytest.mark.asyncio
async def test_a_neighbour_that_still_wants_our_model_is_waited_for_until_the_deadline(
    tmp_path: Path,
) -> None:
    async with devices(tmp_path, 2) as bench:
        bench.announce(1, [bench.neighbour(0)]).offer.provide(half_step(1))
        bench.peers[0].grace_s = 0.1
        asked: list[str] = []
        standing = bench.peers[1]._offers.standing

        def noted(run_id: str, step: int, name: str) -> Any:
            asked.append(name)
            return standing(run_id, step, name)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bench.peers[1]._offers, "standing", noted)
            mixed = await bench.exchange(0, [bench.neighbour(1)], own_weight=0.75, limit_s=5.0)
        assert len(asked) > 3
        assert [missed.device for missed in mixed.not_taken] == [1]
        # The deadline may end a call on a busy machine before it is read.
        assert set(bench.refusals) <= {("pi-00", "the call ended before its request")}


@pytest.mark.asyncio
async def test_a_neighbour_whose_word_that_it_has_all_was_lost_is_asked_for_it(tmp_path: Path) -> None:
    async with devices(tmp_path, 2) as bench:
        theirs = bench.announce(1, [bench.neighbour(0)]).offer
        theirs.provide(half_step(1))
        theirs.here.add("pi-00")
        async with asyncio.timeout(60):
            mixed = await bench.exchange(0, [bench.neighbour(1)], own_weight=0.75, limit_s=600.0)
        assert (mixed.left_out, mixed.not_taken) == ((), ())


@pytest.mark.asyncio
async def test_a_neighbour_that_dies_in_mid_transfer_is_left_out_with_what_came_of_it(tmp_path: Path) -> None:
    async with devices(tmp_path, 2) as bench:
        # 80 kB at 0.4 Mbit/s go in seven pieces, one each 0.25 s: it dies when it has sent the second.
        taking = asyncio.create_task(bench.exchange(0, [bench.neighbour(1)], own_weight=0.75, limit_s=60.0))
        dying = bench.announce(1, [bench.neighbour(0)], mbit_s=0.4)
        dying.offer.pace.begin()
        dying.offer.provide(half_step(1))
        async with asyncio.timeout(20):
            while dying.offer.sent_bytes["pi-00"] < 25_000:
                await asyncio.sleep(0.01)
        await bench.peers[1].close()
        mixed = await taking
        (short,) = mixed.left_out
        assert short.reason.startswith("lost: ")
        assert 0 < short.moved_bytes < BLOB_BYTES
        assert mixed.received_bytes == short.moved_bytes
        assert np.array_equal(mixed.model, model(0))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("blob", "complaint"),
    [
        (half_step(0).blob, "garbage: the digest does not match"),
        (encode(model(1), "b" * 32), "garbage: model has layout"),
        (encode(np.full(PARAMETERS, np.nan, np.float32), LAYOUT), "garbage: model holds NaN"),
        (b"", "garbage: "),
    ],
)
async def test_bytes_that_are_no_model_of_this_run_are_not_mixed(
    tmp_path: Path, blob: bytes, complaint: str
) -> None:
    async with devices(tmp_path, 2) as bench:
        bad = bench.announce(1, [bench.neighbour(0)])
        right = complaint.startswith("garbage: the digest")
        bad.offer.provide(HalfStep(blob, half_step(1).digest if right else digest_of(blob)))
        bad.offer.give_up("pi-00")  # it takes nothing from us
        mixed = await bench.exchange(0, [bench.neighbour(1)], own_weight=0.75)
        assert mixed.left_out[0].reason.startswith(complaint)
        assert np.array_equal(mixed.model, model(0))


@pytest.mark.asyncio
async def test_models_beyond_the_memory_wait_on_disk_and_leave_nothing_behind(tmp_path: Path) -> None:
    async with devices(tmp_path, 4) as bench:
        bench.peers[0].memory_bytes = BLOB_BYTES  # one of the three
        before = sorted(path.name for path in tmp_path.iterdir())
        done = await asyncio.gather(
            *(
                bench.exchange(device, [bench.neighbour(other) for other in range(4) if other != device])
                for device in range(4)
            )
        )
        assert np.array_equal(done[0].model, done[1].model)
        assert np.array_equal(done[0].model, mean(dict.fromkeys(range(4), 0.25)))
        assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.asyncio
async def test_without_a_port_there_is_no_exchange(tmp_path: Path) -> None:
    bench = Devices(Authority.create(), tmp_path)
    peers = Peers(bench.authority.issue("pi-00"), DeviceClock(), tmp_path, Refused())
    with pytest.raises(LinkError, match="closed"):
        peers.announce(0, [], 0.0, BoardLoad())


@pytest.mark.asyncio
@pytest.mark.parametrize("after_bytes", [1, 4_000, 30_000, 70_000])
@pytest.mark.parametrize("how", ["down", "sink"])
async def test_a_connection_that_breaks_costs_what_came_over_it_and_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: How, after_bytes: int
) -> None:
    """Reset, or a hole that keepalive finds; in the handshake, early, in the middle, near the end."""
    faster_keepalive(monkeypatch)
    async with devices(tmp_path, 2) as bench:
        port = int(bench.peers[1].address.rpartition(":")[2])
        async with cut_links(port, [Cut(how, after_bytes)]) as links:
            near = bench.neighbour(1, 0.5, f"127.0.0.1:{links.port}")
            both = await asyncio.gather(
                bench.exchange(0, [near], own_weight=0.5, mbit_s=2.0, limit_s=60.0),
                bench.exchange(1, [bench.neighbour(0, 0.5)], own_weight=0.5, mbit_s=2.0, limit_s=60.0),
            )
            assert links.connections == 2
        for device, mixed in enumerate(both):
            assert (mixed.left_out, mixed.not_taken) == ((), ())
            assert np.array_equal(mixed.model, mean({device: 0.5, 1 - device: 0.5}))
        assert BLOB_BYTES <= both[0].received_bytes < 2 * BLOB_BYTES  # what broke off was received, too


@pytest.mark.asyncio
async def test_a_link_that_breaks_again_and_again_costs_no_model(tmp_path: Path) -> None:
    async with devices(tmp_path, 2) as bench:
        port = int(bench.peers[1].address.rpartition(":")[2])
        async with cut_links(port, [Cut("down", 30_000)] * 4) as links:
            near = bench.neighbour(1, 0.5, f"127.0.0.1:{links.port}")
            both = await asyncio.gather(
                bench.exchange(0, [near], own_weight=0.5, mbit_s=2.0, limit_s=60.0),
                bench.exchange(1, [bench.neighbour(0, 0.5)], own_weight=0.5, mbit_s=2.0, limit_s=60.0),
            )
            assert links.connections == 5
        assert [(mixed.left_out, mixed.not_taken) for mixed in both] == [((), ())] * 2
