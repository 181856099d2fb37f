"""A machine that is merely slow is not taken for one whose agents are dead."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec
from roambench.fleet import local_agents
from roambench.fleet.local_agents import LocalAgents, LocalSettings
from roambench.identity.authority import Authority
from roambench.runner.agents.watch import Watch
from roambench.runner.benches import local_bench
from roambench.runs.folder import RunFolder
from roambench.study.sweep import point_process, pool
from roambench.study.sweep.sweep_folder import read_outcome

pytestmark = [pytest.mark.asyncio, pytest.mark.lengthy]

NAMES = ("a", "b", "c", "d")
#: Computes until so many seconds have passed, whenever a crowded machine gives it a turn.
COMPUTE = """
import time
def compute(for_s):
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        turn_s = time.process_time() + 0.03
        while time.process_time() < turn_s:
            pass
        time.sleep(0.2)
"""
#: Holds the lock in the way agents do.
HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
"""
COMPUTES = f"{COMPUTE}{HOLDS}compute(9.0)"


class Seen(Watch):
    """Writes nothing down."""

    def __init__(self) -> None:
        super().__init__(RunFolder.__new__(RunFolder))


async def test_agents_that_become_ready_one_after_the_other_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_bench, "_HELLO_PATIENCE_S", 6.0)
    watch = Seen()

    async def come() -> None:
        for name in NAMES:
            await asyncio.sleep(2.0)
            watch.ready.add(name)

    coming = asyncio.create_task(come())
    await local_bench._all_ready(watch, NAMES)
    await coming
    watch.ready.discard("c")
    with pytest.raises(FleetError, match="1 of 4 agents are not ready, and for 6 s none more became so: c"):
        await local_bench._all_ready(watch, NAMES)
    with pytest.raises(FleetError, match="c: its agent cannot start: meter: no such driver"):
        await local_bench._all_ready(watch, NAMES, {"c": "meter: no such driver"})


