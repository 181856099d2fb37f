"""Devices exchange half-step models over real mutual TLS; whatever a neighbour does, everybody goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pytest

from roambench.agent.peer_inbox import Inbox
from roambench.agent.peer_offers import MOST_PULLS, HalfStep, Offer, Offers, Withheld
from roambench.agent.peer_pace import RadioPace
from roambench.agent.peers import Iteration, Mixed, Neighbour, Peers
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import LinkError, ModelError
from roambench.contract.model_blob import digest_of, encode
from roambench.contract.orders import Vector
from roambench.identity.authority import Authority, serial_of
from roambench.vectors import weighted_mean
from roambench.wire.v1 import peer_pb2 as wire
from roambench.wire.v1.methods import PULL

LAYOUT = "a" * 32
NOWHERE = "127.0.0.1:9"  # nobody listens there
PARAMETERS = 20_000


def model(device: int) -> Vector:
    return (np.arange(PARAMETERS, dtype=np.float32) * 0.001 + device) / np.float32(3.0)


def half_step(device: int) -> HalfStep:
    blob = encode(model(device), LAYOUT)
    return HalfStep(blob, digest_of(blob))


BLOB_BYTES = len(half_step(0).blob)


@dataclass
class Devices:
    """Peers pi-00, pi-01, ... of one bench, each with its port open; `refusals` is what they refused."""

    authority: Authority
    folder: Path
    peers: list[Peers] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)

    async def join(self, *, memory_bytes: int = 1 << 20, revoked: Sequence[int] = ()) -> Peers:
        peers = Peers(
            self.authority.issue(f"pi-{len(self.peers):02d}"),
            DeviceClock(),
            self.folder,
            lambda name, reason: self.refusals.append((name, reason)),
            memory_bytes=memory_bytes,
        )
        await peers.open("run", "127.0.0.1:50052", revoked)
        self.peers.append(peers)
        return peers

    def neighbour(self, device: int, weight: float = 0.25, address: str | None = None) -> Neighbour:
        known = self.peers[device].address if device < len(self.peers) else NOWHERE
        return Neighbour(device, f"pi-{device:02d}", known if address is None else address, weight)

    def announce(self, device: int, neighbours: Sequence[Neighbour], mbit_s: float = 0.0) -> Iteration:
        return self.peers[device].announce(7, neighbours, mbit_s)

    async def exchange(
        self,
        device: int,
        neighbours: Sequence[Neighbour],
        *,
        own_weight: float = 0.25,
        mbit_s: float = 0.0,
        limit_s: float = 20.0,
        after_s: float = 0.0,
    ) -> Mixed:
        await asyncio.sleep(after_s)
        iteration = self.announce(device, neighbours, mbit_s)
        return await self.peers[device].exchange(iteration, half_step(device), device, own_weight, limit_s)


@asynccontextmanager
async def devices(folder: Path, count: int) -> AsyncIterator[Devices]:
    found = Devices(Authority.create(), folder)
    try:
        for _ in range(count):
            await found.join()
        yield found
    finally:
        for peers in found.peers:
            await peers.close()


def mean(weights: dict[int, float]) -> Vector:
    """What the simulated fleet makes of it: ascending by device."""
    return weighted_mean(
        [model(device) for device in sorted(weights)], np.array([weights[d] for d in sorted(weights)])
    )


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
            bench.exchange(0, [bench.neighbour(1), bench.neighbour(2)], own_weight=0.5, limit_s=3.0),
            bench.exchange(1, [bench.neighbour(0), bench.neighbour(2)], own_weight=0.5, limit_s=3.0),
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
        async with asyncio.timeout(10):
            mixed = await bench.exchange(0, neighbours, own_weight=0.4, limit_s=600.0)
        gone, without, unknown = mixed.left_out
        assert [short.device for short in mixed.left_out] == [1, 2, 3]
        assert gone.reason.startswith("lost: ")
        assert without.reason == "refused: its half step failed"
        assert unknown.reason == "lost: it has no peer port"
        assert np.array_equal(mixed.model, model(0) * np.float32(0.4 + 0.2 + 0.3 + 0.1))


@pytest.mark.asyncio
async def test_a_neighbour_that_gave_its_model_and_never_comes_for_ours_costs_no_deadline(
    tmp_path: Path,
) -> None:
    """It died in between, or cannot reach us."""
    async with devices(tmp_path, 2) as bench:
        bench.announce(1, [bench.neighbour(0)]).offer.provide(half_step(1))
        bench.peers[0].grace_s = 0.2
        async with asyncio.timeout(10):
            mixed = await bench.exchange(0, [bench.neighbour(1)], own_weight=0.75, limit_s=600.0)
        assert mixed.left_out == ()
        assert [(missed.device, missed.moved_bytes) for missed in mixed.not_taken] == [(1, 0)]
        assert np.array_equal(mixed.model, mean({0: 0.75, 1: 0.25}))


@pytest.mark.asyncio
async def test_a_stranger_gets_nothing_and_neither_does_another_iterations_neighbour(tmp_path: Path) -> None:
    async with devices(tmp_path, 3) as bench:
        first = bench.announce(0, [bench.neighbour(1)])
        first.offer.provide(half_step(0))
        bench.announce(2, [bench.neighbour(0)])
        mixed = await bench.exchange(2, [bench.neighbour(0)], own_weight=0.75, limit_s=10.0)
        (short,) = mixed.left_out
        assert short.reason == "refused: pi-02 is no neighbour in step 7"
        assert bench.refusals == [("pi-02", "pi-02 is no neighbour in step 7")]
        assert first.offer.sent_bytes.total() == 0


@pytest.mark.asyncio
async def test_another_benchs_certificate_does_not_come_through_tls(tmp_path: Path) -> None:
    async with devices(tmp_path, 1) as bench, devices(tmp_path, 2) as others:
        address = bench.peers[0].address
        bench.announce(0, [Neighbour(1, "pi-01", "", 0.5)]).offer.provide(half_step(0))
        mixed = await others.exchange(1, [Neighbour(0, "pi-00", address, 0.5)], own_weight=0.5)
        assert mixed.left_out[0].reason.startswith("lost: ")
        assert mixed.received_bytes == 0


@pytest.mark.asyncio
async def test_a_neighbour_must_prove_the_name_that_the_order_gives_it(tmp_path: Path) -> None:
    async with devices(tmp_path, 3) as bench:
        bench.announce(2, [bench.neighbour(0)]).offer.provide(half_step(2))
        impostor = Neighbour(1, "pi-01", bench.peers[2].address, 0.5)
        mixed = await bench.exchange(0, [impostor], own_weight=0.5)
        assert mixed.left_out[0].reason.startswith("lost: ")
        assert np.array_equal(mixed.model, model(0))


@pytest.mark.asyncio
async def test_a_revoked_certificate_is_refused(tmp_path: Path) -> None:
    async with devices(tmp_path, 1) as bench:
        serial = serial_of(bench.peers[0].credential.certificate_pem)
        await bench.join(revoked=[serial])
        bench.announce(1, [bench.neighbour(0)]).offer.provide(half_step(1))
        mixed = await bench.exchange(0, [bench.neighbour(1)], own_weight=0.75)
        assert mixed.left_out[0].reason == "refused: the certificate of 'pi-00' is revoked"


@pytest.mark.asyncio
async def test_no_certificate_no_model(tmp_path: Path) -> None:
    async with devices(tmp_path, 1) as bench:
        bench.announce(0, [Neighbour(1, "pi-01", "", 0.5)]).offer.provide(half_step(0))
        anonymous = grpc.ssl_channel_credentials(bench.authority.certificate_pem)
        options = [("grpc.ssl_target_name_override", "pi-00")]
        async with grpc.aio.secure_channel(bench.peers[0].address, anonymous, options=options) as channel:
            request = wire.PullRequest(run_id="run", step=7).SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in channel.unary_stream(PULL)(request, timeout=5):
                    pass
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


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
        bench.peers[0].grace_s = 0.1
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


@pytest.mark.asyncio
async def test_what_is_sent_hears_the_radio_begin_and_end(tmp_path: Path) -> None:
    async with devices(tmp_path, 2) as bench:
        told: list[tuple[float, float]] = []
        iteration = bench.peers[0].announce(
            7, [bench.neighbour(1)], 1.0, lambda sending, coming: told.append((sending, coming))
        )
        other = asyncio.create_task(bench.exchange(1, [bench.neighbour(0)], own_weight=0.75, mbit_s=1.0))
        await bench.peers[0].exchange(iteration, half_step(0), 0, 0.75, 20.0)
        await other
        assert (1.0, 1.0) in told
        assert told[-1] == (0.0, 0.0)


@pytest.mark.asyncio
async def test_a_device_is_not_made_to_send_for_ever() -> None:
    offer = Offer("run", 1, ["pi-01"], RadioPace(DeviceClock(), 0.0))
    for _ in range(MOST_PULLS):
        with offer.sending_to("pi-01"):
            assert offer.sending
    with pytest.raises(Withheld, match="times already"), offer.sending_to("pi-01"):
        pass
    assert not offer.sending


@pytest.mark.asyncio
async def test_who_waits_for_an_iteration_waits_in_bounded_number() -> None:
    offers = Offers()
    waiting = [asyncio.create_task(offers.wanted("run", 1, "pi-01")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Withheld, match="waits already"):
        await offers.wanted("run", 1, "pi-01")
    offer = Offer("run", 1, ["pi-01"], RadioPace(DeviceClock(), 0.0))
    offers.announce(offer)
    assert await asyncio.gather(*waiting) == [offer, offer]
    assert await offers.wanted("run", 1, "pi-01") is offer


@pytest.mark.asyncio
async def test_nobody_waits_for_an_iteration_that_is_over() -> None:
    offers = Offers()
    passed_over = asyncio.create_task(offers.wanted("run", 1, "pi-01"))
    await asyncio.sleep(0)
    offers.announce(Offer("run", 2, ["pi-01"], RadioPace(DeviceClock(), 0.0)))
    for late in (passed_over, offers.wanted("run", 0, "pi-01")):
        with pytest.raises(Withheld, match="is over"):
            await asyncio.wait_for(late, 5.0)


@pytest.mark.asyncio
async def test_without_a_port_there_is_no_exchange(tmp_path: Path) -> None:
    bench = Devices(Authority.create(), tmp_path)
    peers = Peers(bench.authority.issue("pi-00"), DeviceClock(), tmp_path, lambda name, reason: None)
    with pytest.raises(LinkError, match="closed"):
        peers.announce(0, [], 0.0)
