"""Signals that come while a command reads its modules, works or cleans up, and output that nobody reads."""

from __future__ import annotations

import asyncio
import fcntl
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.runner.stopping import exit_status, leave, run_async, signals_heeded, to_its_end
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

ROAMBENCH = str(Path(sys.executable).with_name("roambench"))
#: The second signal comes while gRPC tells its loop of an event, in the midst of a clean-up that takes long.
TOLD_TWICE = """
import asyncio, os, signal, sys
import grpc
from roambench.runner.stopping import leave, run_async, signals_heeded, to_its_end

async def echo(messages, context):
    async for message in messages:
        yield message

async def call(port):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        calling = channel.stream_stream("/test/echo")()
        while True:
            await calling.write(b"x")
            await calling.read()

async def work():
    server = grpc.aio.server()
    methods = {"echo": grpc.stream_stream_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    calling = asyncio.create_task(call(port))
    try:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(60)
    finally:
        await to_its_end(clean_up)

async def clean_up():
    loop = asyncio.get_running_loop()
    call_soon, told = loop.call_soon, []

    def tell(*words, **more):
        handle = sys._getframe().f_back.f_locals.get("self")
        if "PollerCompletionQueue" in repr(handle) and not told:
            told.append(handle)
            signal.raise_signal(signal.SIGTERM)
        return call_soon(*words, **more)

    loop.call_soon = tell
    await asyncio.sleep(1000)

with signals_heeded():
    try:
        run_async(work(), "stopping")
    except KeyboardInterrupt as reason:
        print(reason)
        sys.exit(leave())
"""
#: In work that never looks at its loop.
COMPUTES = """
import signal, sys
from roambench.runner.stopping import leave, run_async, signals_heeded

async def work():
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGTERM)
    while True:
        pass

with signals_heeded():
    try:
        run_async(work())
    except KeyboardInterrupt as reason:
        print(reason)
        sys.exit(leave())
"""
TWO_SYSTEMS = """
name = "two"
systems = ["mohawk", "hierfavg"]
trace = { parameters = { devices = 12, steps = 12 }, steps = 4 }
fleet = { agents = 6, aps = 3 }
learning = { model = "mlp", images_per_device = 40 }
"""


def test_a_signal_cancels_the_work_awaits_its_clean_up_and_is_named() -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(60)
        finally:
            await to_its_end(clean_up)

    async def clean_up() -> None:
        await asyncio.sleep(0.05)
        told.append("clean")

    with signals_heeded():
        with pytest.raises(KeyboardInterrupt, match="stopped by SIGTERM"):
            run_async(work())
        assert exit_status() == 143
    assert told == ["clean"]
    run_async(asyncio.sleep(0))  # what was asked then is not asked now


def test_a_signal_in_the_midst_of_clean_up_does_not_cut_it_short() -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            told.append("worked")
        finally:
            try:
                await to_its_end(part, "first", signal.SIGINT)
            finally:
                await to_its_end(part, "second")

    async def part(name: str, *asked: signal.Signals) -> None:
        for number in asked:
            signal.raise_signal(number)
        await asyncio.sleep(0.05)
        told.append(name)

    with signals_heeded(), pytest.raises(KeyboardInterrupt, match="stopped by the user"):
        run_async(work())
    assert told == ["worked", "first", "second"]


def test_what_computes_without_a_pause_at_its_end_is_not_followed_by_the_next() -> None:
    """As a run does that writes its tables: the signal finds nothing to cancel."""

    async def work() -> None:
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGHUP)

    with signals_heeded():
        with pytest.raises(KeyboardInterrupt, match="stopped by SIGHUP"):
            run_async(work())
        assert exit_status() == 129


