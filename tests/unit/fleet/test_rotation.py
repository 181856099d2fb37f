"""Certificates, and the authority itself, change on both sides while a run goes on."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_ports import Log
from hand_agent import (
    MODEL,
    REPORT,
    HandAgent,
    bench,
    connected,
    done,
    hand_agent,
    lines,
    live,
    redialled,
    train_order,
    until,
)
from roambench.agent.session.identity_files import IdentityFiles
from roambench.contract.events import EventKind
from roambench.contract.model_digest import from_wire
from roambench.contract.orders import AnswerStatus
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential
from roambench.provision.certificates import BenchAuthority
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio


@dataclass
class Board:
    """An agent's identity folder, which somebody replaces while the agent runs."""

    folder: Path
    log: Log = field(default_factory=Log)

    @classmethod
    def given(cls, folder: Path, credential: Credential) -> "Board":
        credential.save(folder)
        return cls(folder)

    def files(self, name: str) -> IdentityFiles:
        return IdentityFiles(self.folder, name, self.log)


async def serial_seen_by(address: str, credential: Credential) -> int:
    """The serial of the certificate that a server shows in a handshake of its own."""
    import ssl

    from cryptography import x509

    from roambench.agent.session.dial_trouble import _context

    host, _, port = address.partition(":")
    _, writer = await asyncio.open_connection(
        host, int(port), ssl=_context(credential), server_hostname=CONTROLLER_NAME
    )
    tls = writer.get_extra_info("ssl_object")
    assert isinstance(tls, ssl.SSLObject)
    der = tls.getpeercert(binary_form=True)
    assert der is not None
    writer.transport.abort()
    return x509.load_der_x509_certificate(der).serial_number


async def test_both_sides_rotate_and_no_session_ends(tmp_path: Path) -> None:
    authority = BenchAuthority(tmp_path / "bench")
    board = Board.given(tmp_path / "pi-01", authority.issue("pi-01"))
    files = board.files("pi-01")
    async with bench(identity=live(tmp_path / "bench")) as where:
        address = f"127.0.0.1:{where.fleet.control_port}"
        async with hand_agent(where, credential=files) as agent:
            await connected(where)
            before = await serial_seen_by(address, files.current)
            authority.issue("pi-01").save(board.folder)
            authority._renew_controller()
            assert await serial_seen_by(address, files.current) != before
            renewed = files.credential()
            assert renewed is not agent.credential
            (idle,) = where.fleet.sessions.all()
            assert idle.hello.device == "pi-01"
            await redialled(where, agent)  # as after any loss of the line: now the new one is shown
            assert agent.log == []
            assert lines(where, EventKind.SESSION_LOST) == []


async def test_one_authority_follows_another_without_a_session_that_ends(tmp_path: Path) -> None:
    """Agent by agent, while the run goes on; at the end the old authority opens nothing any more."""
    authority = BenchAuthority(tmp_path / "bench")
    old = {name: authority.issue(name) for name in ("pi-01", "pi-02")}
    boards = {name: Board.given(tmp_path / name, credential) for name, credential in old.items()}
    first, second = boards["pi-01"].files("pi-01"), boards["pi-02"].files("pi-02")
    async with bench(identity=live(tmp_path / "bench")) as where:
        async with (
            hand_agent(where, "pi-01", credential=first) as one,
            hand_agent(where, "pi-02", credential=second) as two,
        ):
            await connected(where, 2)
            authority.begin_next()
            authority.issue("pi-01").save(boards["pi-01"].folder)
            await redialled(where, one, two)  # with the new one and with the old: both are let in
            authority.issue("pi-02").save(boards["pi-02"].folder)
            await redialled(where, two)
            authority.finish_next(["pi-01", "pi-02"])
            await asyncio.sleep(2.5)  # the guard has looked again: nobody is thrown out
            await redialled(where, one, two)
            assert one.log == two.log == []
        async with hand_agent(where, "pi-01", credential=old["pi-01"]) as left_behind:
            reason = "has no certificate of this bench's authority"
            await until(lambda: any(reason in line for line in left_behind.log))


async def test_an_authority_that_is_trusted_no_more_ends_the_sessions_it_opened(tmp_path: Path) -> None:
    authority = BenchAuthority(tmp_path)
    async with (
        bench(identity=live(tmp_path)) as where,
        hand_agent(where, credential=authority.issue("pi-01")) as agent,
    ):
        await connected(where)
        await asyncio.sleep(1.2)
        authority.begin_next()
        authority.finish_next(["pi-01"], force=True)
        reason = "'pi-01' was not issued by this bench's authority"
        await until(lambda: any(reason in line for line in agent.log))
        assert any("was not issued by" in told for told in lines(where, EventKind.IDENTITY_REFUSED))


async def test_a_half_replaced_folder_is_not_used_and_told_once(tmp_path: Path) -> None:
    authority = Authority.create()
    board = Board.given(tmp_path, authority.issue("pi-01"))
    files = board.files("pi-01")
    before = files.current
    following = authority.issue("pi-01")
    (tmp_path / "key.pem").write_bytes(following.key_pem)
    for _ in range(3):
        assert files.credential() is before
    (told,) = board.log
    assert "new certificate not used: the private key does not belong to the certificate of 'pi-01'" in told
    (tmp_path / "cert.pem").write_bytes(following.certificate_pem)
    assert files.credential().certificate_pem == following.certificate_pem


async def test_an_order_goes_on_while_its_agent_gets_another_certificate(tmp_path: Path) -> None:
    authority = BenchAuthority(tmp_path)

    async def serve(agent: HandAgent, order: wire.Order) -> None:
        authority.issue("pi-01")
        authority._renew_controller()
        await agent.data.download(order.order_id, 3, from_wire(order.train.start_digest), 5.0)
        agent.link.send(done(order, train=REPORT))

    async with (
        bench(identity=live(tmp_path)) as where,
        hand_agent(where, credential=authority.issue("pi-01"), on_order=serve),
    ):
        await connected(where)
        digest = where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([train_order(digest)])
        assert answer.status is AnswerStatus.DONE