@contextmanager
def holder_of(lock: Path, program: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, which has taken the lock."""
    command = [sys.executable, "-c", program, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


def agents_in(folder: Path, told: list[str]) -> LocalAgents:
    emulator = EmulatorSpec((), str(folder / "socket"), str(folder))
    return LocalAgents(
        folder,
        NAMES,
        "127.0.0.1:1",
        Authority.create(),
        DeviceClock(),
        LocalSettings(None),
        emulator,
        told.append,
    )


async def test_agents_of_a_dead_controller_that_still_do_something_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_agents, "_PATIENCE_S", 6.0)
    told: list[str] = []
    lock = tmp_path / "fleet.lock"
    with holder_of(lock, COMPUTES) as other:
        agents = agents_in(tmp_path, told)
        await agents._take_turn()
        await agents.stop()
        assert other.wait() == 0
    assert told == [f"agents of the controller that died end slowly; who they are: fuser {lock}"]


async def test_agents_of_a_dead_controller_that_stand_still_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_agents, "_PATIENCE_S", 2.0)
    program = HOLDS + "sys.stdin.read()"
    lock = tmp_path / "fleet.lock"
    with holder_of(lock, program):
        agents = agents_in(tmp_path, [])
        with pytest.raises(FleetError, match=f"did nothing for 2 s; find them with: fuser {lock}"):
            await agents._take_turn()
        await agents.stop()


def emulator_that(
    folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch, program: str
) -> LocalAgents:
    """A fleet of one board whose meter emulator is this program instead."""
    (folder / "emulator.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    agents = agents_in(folder, told)
    agents._emulator = EmulatorSpec(
        (EmulatedDevice("a", str(folder / "a.tty")),), str(folder / "socket"), str(folder)
    )
    spawn = agents._spawn

    async def instead(name: str, module: str, *arguments: str) -> local_agents._Running:
        return await spawn(name, "emulator")

    monkeypatch.setattr(agents, "_spawn", instead)
    return agents


STANDS_STILL = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
#: Ends as it is told to, but has something to write first, and gets little of a crowded machine.
ENDS_SLOWLY = f"""{COMPUTE}
import signal, sys
from pathlib import Path
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
Path("{{socket}}").touch()
while not told:
    time.sleep(0.01)
compute(9.0)
Path("{{truth}}").touch()
"""


async def test_an_emulator_that_serves_nothing_and_does_nothing_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_agents, "_PATIENCE_S", 2.0)
    told: list[str] = []
    agents = emulator_that(tmp_path, told, monkeypatch, STANDS_STILL)
    with pytest.raises(FleetError) as failed:
        await agents.start()
    log, socket = tmp_path / "emulator.log", tmp_path / "socket"
    assert str(failed.value) == (
        f"local agents cannot start: the meter emulator serves nothing at {socket} and did nothing for 2 s; "
        f"see {log}"
    )
    await agents.stop()
    assert told == [f"asked to end, the meter emulator did nothing for 2 s and was killed; see {log}"]


async def test_an_emulator_that_is_slow_to_end_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_agents, "_PATIENCE_S", 6.0)
    told: list[str] = []
    truth = tmp_path / "truth"
    program = ENDS_SLOWLY.format(socket=tmp_path / "socket", truth=truth)
    agents = emulator_that(tmp_path, told, monkeypatch, program)
    await agents._take_turn()
    emulator = agents._processes["meter emulator"] = await agents._spawn("meter emulator", "")
    await agents._wait_for_socket(tmp_path / "socket", emulator)
    await agents.stop()
    assert truth.exists()
    assert told == []


async def test_the_log_that_explains_the_end_of_the_fork_server_is_the_one_that_it_writes(
    tmp_path: Path,
) -> None:
    log = tmp_path / "agent_fork_server.log"
    log.write_text("Traceback\nagent fork server: it is broken\n")
    found = agents_in(tmp_path, [])._reason("agent fork server", 2)
    assert found == f"the agent fork server ended with status 2: agent fork server: it is broken; see {log}"


async def test_what_an_earlier_sweep_left_behind_is_waited_for_while_it_does_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(point_process, "_LEFT_PATIENCE_S", 6.0)
    with holder_of(tmp_path / "lock", COMPUTES) as other:
        assert await asyncio.to_thread(point_process._still_held, tmp_path, "key") is None
        assert other.wait() == 0
    point_process._KEPT.pop().release()


async def test_what_an_earlier_sweep_left_behind_and_hangs_fails_the_point_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(point_process, "_LEFT_PATIENCE_S", 2.0)
    (tmp_path / "point.json").write_text('{"key": "k", "fleet": "rehearsal", "config": {}}')
    program = "import os\n" + HOLDS.replace("print(", "file.write(str(os.getpid()))\nfile.flush()\nprint(")
    with holder_of(tmp_path / "lock", program + "sys.stdin.read()") as other:
        ended = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", POINT, str(tmp_path)],
            stdin=other.stdout,  # stays open, as the sweep holds it
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    told = f"process {other.pid} of an earlier sweep still holds this run and did nothing for 2 s; expected"
    outcome = read_outcome(tmp_path, "k")
    assert outcome is not None
    assert told in outcome.reason
    assert told in ended.stderr


#: A point's process that waits less long.
POINT = """
import sys
from roambench.study.sweep import point_process
point_process._LEFT_PATIENCE_S = 2.0
sys.exit(point_process.main(sys.argv[1:]))
"""
#: One whose run ignores that it is to stop; its standard input is at its end.
STOPPED = f"""{COMPUTE}
import signal, threading
from roambench.study.sweep import point_process
point_process.STILL_S = 6.0
signal.signal(signal.SIGINT, signal.SIG_IGN)
threading.Thread(target=point_process._stop_with_the_sweep, daemon=True).start()
compute(9.0)
print("worked", flush=True)
time.sleep(600.0)
"""


async def test_a_point_that_is_slow_to_stop_is_not_ended_and_one_that_hangs_is() -> None:
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", STOPPED],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 130
    assert ended.stdout == "worked\n"
    assert "asked to stop, the run did nothing for 6 s and was ended" in ended.stderr


@pytest.mark.parametrize(
    ("program", "status", "told"),
    [
        (f"{COMPUTE}\nimport sys\nsys.stdin.read()\ncompute(9.0)", 0, ""),
        (STANDS_STILL, -signal.SIGKILL, "asked to stop, it did nothing for 6 s and was killed\n"),
    ],
)
async def test_a_sweep_kills_only_points_that_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, status: int, told: str
) -> None:
    monkeypatch.setattr(pool, "_PATIENCE_S", 6.0)
    log = tmp_path / "log.txt"
    log.touch()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdin=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    await pool._stopped(pool._Started(process.pid, process.wait, process.stdin.close), log)
    assert process.returncode == status
    assert log.read_text() == told
