"""Who may open a session: certificates, names, versions, and one machine per identity."""

import asyncio
import datetime as dt
import os
import socket
from typing import Any

import grpc
import grpc.aio
import pytest

from agent_ports import Log, Party
from hand_agent import (
    LAYOUT,
    SPEC,
    bench,
    connected,
    hand_agent,
    lines,
    redialled,
    until,
)
from roambench.agent.session.control_link import ControlLink, secure_channel
from roambench.contract.addresses import host_port
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError, LinkError
from roambench.contract.events import EventKind
from roambench.contract.records import RecordKind
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.sessions import Lives
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential, serial_of
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES, PROTOCOL_VERSION

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 99}, "speaks protocol version 99"),
        ({"claims": "pi-02"}, "its certificate says 'pi-01'"),
        ({"name": "pi-77"}, "not part of this run"),
    ],
)
async def test_a_wrong_hello_is_refused_for_good_with_what_to_do(
    changes: dict[str, Any], reason: str
) -> None:
    async with bench() as where, hand_agent(where, **changes) as agent:
        with pytest.raises(LinkError, match=reason):
            await asyncio.wait_for(agent.task, 60)


async def test_strangers_and_expired_certificates_open_no_session() -> None:
    async with bench() as where:
        stranger = Authority.create().issue("pi-01")
        expired = where.authority.issue("pi-01", lifetime=dt.timedelta(seconds=-1))
        for credential in (stranger, expired):
            mixed = Credential(
                credential.certificate_pem, credential.key_pem, where.authority.certificate_pem
            )
            async with hand_agent(where, credential=mixed):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.7):
                        await where.fleet.sessions.wait_for_count(1)


async def test_a_revoked_serial_is_refused_by_name() -> None:
    authority = Authority.create()
    revoked = authority.issue("pi-01")
    seen = Log()
    fleet = GrpcFleet(
        FleetSettings("run", ("pi-01",), (SPEC,), LAYOUT, 5.0),
        authority.issue(CONTROLLER_NAME),
        DeviceClock(),
        lambda name, uuid, records: 0,
        lambda *event: None,
        lambda record: None,
        [serial_of(revoked.certificate_pem)],
    )
    await fleet.start()
    link = ControlLink(
        f"127.0.0.1:{fleet.control_port}",
        revoked,
        "pi-01",
        seen,
    )
    hello = wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-01")
    task = asyncio.create_task(link.run(Party(lambda: hello)))
    try:
        async with asyncio.timeout(20):  # gRPC itself may end the first attempt, before the reason has come
            while not any("'pi-01' is revoked" in line for line in seen):
                await asyncio.sleep(0.02)
    finally:
        link.hang_up("test")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await fleet.stop("over", drain_s=0.1)


async def test_two_machines_with_one_identity_are_both_named_and_refused() -> None:
    async with bench() as where, hand_agent(where, machine="machine-A") as first:
        await connected(where)
        async with hand_agent(where, machine="machine-B") as second:
            for agent in (first, second):
                with pytest.raises(LinkError, match=r"machine-A and from machine-B.*cloned SD card"):
                    await asyncio.wait_for(agent.task, 60)


