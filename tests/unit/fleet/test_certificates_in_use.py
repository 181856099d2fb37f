"""Real certificates at both ports: whoever may not come in is told so, and so is the controller."""

import asyncio
import datetime as dt
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from agent_ports import Log
from hand_agent import MODEL, HandAgent, bench, connected, hand_agent, lines, live, train_order, until
from roambench.agent.session.identity_files import IdentityFiles
from roambench.contract.errors import IdentityError, LinkError
from roambench.contract.events import EventKind
from roambench.contract.model_digest import from_wire
from roambench.fleet.secure_port import SecurePort
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential
from roambench.provision.certificates import BenchAuthority
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import DOWNLOAD, DRAIN, MAX_CONTROL_MESSAGE_BYTES

pytestmark = pytest.mark.asyncio

A_SECOND = dt.timedelta(seconds=1)


# ---- who is kept out -------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["expired", "another authority", "two authorities"])
async def test_a_certificate_that_is_not_valid_here_is_refused_and_told_on_both_sides(what: str) -> None:
    async with bench() as where:
        stranger = Authority.create()
        theirs = {
            "expired": where.authority.issue("pi-01", lifetime=-A_SECOND),
        }.get(what, stranger.issue("pi-01"))
        ca = where.authority.certificate_pem
        if what == "two authorities":
            ca = ca + stranger.certificate_pem  # its own check finds nothing wrong: only the controller does
        credential = Credential(theirs.certificate_pem, theirs.key_pem, ca)
        async with hand_agent(where, credential=credential) as agent:
            said = {
                "expired": "the certificate of 'pi-01' expired 20",
                "another authority": "the certificate of 'pi-01' was not issued by this bench's authority",
            }.get(what, "does not take this agent's certificate (serial ")
            await until(lambda: any(said in line for line in agent.log))
            await until(lambda: lines(where, EventKind.CONNECTION_REFUSED))
            (told, *_) = lines(where, EventKind.CONNECTION_REFUSED)
            assert told.startswith("127.0.0.1: ")
            assert "ended without a certificate of this bench that is valid now" in told
            assert where.fleet.sessions.all() == []


async def test_a_caller_without_a_certificate_is_refused_and_told(tmp_path: Path) -> None:
    async with bench() as where:
        bare = grpc.ssl_channel_credentials(where.authority.certificate_pem)
        for port, method, name in (
            (where.fleet.control_port, DRAIN, "control"),
            (where.fleet.data_port, DOWNLOAD, "data"),
        ):
            options = [("grpc.ssl_target_name_override", CONTROLLER_NAME)]
            async with grpc.aio.secure_channel(f"127.0.0.1:{port}", bare, options=options) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await channel.unary_unary(method)(b"", timeout=300)
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            where.fleet._ports.handshakes._reported_s.clear()
            await until(
                lambda name=name: any(
                    f"the {name} port" in x for x in lines(where, EventKind.CONNECTION_REFUSED)
                )
            )


async def test_an_agent_without_certificate_files_says_which_is_missing(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match=r"cert\.pem: certificate cannot be read"):
        IdentityFiles(tmp_path, "pi-01", Log())
    Authority.create().issue("pi-02").save(tmp_path)
    with pytest.raises(IdentityError, match="the certificate is 'pi-02''s, this agent is 'pi-01'"):
        IdentityFiles(tmp_path, "pi-01", Log())
    (tmp_path / "key.pem").write_bytes(Authority.create().issue("pi-02").key_pem)
    with pytest.raises(IdentityError, match="private key does not belong to the certificate of 'pi-02'"):
        IdentityFiles(tmp_path, "pi-02", Log())


async def test_a_device_of_another_name_is_refused_and_told_on_both_sides() -> None:
    async with bench() as where, hand_agent(where, "pi-77") as agent:
        with pytest.raises(LinkError, match="device 'pi-77' is not part of this run"):
            await asyncio.wait_for(agent.task, 60)
        assert lines(where, EventKind.SESSION_REFUSED) == ["pi-77: device 'pi-77' is not part of this run"]


