"""Whoever may not come in is told why, and so is the controller: a real controller, real certificates."""

import asyncio
import datetime as dt
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
import pytest

from agent_ports import Log, Party
from hand_agent import until
from roambench.agent.session.control_link import ControlLink
from roambench.agent.session.identity_files import IdentityFiles
from roambench.contract.errors import IdentityError, LinkError
from roambench.contract.events import EventKind
from roambench.identity.authority import CONTROLLER_NAME, Authority, Credential
from roambench.provision.certificates import BenchAuthority
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import DOWNLOAD, DRAIN, PROTOCOL_VERSION
from soaking import rubbish

pytestmark = pytest.mark.asyncio

BEFORE = (
    "a connection from the address of pi-01 to the {} port "
    "ended without a certificate of this bench that is valid now "
)
PATIENCE_S = 30.0  # of a machine that does much else besides
AFTER = ": see that agent's log and `roambench fleet certs show`"


@dataclass
class Controller:
    authority: BenchAuthority
    events: list[list[str]] = field(default_factory=list)
    control_port: int = 0
    data_port: int = 0

    def lines(self, kind: str) -> list[tuple[str, str]]:
        return [(name, detail) for seen, name, detail in self.events if seen == kind]


@asynccontextmanager
async def controller(folder: Path) -> AsyncIterator[Controller]:
    """Its events as they come. Nothing but what Python says may be on its standard error."""
    where = Controller(BenchAuthority(folder))
    where.authority.fleet_identity().credential()  # the authority exists before the controller looks
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        Path(__file__).parents[1] / "support" / "printing_controller.py",
        folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("GRPC_")},
    )

    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    printed = process.stdout

    async def read() -> None:
        while line := await printed.readline():
            where.events.append(json.loads(line))

    reading = asyncio.create_task(read())
    try:
        await until(lambda: where.events or process.returncode is not None, PATIENCE_S)
        assert where.events, (await process.communicate())[1].decode()
        _, where.control_port, where.data_port = where.events.pop(0)  # type: ignore[assignment]
        yield where
        process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            errors = await process.stderr.read()
            await process.wait()
        assert errors == b"what Python says goes its usual way\n"
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await reading


@dataclass
class Dialling:
    link: ControlLink
    task: asyncio.Task[None]
    log: list[str]


@asynccontextmanager
async def agent(where: Controller, credential: Credential, name: str = "pi-01") -> AsyncIterator[Dialling]:
    log = Log()
    link = ControlLink(
        f"127.0.0.1:{where.control_port}",
        credential,
        name,
        log,
    )
    hello = wire.Hello(protocol_version=PROTOCOL_VERSION, device=name, machine_id="m")
    task = asyncio.create_task(link.run(Party(lambda: hello)))
    try:
        yield Dialling(link, task, log)
    finally:
        link.hang_up("test")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def trusting(theirs: Credential, authority_pem: bytes) -> Credential:
    return Credential(theirs.certificate_pem, theirs.key_pem, authority_pem)


def expired(bench: BenchAuthority) -> Credential:
    return bench.issue("pi-01", lifetime=-dt.timedelta(seconds=1))


def of_another_authority(bench: BenchAuthority) -> Credential:
    """It trusts our controller, and finds nothing wrong with itself: only the controller does."""
    stranger = Authority.create()
    ours = bench.issue("pi-01").authority_pem
    return trusting(stranger.issue("pi-01"), ours + stranger.certificate_pem)


def of_another_bench(bench: BenchAuthority) -> Credential:
    return Authority.create().issue("pi-01")


@pytest.mark.parametrize(
    ("made", "at_the_agent", "at_the_controller"),
    [
        (expired, "the certificate of 'pi-01' expired 20", "(its certificate has expired)"),
        (
            of_another_authority,
            "does not take this agent's certificate (serial ",
            "(its certificate is of another authority)",
        ),
        (
            of_another_bench,
            "has no certificate of this bench's authority",
            "(it broke off, as a client does that does not trust the controller)",
        ),
    ],
)
async def test_a_certificate_that_is_not_valid_here_is_told_with_its_reason_on_both_sides(
    tmp_path: Path,
    made: Callable[[BenchAuthority], Credential],
    at_the_agent: str,
    at_the_controller: str,
) -> None:
    async with controller(tmp_path) as where, agent(where, made(where.authority)) as refused:
        # gRPC itself may end the first attempt, without a reason.
        await until(lambda: any(at_the_agent in line for line in refused.log), PATIENCE_S)
        await until(lambda: where.lines(EventKind.CONNECTION_REFUSED), PATIENCE_S)
        assert where.lines(EventKind.CONNECTION_REFUSED)[0] == (
            "127.0.0.1",
            BEFORE.format("control") + at_the_controller + AFTER,
        )
        assert where.lines(EventKind.SESSION_OPENED) == []


