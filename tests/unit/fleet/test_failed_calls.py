"""What fails in a call at the controller is told in one line; no console gets a traceback, also where the
caller is gone just then."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

import pytest

from hand_agent import Bench, bench, hand_agent, lines, until
from roambench.agent.session.dial_trouble import _context
from roambench.contract.errors import RunError
from roambench.contract.events import EventKind
from roambench.identity.authority import CONTROLLER_NAME
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import PROTOCOL_VERSION, SESSION
from soaking import rubbish
from soaking.sockets import reset

HELLO = wire.AgentFrame(
    hello=wire.Hello(protocol_version=PROTOCOL_VERSION, device="pi-01", machine_id="machine", boot_id="boot")
)
EVENT = wire.AgentFrame(event=wire.SessionEvent(kind=EventKind.TRAINER_READY))


async def said_hello(where: Bench) -> asyncio.StreamWriter:
    """A session of pi-01, its bytes written by hand."""
    _, writer = await asyncio.open_connection(
        "127.0.0.1",
        where.fleet.control_port,
        ssl=_context(where.authority.issue("pi-01")),
        server_hostname=CONTROLLER_NAME,
    )
    writer.write(
        rubbish.PREFACE + rubbish.frame(4, 0, 0, b"") + rubbish.frame(1, 4, 1, rubbish.headers(SESSION))
    )
    say(writer, HELLO)
    return writer


def say(writer: asyncio.StreamWriter, message: wire.AgentFrame) -> None:
    payload = message.SerializeToString()
    writer.write(rubbish.frame(0, 0, 1, b"\0" + len(payload).to_bytes(4, "big") + payload))


class FullDisk:
    """Refuses to write down events of some kinds, for as long as it is full; `meanwhile` happens first."""

    def __init__(
        self,
        *kinds: str,
        meanwhile: Callable[[], None] = lambda: None,
        error: Exception | None = None,
    ) -> None:
        self.kinds, self.meanwhile, self.refused = kinds, meanwhile, 0
        self.error = error or RunError("events.sqlite: the disk is full")

    def hears(self, name: str, kind: str) -> None:
        if kind in self.kinds:
            self.refused += 1
            self.meanwhile()
            raise self.error


@pytest.mark.asyncio
@pytest.mark.parametrize("all_full", [False, True])
async def test_a_caller_that_goes_while_its_call_fails_leaves_no_traceback(
    capfd: pytest.CaptureFixture[str], all_full: bool
) -> None:
    """gRPC prints one where it cannot send a failed call's status."""
    disk = FullDisk(EventKind.SESSION_OPENED, *((EventKind.CALL_FAILED,) if all_full else ()))
    async with bench(hears=disk.hears) as where:
        writer = await said_hello(where)

        def cut() -> None:
            reset(writer.get_extra_info("socket"))
            time.sleep(0.3)  # gRPC's core hears of it, its loop does not

        disk.meanwhile = cut
        await until(lambda: disk.refused)
        await until(lambda: all_full or lines(where, EventKind.CALL_FAILED))
        await asyncio.sleep(0.3)
        writer.transport.abort()
        if not all_full:
            assert lines(where, EventKind.CALL_FAILED) == ["pi-01: Session: events.sqlite: the disk is full"]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.asyncio
async def test_an_event_that_cannot_be_written_down_ends_its_session_by_name() -> None:
    """And not by a task whose exception nobody takes."""
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about["message"]))
    async with bench(hears=FullDisk(EventKind.TRAINER_READY).hears) as where:
        writer = await said_hello(where)
        await until(lambda: lines(where, EventKind.SESSION_OPENED))
        say(writer, EVENT)
        await until(lambda: lines(where, EventKind.SESSION_LOST))
        await until(lambda: lines(where, EventKind.CALL_FAILED))
        assert lines(where, EventKind.CALL_FAILED) == ["pi-01: Session: events.sqlite: the disk is full"]
        writer.transport.abort()
    gc.collect()
    assert complaints == []


@pytest.mark.asyncio
@pytest.mark.parametrize(("error", "logged"), [(RunError("the disk is full"), 0), (KeyError("nobody"), 1)])
async def test_what_nobody_foresaw_in_a_call_leaves_its_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception, logged: int
) -> None:
    async with bench(hears=FullDisk(EventKind.SESSION_OPENED, error=error).hears) as where:
        writer = await said_hello(where)
        await until(lambda: lines(where, EventKind.CALL_FAILED))
        writer.transport.abort()
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error] * logged


@pytest.mark.asyncio
async def test_a_device_whose_session_fails_alike_at_each_dial_is_not_ready_and_the_others_are() -> None:
    def hears(name: str, kind: str) -> None:
        if name == "pi-01" and kind == EventKind.SESSION_OPENED:
            raise KeyError("model")

    async with bench(hears=hears) as where, hand_agent(where, "pi-01"), hand_agent(where, "pi-02"):
        await until(lambda: lines(where, EventKind.TRAINER_NOT_READY))
        await until(lambda: [session.name for session in where.fleet.sessions.all()] == ["pi-02"])
    (line,) = lines(where, EventKind.TRAINER_NOT_READY)
    assert line.startswith(f"pi-01: its session failed 5 times in a row: KeyError: 'model' ({__file__}:")


@pytest.mark.asyncio
async def test_a_device_comes_back_however_often_a_full_disk_ended_its_sessions() -> None:
    disk = FullDisk(EventKind.SESSION_OPENED)
    async with bench(hears=disk.hears) as where, hand_agent(where, "pi-01"):
        await until(lambda: disk.refused > 6)
        disk.kinds = ()
        await until(lambda: bool(where.fleet.sessions.all()))
        assert lines(where, EventKind.TRAINER_NOT_READY) == []