async def test_of_a_byte_copied_card_the_second_machine_is_refused_and_the_first_goes_on() -> None:
    """Name, certificate and machine id are equal; they ended each other's sessions for ever."""
    async with bench() as where, hand_agent(where, boot="aaaaaaaa-1") as first:
        await until(lambda: first.link.is_open)
        async with hand_agent(where, boot="bbbbbbbb-2") as second:
            with pytest.raises(LinkError, match="two machines at once"):
                await asyncio.wait_for(second.task, 20)
            await until(lambda: first.link.is_open)
            with pytest.raises(LinkError, match="no session"):
                await second.link.drain("spool-2", [(1, RecordKind.EVENT, b"b")])
            assert await first.link.drain("spool-1", [(1, RecordKind.EVENT, b"a")]) == 1
            assert not first.task.done()
        (told,) = lines(where, EventKind.SESSION_REFUSED)
        assert told.startswith("pi-01: device 'pi-01' dials from two machines at once")
        assert "booted as aaaaaaaa, the other as bbbbbbbb, which is refused: a copied SD card?" in told
        # It is not believed later, either; a new boot of the first is.
        async with hand_agent(where, boot="bbbbbbbb-2") as again:
            with pytest.raises(LinkError, match="two machines at once"):
                await asyncio.wait_for(again.task, 20)
    async with bench() as where:
        for boot in ("aaaaaaaa-1", "cccccccc-3", "dddddddd-4"):  # a board that reboots, and redials
            async with hand_agent(where, boot=boot) as board:
                await redialled(where, board)
        assert lines(where, EventKind.SESSION_REFUSED) == []


@pytest.mark.parametrize(
    ("hellos", "refused"),
    [
        ("ABABA", "B"),
        ("AAABBAABBA", "B"),
        ("ABBBB", ""),
        ("ABABBBB", ""),  # one hello from before the reboot came late
        ("ABCDEFG", ""),
        ("ABCACA", "C"),
    ],
)
async def test_a_life_that_comes_back_twice_had_not_ended(hellos: str, refused: str) -> None:
    lives, found = Lives(), ""
    for life in hellos:
        other = lives.lived_on((life, 1))
        found += other[0] if other is not None else ""
    assert found == refused


async def test_drained_records_are_stored_only_under_the_certificates_own_name() -> None:
    async with bench() as where, hand_agent(where) as agent:
        await connected(where)
        async with asyncio.timeout(60):
            while EventKind.CLOCK_OFFSET not in where.kinds():
                await asyncio.sleep(0.01)
        through = await agent.link.drain(
            "spool-1", [(4, RecordKind.EVENT, b"a"), (5, RecordKind.EVENT, b"b")]
        )
        assert through == 5
        assert where.stored == [("pi-01", 4, 3, b"a"), ("pi-01", 5, 3, b"b")]
        channel = secure_channel(
            f"127.0.0.1:{where.fleet.control_port}", agent.credential, MAX_DATA_MESSAGE_BYTES
        )
        call = channel.unary_unary("/roambench.wire.v1.Control/Drain")
        forged = wire.DrainRequest(device="pi-02", records=[wire.Record(seq=1)]).SerializeToString()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(forged)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await channel.close()
        assert len(where.stored) == 2


async def test_a_taken_port_is_an_error_that_says_what_to_do() -> None:
    async with bench() as where:
        settings = FleetSettings(
            "run", ("pi-01",), (SPEC,), LAYOUT, 5.0, control_port=where.fleet.control_port
        )
        with pytest.raises(
            FleetError, match=rf"127\.0\.0\.1:\d+: \S+ \(pid {os.getpid()}\) has the port \(listening\)"
        ):
            GrpcFleet(
                settings,
                where.authority.issue(CONTROLLER_NAME),
                DeviceClock(),
                lambda name, uuid, records: 0,
                lambda *event: None,
                clock_observer=lambda record: None,
            )


async def test_a_port_that_a_client_has_for_its_connection_is_named_with_its_program() -> None:
    authority = Authority.create()
    with (
        socket.create_server(("127.0.0.1", 0)) as elsewhere,
        socket.create_connection(elsewhere.getsockname()) as client,
    ):
        settings = FleetSettings(
            "run", ("pi-01",), (SPEC,), LAYOUT, 5.0, control_port=client.getsockname()[1]
        )
        there = host_port(*elsewhere.getsockname())
        with pytest.raises(
            FleetError, match=rf"\(pid {os.getpid()}\) has the port \(a connection to {there}\)"
        ):
            GrpcFleet(
                settings,
                authority.issue(CONTROLLER_NAME),
                DeviceClock(),
                lambda name, uuid, records: 0,
                lambda *event: None,
                clock_observer=lambda record: None,
            )