def test_what_a_process_was_started_to_ignore_stays_ignored() -> None:
    """nohup, and a script's background command."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_heeded():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with pytest.raises(KeyboardInterrupt), signals_heeded(also_ignored=True):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("works", "status", "said", "errors"),
    [(TOLD_TWICE, 143, "stopped by SIGTERM\n", "\nstopping\n"), (COMPUTES, 129, "stopped by SIGHUP\n", "")],
)
def test_a_second_signal_is_never_lost_and_leaves_everything_as_it_is(
    works: str, status: int, said: str, errors: str
) -> None:
    """What gRPC was about to tell when KeyboardInterrupt met it was lost: its server then waited for it for
    ever, in the end of the interpreter, or died there of a segmentation fault."""
    done = subprocess.run(
        [sys.executable, "-c", works], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, said, errors)


class Gone:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def meets_a_signal_where_nothing_can_raise() -> None:
    Gone()
    time.sleep(20.0)


def test_a_signal_that_meets_what_cannot_raise_is_not_lost() -> None:
    """As the lock of a module that was just imported, whose end is a weak reference's callback."""
    with signals_heeded():
        with pytest.raises(KeyboardInterrupt, match="stopped by SIGTERM"):
            meets_a_signal_where_nothing_can_raise()
        assert leave() == exit_status() == 143  # and it is no second one: that would end this process here


def test_a_signal_that_comes_again_while_it_is_being_sent_again_is_not_lost_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a busy machine, where the thread that sends it is done before the one that started it goes on."""
    start, started = threading.Timer.start, list[threading.Thread]()

    def done_at_once(timer: threading.Timer) -> None:
        started.append(timer)
        start(timer)
        if len(started) == 1:
            timer.join()

    monkeypatch.setattr(threading.Timer, "start", done_at_once)
    with signals_heeded():
        with pytest.raises(KeyboardInterrupt, match="stopped by SIGTERM"):
            meets_a_signal_where_nothing_can_raise()
        assert leave() == exit_status() == 143
    assert len(started) >= 2


def test_a_signal_that_meets_the_making_of_a_class_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Named:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(signal.SIGINT)

    def command(**_: object) -> None:
        type("Made", (), {"field": Named()})  # Python makes a RuntimeError of what is raised there

    monkeypatch.setattr("roambench.cli.main.command", lambda: command)
    with pytest.raises(SystemExit, match="130"):
        main([])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("read", ["roambench.contract.errors", "rich.markup", "typer.main"])
def test_ctrl_c_while_the_command_reads_its_modules_is_no_traceback(read: str) -> None:
    command = [sys.executable, "-X", "importtime", ROAMBENCH, "list", "nothing"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        fcntl.fcntl(running.stderr, fcntl.F_SETPIPE_SZ, 4096)  # it is never far ahead of who reads
        for line in running.stderr:
            if line.split("|")[-1].strip() == read:
                break
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
    assert "Traceback" not in rest
    assert running.returncode == 130


def test_a_run_whose_reader_goes_away_runs_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO_SYSTEMS)
    script = f"{ROAMBENCH} run two.toml --fleet rehearsal 2>errors | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=True
    )
    first, status = done.stdout.splitlines()
    assert first.startswith("[1/4] ")
    assert status == "0"
    assert (tmp_path / "errors").read_text() == ""
    for system in ("mohawk", "hierfavg"):
        assert (
            json.loads((tmp_path / "runs" / f"two/latest/{system}" / "run.json").read_text())["state"]
            == "finished"
        )
    assert (tmp_path / "runs" / "two/latest/report.html").is_file()


def test_a_run_whose_log_finds_the_disk_full_runs_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO_SYSTEMS)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [ROAMBENCH, "run", "two.toml", "--fleet", "rehearsal"],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "runs" / "two/latest/report.html").is_file()


def test_an_interrupted_run_says_what_is_kept_and_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the next system is not begun."""
    monkeypatch.chdir(tmp_path)
    Path("two.toml").write_text(TWO_SYSTEMS)
    words = ["run", "two.toml", "--fleet=rehearsal"]
    monkeypatch.setattr(sys, "argv", ["roambench", *words])

    class Stopped(RunFolder):
        """Ctrl-C in the very moment in which the run is said to be finished."""

        def update(self, **changes: object):  # type: ignore[no-untyped-def]
            info = super().update(**changes)
            if changes.get("state") is RunState.FINISHED:
                signal.raise_signal(signal.SIGINT)
            return info

    monkeypatch.setattr("roambench.runner.places.place.RunFolder", Stopped)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 130
    shown = capsys.readouterr().out.splitlines()
    run = Path("runs/two/latest").parent / Path("runs/two/latest").readlink() / "mohawk"
    assert shown[-3:] == [
        f"mohawk is finished, in {run}; what comes after it was not started.",
        f"  look at it   roambench report {run}",
        f"  restart      roambench {' '.join(words)} --fresh",
    ]
    assert not Path("runs/two/latest/hierfavg").exists()
