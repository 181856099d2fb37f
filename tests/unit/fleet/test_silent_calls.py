"""Whoever opens calls and sends no request costs nobody else a call, be its certificate good or revoked."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import grpc.aio
import pytest

from hand_agent import (
    LAYOUT,
    MODEL,
    REPORT,
    HandAgent,
    bench,
    connected,
    done,
    hand_agent,
    lines,
    train_order,
    until,
)
from peer_devices import devices
from roambench.agent.peers.link import PeerLink, UnansweredCalls
from roambench.agent.peers.offers import OfferState, WantedHalfStep
from roambench.agent.session.control_link import secure_channel
from roambench.agent.session.dial_trouble import _context, dial_trouble
from roambench.contract.events import EventKind
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of, from_wire, to_wire
from roambench.contract.orders import AnswerStatus, UploadOrder
from roambench.contract.records import Reading, RecordKind
from roambench.fleet.guard import FleetIdentity
from roambench.fleet.limits import AgentLimits
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential, serial_of
from roambench.spool.consumer import Record
from roambench.spool.drain import Drain
from roambench.spool.spool import CONTROLLER, Spool
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import (
    ASK,
    DOWNLOAD,
    DRAIN,
    HOLD,
    MAX_CONTROL_MESSAGE_BYTES,
    PULL,
    SESSION,
    UPLOAD,
)
from soaking import rubbish
from soaking.silent_calls import SilentCalls, silent_calls

pytestmark = pytest.mark.asyncio

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
BLOB = encode(MODEL + 1, LAYOUT)


class Attackers:
    """pi-02 of the run, whose certificate is good, and pi-03, whose certificate is revoked."""

    def __init__(self) -> None:
        self.revoked: Credential | None = None

    def identity(self, authority: Authority) -> FleetIdentity:
        self.revoked = authority.issue("pi-03")
        return FleetIdentity.fixed(
            authority.issue(CONTROLLER_NAME), [serial_of(self.revoked.certificate_pem)]
        )


async def serve(agent: HandAgent, order: wire.Order) -> None:
    if order.HasField("train"):
        await agent.data.download(order.order_id, 3, from_wire(order.train.start_digest), 10.0)
        agent.link.send(done(order, train=REPORT))
    elif order.HasField("upload"):
        train_order_id, ap = order.upload.train_order_id, order.upload.ap
        await agent.data.upload(order.order_id, train_order_id, ap, BLOB, digest_of(BLOB), 0.0, 10.0)
        report = wire.UploadReport(model_digest=to_wire(digest_of(BLOB)))
        agent.link.send(done(order, upload=report))


async def test_calls_without_a_request_cost_no_honest_call_at_the_controllers_ports(tmp_path: Path) -> None:
    attackers, spool = Attackers(), Spool(tmp_path / "spool.sqlite")
    attacks: list[SilentCalls] = []
    async with bench(deadline_s=15.0, identity=attackers.identity) as where, AsyncExitStack() as stack:
        assert attackers.revoked is not None
        for credential in (where.authority.issue("pi-02"), attackers.revoked):
            for port, methods in (
                (where.fleet.control_port, (DRAIN, SESSION, DRAIN)),
                (where.fleet.data_port, (DOWNLOAD, UPLOAD, HOLD)),
            ):
                attack = silent_calls(
                    f"127.0.0.1:{port}", credential, methods, CONTROLLER_NAME, connections=8
                )
                attacks.append(await stack.enter_async_context(attack))
        await until(lambda: all(attack.opened >= 128 for attack in attacks))
        agent = await stack.enter_async_context(hand_agent(where, on_order=serve))
        await connected(where)
        await until(lambda: agent.link.is_open)

        async def send(records: list[Record]) -> int:
            return await agent.link.drain(spool.uuid_of(records[0][0]), records)

        drain = Drain(spool.consumers[CONTROLLER], send, trouble=print)
        for number in range(1, 4):
            for ns in range(40):
                spool.append(RecordKind.READING, Reading(ns, 5.0, 0.5, 2.5).to_bytes())
            assert await drain.flush(10.0)
            train = train_order(where.fleet.publish(MODEL), number)
            upload = UploadOrder(f"run/{number}/0/upload", 0, number, 4, train.order_id)
            answers = [*await where.fleet.perform([train]), *await where.fleet.perform([upload])]
            assert [(answer.status, answer.reason) for answer in answers] == [(AnswerStatus.DONE, "")] * 2
        assert drain.last_error == ""
        # Who may not come in is told so at once, by name; who may has its own places, and no other.
        valid, revoked = attacks[:2], attacks[2:]
        assert all(attack.refused.keys() == {UNAUTHENTICATED} for attack in revoked)
        assert all(UNAUTHENTICATED not in attack.refused for attack in valid)
    assert (spool.depth, spool.dead) == (0, 0)
    assert [seq for _, seq, _, _ in where.stored] == list(range(1, 121))
    spool.close()


async def test_a_call_without_its_request_ends_by_name(tmp_path: Path) -> None:
    """Each certificate has its own places, and not for ever."""
    limits = AgentLimits(request_s=0.3, calls_at_once=2)
    async with bench(limits=limits) as where:
        credential = where.authority.issue("pi-02")
        for port, method, kind in (
            (where.fleet.control_port, DRAIN, EventKind.DRAIN_REFUSED),
            (where.fleet.data_port, DOWNLOAD, EventKind.DOWNLOAD_REFUSED),
            (where.fleet.data_port, UPLOAD, EventKind.UPLOAD_BROKE_OFF),
        ):
            attack = silent_calls(f"127.0.0.1:{port}", credential, [method], CONTROLLER_NAME, 1, 4)
            async with attack as told:
                await until(lambda told=told: sum(told.refused.values()) >= 4)
            assert (1, "pi-02", kind, "no request within 0.3 s") in where.seen
        many = "'pi-02' has 2 calls of Drain open already"
        assert (1, "pi-02", EventKind.CALL_REFUSED, many) in where.seen


async def test_half_a_request_holds_neither_a_place_nor_memory() -> None:
    """4 MB may be announced; of who may not come in they are not awaited, of who may not for long."""
    attackers = Attackers()
    call = rubbish.frame(1, 4, 1, rubbish.headers(DRAIN))
    half = rubbish.frame(0, 0, 1, b"\0" + (4_000_000).to_bytes(4, "big") + bytes(10_000))
    async with bench(limits=AgentLimits(request_s=0.3), identity=attackers.identity) as where:
        assert attackers.revoked is not None
        for credential in (attackers.revoked, where.authority.issue("pi-02")):
            _, writer = await asyncio.open_connection(
                "127.0.0.1",
                where.fleet.control_port,
                ssl=_context(credential),
                server_hostname=CONTROLLER_NAME,
            )
            writer.write(rubbish.PREFACE + rubbish.frame(4, 0, 0, b"") + call + half)
            await writer.drain()
            told = EventKind.IDENTITY_REFUSED if credential is attackers.revoked else EventKind.DRAIN_REFUSED
            await until(lambda told=told: lines(where, told))
            writer.transport.abort()
        assert "is revoked" in lines(where, EventKind.IDENTITY_REFUSED)[0]
        assert lines(where, EventKind.DRAIN_REFUSED) == ["pi-02: no request within 0.3 s"]


@pytest.mark.parametrize("kind", ["valid", "revoked"])
async def test_calls_without_a_request_cost_no_neighbour_its_model(tmp_path: Path, kind: str) -> None:
    async with devices(tmp_path, 1) as bench:
        credential = bench.peers[0].credential
        revoked = [serial_of(credential.certificate_pem)] if kind == "revoked" else []
        first, second = await bench.join(revoked=revoked), await bench.join(revoked=revoked)
        async with (
            silent_calls(first.address, credential, [PULL, ASK], "pi-01", 17) as one,
            silent_calls(second.address, credential, [PULL, ASK], "pi-02", 17) as other,
        ):
            await until(lambda: min(one.opened, other.opened) >= 272)
            mixed = await asyncio.gather(
                bench.exchange(1, [bench.neighbour(2)]), bench.exchange(2, [bench.neighbour(1)])
            )
            assert [found.left_out for found in mixed] == [(), ()]
            assert [found.not_taken for found in mixed] == [(), ()]
            link = PeerLink(second.credential)
            request = WantedHalfStep("run", 7)
            standing = await link.ask("pi-01", first.address, request, UnansweredCalls())
            await link.close()
            assert standing == OfferState.HERE


async def test_idle_connections_end_and_a_full_port_is_called_full() -> None:
    """Connections of a revoked certificate: they end, an agent comes in; meanwhile nobody blames its
    certificate, and the controller says whose connections they are."""
    attackers, limits = Attackers(), AgentLimits(port_connections=8, idle_s=8.0)
    async with bench(limits=limits, identity=attackers.identity) as where, AsyncExitStack() as stack:
        assert attackers.revoked is not None
        address = f"127.0.0.1:{where.fleet.control_port}"
        await stack.enter_async_context(silent_calls(address, attackers.revoked, [], CONTROLLER_NAME, 12, 0))
        assert "its port is full" in await dial_trouble(address, where.authority.issue("pi-01"))
        full = "127.0.0.1: the control port is full: it has 12 connections, 12 of them from here; others"
        await until(
            lambda: any(line.startswith(full) for line in lines(where, EventKind.CONNECTION_REFUSED)), 30.0
        )
        async with hand_agent(where) as agent:
            await until(lambda: agent.link.is_open, 30.0)
        assert not any("does not take this agent's certificate" in line for line in agent.log)


async def test_an_agents_idle_connection_stays(tmp_path: Path) -> None:
    """It is held by a call that moves nothing: the first transfer finds it open."""
    async with bench(limits=AgentLimits(idle_s=0.5)) as where:
        credential = where.authority.issue("pi-01")
        async with secure_channel(
            f"127.0.0.1:{where.fleet.data_port}", credential, MAX_CONTROL_MESSAGE_BYTES
        ) as channel:
            held = channel.unary_unary(HOLD)(b"", wait_for_ready=True)
            await channel.channel_ready()
            changed = asyncio.ensure_future(channel.wait_for_state_change(grpc.ChannelConnectivity.READY))
            await asyncio.wait({changed}, timeout=2.0)
            assert not changed.done()
            changed.cancel()
            held.cancel()
