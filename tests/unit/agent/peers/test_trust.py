"""Nobody but the neighbours that an order names gets a model or gives one, and all show certificates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from peer_devices import devices, half_step, model
from roambench.agent.peers import link as peer_link
from roambench.agent.peers.iteration import Neighbour
from roambench.agent.peers.link import PeerLink, UnansweredCalls
from roambench.agent.peers.offers import OfferState, WantedHalfStep
from roambench.identity.authority import Authority, serial_of
from roambench.wire.v1 import peer_pb2 as wire
from roambench.wire.v1.methods import ASK, PEER_SERVICE, PULL


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
async def test_how_it_stands_with_a_model_is_told_to_its_owner_alone(tmp_path: Path) -> None:
    async with devices(tmp_path, 3) as bench:
        offer = bench.announce(0, [bench.neighbour(1)]).offer
        offer.here.add("pi-01")
        for caller, step, stands in (
            (1, 7, OfferState.HERE),
            (1, 6, OfferState.NEVER),
            (1, 8, OfferState.COMING),
            (2, 7, OfferState.NEVER),
        ):
            link = bench.peers[caller]._link
            assert link is not None
            wanted = WantedHalfStep("run", step)
            assert await link.ask("pi-00", bench.peers[0].address, wanted, UnansweredCalls()) == stands


@pytest.mark.asyncio
async def test_a_neighbour_that_is_slow_to_say_how_it_stands_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its connection stands all the while: it is not gone, however often it is too late, nor where gRPC
    itself ends a call."""
    broken = -1
    standing: int | None = None

    async def answer(messages: Any, context: Any) -> AsyncIterator[bytes]:
        async for _ in messages:  # to the end, else the call may end while the other end still writes
            pass
        if standing is None:
            await asyncio.Event().wait()
        if standing == broken:
            await context.abort(grpc.StatusCode.INTERNAL, "Internal error from Core")
        yield wire.Standing(kind=standing).SerializeToString()

    authority = Authority.create()
    ours, theirs = authority.issue("pi-00"), authority.issue("pi-01")
    server = grpc.aio.server()
    port = server.add_secure_port(
        "127.0.0.1:0",
        grpc.ssl_server_credentials([(theirs.key_pem, theirs.certificate_pem)], theirs.authority_pem, True),
    )
    asked = {"Ask": grpc.stream_stream_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PEER_SERVICE, asked),))
    await server.start()
    link, silence = PeerLink(ours), UnansweredCalls()
    try:
        monkeypatch.setattr(peer_link, "_PATIENCE_S", 0.1)
        found = []
        for standing in (wire.Standing.COMING, broken, None, None, None, None, wire.Standing.HERE):
            monkeypatch.setattr(peer_link, "_ASK_S", 0.4 if standing is None else 60.0)
            found.append(await link.ask("pi-01", f"127.0.0.1:{port}", WantedHalfStep("run", 7), silence))
    finally:
        await link.close()
        await server.stop(None)
    assert found == [OfferState.COMING, None, None, None, None, None, OfferState.HERE]


@pytest.mark.asyncio
@pytest.mark.parametrize("method", [PULL, ASK])
async def test_no_certificate_no_model(tmp_path: Path, method: str) -> None:
    async with devices(tmp_path, 1) as bench:
        bench.announce(0, [Neighbour(1, "pi-01", "", 0.5)]).offer.provide(half_step(0))
        anonymous = grpc.ssl_channel_credentials(bench.authority.certificate_pem)
        options = [("grpc.ssl_target_name_override", "pi-00")]
        async with grpc.aio.secure_channel(bench.peers[0].address, anonymous, options=options) as channel:
            request = wire.PullRequest(run_id="run", step=7).SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for _ in channel.unary_stream(method)(request, timeout=30):
                    pass
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
