"""Programs in real processes: they answer, and one that does not hurts nothing but its own order."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import roambench.agent.orders.program as program_module
from roambench.agent.orders.program import Program
from roambench.agent.orders.program_host import landlock_abi
from roambench.agent.orders.program_process import hidden_from_programs
from roambench.agent.orders.worker import TrainerDied, TrainerRefused
from roambench.agent.session.data_link import TimeIsUp
from roambench.contract.errors import ConfigError
from roambench.contract.program_spec import ProgramSpec

pytestmark = [pytest.mark.asyncio, pytest.mark.lengthy]

SOURCE = """
import os, sys, time
def load(settings, folder):
    print("loaded in", folder.name)
    if settings.get("broken"):
        raise ValueError("no such data")
    def answer(message):
        name = message.partition(b" ")[0].decode()
        return getattr(sys.modules[__name__], "do_" + name)(folder, message)
    return answer
def do_echo(folder, message):
    return message * 2
def do_count(folder, message):
    file = folder / "count"
    n = int(file.read_text()) + 1 if file.exists() else 1
    file.write_text(str(n))
    return str(n).encode()
def do_compute(folder, message):
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    return b""
def do_child(folder, message):
    if os.fork() == 0:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        os._exit(0)
    os.wait()
    return b""
def do_raise(folder, message):
    raise RuntimeError("mine")
def do_exit(folder, message):
    sys.exit(3)
def do_die(folder, message):
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(3)
def do_hang(folder, message):
    time.sleep(1000)
def do_fork(folder, message):
    for _ in range(5):
        if os.fork() == 0:
            time.sleep(1000)
    time.sleep(1000)
def do_vanish(folder, message):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            os.execve("/bin/sleep", ["sleep", "1000"], {})
        os._exit(0)
    time.sleep(1000)
def do_huge(folder, message):
    os.write(4, b"A" + (10**9).to_bytes(8, "big") + b"x" * 1000)
    time.sleep(1000)
def do_flood(folder, message):
    import threading
    def flood():
        time.sleep(0.1)
        os.write(4, b"A" + (10**7).to_bytes(8, "big"))
        while True:
            os.write(4, bytes(2**20))
    threading.Thread(target=flood).start()
    return b""
def do_escape(folder, message):
    if os.fork() == 0:
        os.setsid()
        for fd in range(3, 10):
            try:
                os.close(fd)
            except OSError:
                pass
        time.sleep(1000)  # with the standard error of its parent
    os._exit(5)
def do_garbage(folder, message):
    os.write(4, b"\\x00garbage that is no frame at all")
    time.sleep(1000)
def do_key(folder, message):
    (folder / "mine").mkdir()
    (folder / "mine/file").write_text("kept")
    (folder / "mine/file").rename(folder / "moved")
    found = [(folder / "moved").read_text()]
    for act in (
        lambda: (folder.parent / "keys/key.pem").read_text(),
        lambda: (folder.parent / "keys/key.pem").write_text("mine"),
        lambda: (folder.parent / "keys/key.pem").rename(folder / "key.pem"),
        lambda: os.link(folder.parent / "keys/key.pem", folder / "key.pem"),
    ):
        try:
            found.append(str(act()))
        except OSError as error:
            found.append(type(error).__name__)
    return " ".join(found).encode()
def do_read(folder, message):
    try:
        return open(message.partition(b" ")[2], "rb").read()
    except OSError as error:
        return type(error).__name__.encode()
def do_signal(folder, message):
    import signal
    try:
        os.kill(int(message.partition(b" ")[2]), signal.SIGKILL)
    except OSError as error:
        return type(error).__name__.encode()
    return b"ended"
def do_children(folder, message):
    import signal, subprocess
    child = subprocess.Popen(["sleep", "600"])
    os.kill(child.pid, signal.SIGKILL)
    return str(child.wait()).encode()
def do_memory(folder, message):
    return str(len(bytearray(2**31))).encode()
