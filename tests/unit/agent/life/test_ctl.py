"""The agent's control socket: who asks what gets which answer, and what no client can do."""

import asyncio
import io
import json
import socket
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roambench.agent.cli import ask
from roambench.agent.life import ctl_server
from roambench.agent.life.ctl_server import serve_ctl
from roambench.contract.errors import FleetError

pytestmark = pytest.mark.asyncio


async def echo(request: Mapping[str, Any]) -> AsyncIterator[str]:
    match request.get("ask"):
        case "status":
            yield json.dumps({"run": "", "words": request["words"]})
        case "export":
            for number in range(20_000):
                yield json.dumps({"seq": number, "payload": "x" * 100})
        case other:
            raise ValueError(f"unknown request {other!r}")


@asynccontextmanager
async def server(path: Path) -> AsyncIterator[None]:
    serving = asyncio.create_task(serve_ctl(path, SimpleNamespace(answer=echo)))
    while not path.exists():
        await asyncio.sleep(0.005)
    try:
        yield
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def asked(path: Path, request: dict[str, Any]) -> tuple[int, list[Any]]:
    out = io.BytesIO()
    status = await asyncio.to_thread(ask, path, request, out, 10.0)
    return status, [json.loads(line) for line in out.getvalue().splitlines()]


async def test_an_answer_is_a_line_of_json(tmp_path):
    async with server(tmp_path / "ctl.sock"):
        answer = await asked(tmp_path / "ctl.sock", {"ask": "status", "words": ["a"]})
    assert answer == (0, [{"run": "", "words": ["a"]}])


async def test_an_answer_may_have_many_lines(tmp_path):
    async with server(tmp_path / "ctl.sock"):
        status, lines = await asked(tmp_path / "ctl.sock", {"ask": "export"})
    assert status == 0
    assert [line["seq"] for line in lines] == list(range(20_000))


async def test_a_wrong_request_is_an_error_with_its_reason_and_status_1(tmp_path):
    async with server(tmp_path / "ctl.sock"):
        answer = await asked(tmp_path / "ctl.sock", {"ask": "reboot"})
    assert answer == (1, [{"error": "unknown request 'reboot'"}])


@pytest.mark.parametrize("garbage", [b"\xff\x00\n", b"[1]\n", b"{" * 5000 + b"\n", b"status\n", b"\n"])
async def test_garbage_is_answered_and_the_next_client_is_served(tmp_path, garbage):
    path = tmp_path / "ctl.sock"

    def send() -> bytes:
        with closing(socket.socket(socket.AF_UNIX)) as line:
            line.connect(str(path))
            line.settimeout(30)
            line.sendall(garbage)
            line.shutdown(socket.SHUT_WR)
            return line.recv(4096)

    async with server(path):
        told = await asyncio.to_thread(send)
        assert told == b"" or "error" in json.loads(told)
        assert (await asked(path, {"ask": "status", "words": []}))[0] == 0


async def test_a_client_that_goes_in_the_middle_of_an_answer_costs_nothing(tmp_path):
    path = tmp_path / "ctl.sock"
    async with server(path):
        with closing(socket.socket(socket.AF_UNIX)) as line:
            line.connect(str(path))
            line.sendall(b'{"ask": "export"}\n')
            assert await asyncio.to_thread(line.recv, 10)
        assert (await asked(path, {"ask": "status", "words": []}))[0] == 0


async def test_owner_and_group_may_ask_nobody_else(tmp_path):
    async with server(tmp_path / "ctl.sock"):
        mode = stat.S_IMODE((tmp_path / "ctl.sock").stat().st_mode)
    assert mode == 0o660


async def test_a_socket_of_an_earlier_life_is_replaced(tmp_path):
    path = tmp_path / "ctl.sock"
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    before = path.stat().st_ino
    serving = asyncio.create_task(serve_ctl(path, SimpleNamespace(answer=echo)))
    while path.stat().st_ino == before:
        await asyncio.sleep(0.005)
    assert (await asked(path, {"ask": "status", "words": []}))[0] == 0
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert not path.exists()


async def test_no_agent_is_a_sentence(tmp_path):
    with pytest.raises(FleetError, match=r"is roambench-agent\.service running here"):
        await asked(tmp_path / "ctl.sock", {"ask": "status"})


async def test_clients_that_do_not_read_their_answers_take_nobodys_place(tmp_path, monkeypatch):
    """Eight may ask at once; a pipe that is stopped reads no more, and keeps its end open."""
    monkeypatch.setattr(ctl_server, "_WRITE_PATIENCE_S", 0.2)
    path = tmp_path / "ctl.sock"
    async with server(path):
        with ExitStack() as stopped:
            for _ in range(8):
                line = stopped.enter_context(closing(socket.socket(socket.AF_UNIX)))
                line.connect(str(path))
                line.sendall(b'{"ask": "export"}\n')
            answer = await asked(path, {"ask": "status", "words": []})
    assert answer == (0, [{"run": "", "words": []}])


async def test_a_client_that_asks_nothing_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ctl_server, "_REQUEST_PATIENCE_S", 0.2)
    async with server(tmp_path / "ctl.sock"):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "ctl.sock"))
        answer = await reader.read()
        writer.close()
    assert json.loads(answer) == {"error": "expected a request within 0.2 s"}