async def test_the_controllers_own_certificate_opens_no_session() -> None:
    async with bench() as where, hand_agent(where, CONTROLLER_NAME) as agent:
        with pytest.raises(LinkError, match="is not part of this run"):
            await asyncio.wait_for(agent.task, 60)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ("a device", "is not 'roambench-controller': its certificate has another name"),
        ("another bench", "has no certificate of this bench's authority"),
        ("expired", "has expired, or this board's clock is wrong"),
    ],
)
async def test_an_agent_speaks_to_no_server_but_its_own_controller(server: str, reason: str) -> None:
    ours = Authority.create()
    theirs = {
        "a device": ours.issue("pi-02"),
        "another bench": Authority.create().issue(CONTROLLER_NAME),
        "expired": ours.issue(CONTROLLER_NAME, lifetime=-A_SECOND),
    }[server]
    called: list[bytes] = []

    async def take(messages: object, context: object) -> bytes:
        called.append(b"")
        return b""

    handlers = grpc.method_handlers_generic_handler(
        "roambench.wire.v1.Control", {"Session": grpc.stream_unary_rpc_method_handler(take)}
    )
    trusting = Credential(theirs.certificate_pem, theirs.key_pem, ours.certificate_pem)
    false = SecurePort(
        trusting,
        "127.0.0.1:0",
        MAX_CONTROL_MESSAGE_BYTES,
        handlers,
        handshake=lambda: None,
        on_replaced=print,
    )
    await false.start()
    async with bench() as where:
        where.fleet.control_port = false.port
        async with hand_agent(where, credential=ours.issue("pi-01")) as agent:
            await until(lambda: any(reason in line for line in agent.log))
    assert not called
    await false.stop(0)


# ---- believed no more, in the middle of it -----------------------------------------------------


async def test_a_serial_revoked_in_mid_run_ends_the_session_and_everything_that_moves(tmp_path: Path) -> None:
    async def endless(agent: HandAgent, order: wire.Order) -> None:
        if not order.HasField("train"):  # one that dials anew is told what it does in the background
            return
        try:
            digest = from_wire(order.train.start_digest)
            await agent.data.download(order.order_id, 3, digest, 20.0, Radio())
        except LinkError as error:
            broken.append(str(error))

    class Radio:
        def begin(self, first_byte_ns: int, total_bytes: int) -> None:
            moving.append(total_bytes)

    moving: list[int] = []
    broken: list[str] = []
    authority = BenchAuthority(tmp_path)
    async with bench(identity=live(tmp_path), deadline_s=20.0) as where:
        lost, kept = authority.issue("pi-01"), authority.issue("pi-02")
        async with (
            hand_agent(where, "pi-01", credential=lost, on_order=endless) as first,
            hand_agent(where, "pi-02", credential=kept) as second,
        ):
            await connected(where, 2)
            digest = where.fleet.publish(MODEL)
            order = train_order(digest)
            slow = replace(order, start_digest=digest, download_mbit_s=0.5)
            working = asyncio.create_task(where.fleet.perform([slow]))
            await until(lambda: moving)
            assert authority.revoke_name("pi-01", "board lost") != []
            reason = "the certificate of 'pi-01' is revoked (serial"
            await until(lambda: broken and any(reason in line for line in first.log))
            assert "the certificate of 'pi-01' is revoked (serial" in broken[0]
            assert [session.name for session in where.fleet.sessions.all()] == ["pi-02"]
            (told,) = lines(where, EventKind.IDENTITY_REFUSED)  # however often it redials
            assert told.startswith("pi-01: the certificate of 'pi-01' is revoked")
            fresh = authority.issue("pi-01")
            async with hand_agent(where, "pi-01", credential=fresh):
                await connected(where, 2)  # a new certificate brings it back, without a restart of anything
            assert second.log == []
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def test_a_certificate_that_expires_in_mid_run_ends_its_session_by_name() -> None:
    async with bench() as where:
        short = where.authority.issue("pi-01", lifetime=dt.timedelta(seconds=6))
        async with hand_agent(where, credential=short) as agent:
            await connected(where)
            await until(lambda: any("the certificate of 'pi-01' expired 20" in line for line in agent.log))
            (told, *_) = lines(where, EventKind.IDENTITY_REFUSED)
            assert told.startswith("pi-01: the certificate of 'pi-01' expired 20")


async def test_while_the_revocation_list_cannot_be_read_nobody_new_comes_in(tmp_path: Path) -> None:
    authority = BenchAuthority(tmp_path)
    async with (
        bench(identity=live(tmp_path)) as where,
        hand_agent(where, "pi-01", credential=authority.issue("pi-01")),
    ):
        await connected(where)
        (tmp_path / "revoked.txt").write_text("oops\n")
        async with hand_agent(where, "pi-02", credential=authority.issue("pi-02")) as second:
            # A refusal whose words are lost when the connection ends first comes again with the next dial.
            reason = "revoked.txt:1: expected a hexadecimal serial, got 'oops'"
            await until(lambda: any(reason in line for line in second.log))
            assert [session.name for session in where.fleet.sessions.all()] == ["pi-01"]
            (tmp_path / "revoked.txt").write_text("# mended\n")
            await connected(where, 2)