"""


@dataclass
class Device:
    program: Program
    folder: Path

    async def call(self, name: str, limit_s: float = 60.0) -> bytes:
        await self.program.ready()
        return (await self.program.call(name.encode(), limit_s)).answer


@asynccontextmanager
async def living(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: str = "{}"
) -> AsyncIterator[Device]:
    file = folder / "mine.py"
    file.write_text(SOURCE)
    monkeypatch.setattr(program_module, "file_of", lambda name: file)
    program = Program(folder, [str(folder / "keys")])
    try:
        await program.prepare(ProgramSpec("mine", settings, memory_bytes=2**29, message_bytes=10_000))
        yield Device(program, folder)
    finally:
        await program.close()


async def test_it_is_loaded_before_it_is_asked_and_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, monkeypatch) as device:
        assert device.program.rss_bytes > 1_000_000
        assert [await device.call("count"), await device.call("count")] == [b"1", b"2"]
        assert await device.call("echo it") == b"echo itecho it"
        device.program.abandon()
        assert await device.call("count") == b"3"
        device.program.forget()
        assert not (tmp_path / "state").exists()
    assert "loaded in state" in (tmp_path / "program.log").read_text()


async def test_processor_seconds_are_those_of_the_kernel_children_included(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, monkeypatch) as device:
        for name in ("compute", "child"):
            assert 0.19 <= (await device.program.call(name.encode(), 60.0)).cpu_s < 0.4


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("raise", TrainerRefused, "RuntimeError: mine (mine.py:"),
        ("memory", TrainerRefused, "MemoryError"),
        ("exit", TrainerRefused, "SystemExit: 3 (mine.py:"),
        ("die", TrainerDied, "its program ended (exit status 3): out of luck"),
        ("huge", TrainerDied, "its program sent 1,000,000,000 bytes, expected 10,000 at most"),
        ("garbage", TrainerDied, "its program sent "),
    ],
)
async def test_what_is_no_answer_fails_its_own_order_alone(
    name: str, kind: type[Exception], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, monkeypatch) as device:
        with pytest.raises(kind) as raised:
            await device.call(name)
        assert told in str(raised.value)
        assert await device.call("echo") == b"echoecho"


async def test_one_that_sends_more_than_anybody_reads_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, monkeypatch) as device:
        assert await device.call("flood") == b""
        await asyncio.sleep(1.0)  # the pipe is full by then, and reading has paused
        async with asyncio.timeout(30.0):
            with pytest.raises(TrainerDied, match="its program sent 10,000,000 bytes"):
                await device.call("echo", 300.0)
        assert await device.call("echo") == b"echoecho"


async def test_one_whose_child_escapes_is_over_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, monkeypatch) as device:
        async with asyncio.timeout(15.0):
            with pytest.raises(TrainerDied, match="exit status 5"):
                await device.call("escape", 300.0)
            while any(_runs_in(process, tmp_path / "state") for process in Path("/proc").iterdir()):
                await asyncio.sleep(0.05)  # until the time is over
        assert await device.call("echo") == b"echoecho"


@pytest.mark.parametrize("name", ["hang", "fork", "vanish"])
async def test_one_that_hangs_is_ended_with_all_that_it_forked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, monkeypatch) as device:
        with pytest.raises(TimeIsUp, match="gave no answer within 1 s"):
            await device.call(name, limit_s=1.0)
        deadline_s = time.monotonic() + 30.0
        while left := [
            process for process in Path("/proc").iterdir() if _runs_in(process, tmp_path / "state")
        ]:
            assert time.monotonic() < deadline_s, left
            await asyncio.sleep(0.05)
        assert await device.call("echo") == b"echoecho"


def _runs_in(process: Path, folder: Path) -> bool:
    try:
        return process.name.isdigit() and (process / "cwd").readlink() == folder
    except OSError:
        return False


async def test_one_that_cannot_be_loaded_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrainerRefused, match=r"cannot be loaded: ValueError: no such data \(mine.py:"):
        async with living(tmp_path, monkeypatch, '{"broken": true}'):
            pass


async def test_an_unknown_program_and_a_missing_interpreter_are_sentences(tmp_path: Path) -> None:
    program = Program(tmp_path)
    with pytest.raises(ConfigError, match="unknown program 'none-such'"):
        await program.prepare(ProgramSpec("none-such", "{}"))


@pytest.mark.skipif(landlock_abi() < 2, reason="a kernel without Landlock hides nothing")
async def test_the_agents_keys_are_not_the_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/key.pem").write_text("secret")
    async with living(tmp_path, monkeypatch) as device:
        assert await device.call("key") == b"kept PermissionError PermissionError OSError OSError"
    assert (tmp_path / "keys/key.pem").read_text() == "secret"


@pytest.mark.skipif(landlock_abi() < 2, reason="a kernel without Landlock hides nothing")
async def test_what_a_process_hides_is_hidden_from_all_its_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/signer.pem").write_text("secret")
    with hidden_from_programs([tmp_path / "bench"]):
        async with living(tmp_path, monkeypatch) as device:
            assert await device.call(f"read {tmp_path}/bench/signer.pem") == b"PermissionError"
    async with living(tmp_path, monkeypatch) as device:
        assert await device.call(f"read {tmp_path}/bench/signer.pem") == b"secret"


@pytest.mark.skipif(landlock_abi() < 6, reason="a kernel that keeps no signal back")
async def test_one_cannot_trace_or_end_who_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bystander = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        async with living(tmp_path, monkeypatch) as device:
            for pid in (os.getpid(), bystander.pid):
                assert await device.call(f"read /proc/{pid}/mem") == b"PermissionError"
                assert await device.call(f"signal {pid}") == b"PermissionError"
            assert await device.call("children") == b"-9"
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()


async def test_the_kernel_ends_a_program_before_who_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, monkeypatch) as device:
        assert await device.call("read /proc/self/oom_score_adj") == b"1000\n"