async def test_a_missing_certificate_is_told_on_both_sides_and_at_both_ports(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match=r"cert\.pem: certificate cannot be read"):
        IdentityFiles(tmp_path / "none", "pi-01", Log())  # an agent does not even dial
    async with controller(tmp_path) as where:
        bare = grpc.ssl_channel_credentials(where.authority.issue("pi-01").authority_pem)
        options = [("grpc.ssl_target_name_override", CONTROLLER_NAME)]
        for port, method, name in (
            (where.control_port, DRAIN, "control"),
            (where.data_port, DOWNLOAD, "data"),
        ):
            async with grpc.aio.secure_channel(f"127.0.0.1:{port}", bare, options=options) as channel:
                with pytest.raises(grpc.aio.AioRpcError):
                    await channel.unary_unary(method)(b"", timeout=300)
            line = BEFORE.format(name) + "(it showed no certificate)" + AFTER
            await until(
                lambda line=line: ("127.0.0.1", line) in where.lines(EventKind.CONNECTION_REFUSED), PATIENCE_S
            )


async def test_a_certificate_of_another_name_is_told_by_name_on_both_sides(tmp_path: Path) -> None:
    async with (
        controller(tmp_path) as where,
        agent(where, where.authority.issue("pi-77"), "pi-77") as refused,
    ):
        with pytest.raises(LinkError, match="device 'pi-77' is not part of this run"):
            await asyncio.wait_for(refused.task, PATIENCE_S)
        await until(lambda: where.lines(EventKind.SESSION_REFUSED), PATIENCE_S)
        assert where.lines(EventKind.SESSION_REFUSED) == [("pi-77", "device 'pi-77' is not part of this run")]
        assert where.lines(EventKind.CONNECTION_REFUSED) == []  # TLS found nothing wrong


async def test_a_revoked_certificate_is_told_by_name_on_both_sides(tmp_path: Path) -> None:
    async with controller(tmp_path) as where:
        lost = where.authority.issue("pi-01")
        assert where.authority.revoke_name("pi-01", "board lost") != []
        async with agent(where, lost) as refused:
            told = "the certificate of 'pi-01' is revoked (serial "
            # gRPC itself may end the first attempt, without a reason.
            await until(lambda: any(told in line for line in refused.log), PATIENCE_S)
            ((name, reason), *_) = where.lines(EventKind.IDENTITY_REFUSED)
            assert name == "pi-01"
            assert reason.startswith("the certificate of 'pi-01' is revoked (serial ")
            assert where.lines(EventKind.CONNECTION_REFUSED) == []


async def test_who_speaks_no_tls_or_nothing_at_all_is_told_and_who_may_come_in_is_not(tmp_path: Path) -> None:
    async with controller(tmp_path) as where, agent(where, where.authority.issue("pi-01")) as good:
        await until(lambda: good.link.is_open, PATIENCE_S)
        for said, reason in ((rubbish.PREFACE, "it did not speak TLS"), (b"", "it was silent for too long")):
            line = BEFORE.format("data") + f"({reason})" + AFTER
            with socket.create_connection(("127.0.0.1", where.data_port), timeout=300.0) as open_one:
                open_one.sendall(said)
                await until(
                    lambda line=line: ("127.0.0.1", line) in where.lines(EventKind.CONNECTION_REFUSED),
                    PATIENCE_S,
                )
        assert len(where.lines(EventKind.CONNECTION_REFUSED)) == 2
        assert good.log == []


async def test_the_same_reason_of_the_same_address_is_told_once_a_minute(tmp_path: Path) -> None:
    async with controller(tmp_path) as where:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", where.data_port), timeout=300.0) as open_one:
                open_one.sendall(rubbish.PREFACE)
                assert open_one.recv(100) != b"?"
        async with agent(where, expired(where.authority)):
            await until(lambda: len(where.lines(EventKind.CONNECTION_REFUSED)) == 2, PATIENCE_S)
        assert [("did not speak TLS" in line) for _, line in where.lines(EventKind.CONNECTION_REFUSED)] == [
            True,
            False,
        ]
