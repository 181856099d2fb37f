"""The fork server that a command forks from itself: it shares what was loaded and ends with the command."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from roambench.fleet.fork_server import ForkServer
from tiny_experiment import TINY

COMMAND = """
import asyncio, json, os, sys
from pathlib import Path
from roambench.fleet.fork_server import ForkServer
from roambench.fleet.fork_server_process import fork_from_here

fork_from_here(["tells_what_it_has"])
import tells_what_it_has
tells_what_it_has.LOADED_BY = "the command, later"

async def ask():
    server = ForkServer(["tells_what_it_has"], Path("log"))
    child = await server.fork("tells_what_it_has", "", Path("log"), tells_end=True)
    told = json.loads(await child.answers.readline())
    status = await child.ended()
    await server.end()
    return told | {"status": status, "command": os.getpid()}

print(json.dumps(asyncio.run(ask())), flush=True)
sys.stdin.read()
"""
#: Each process that loads it writes a line.
MODULE = """
import json, os
LOADED_BY = os.getpid()
with open("loads", "a") as loads:
    loads.write(f"{LOADED_BY}\\n")

def forked(_):
    told = {"loaded_by": LOADED_BY, "pid": os.getpid(), "server": os.getppid()}
    os.write(0, json.dumps(told).encode() + b"\\n")
    return 3
"""


@pytest.mark.parametrize("killed", [False, True])
def test_what_is_forked_has_what_the_command_had_loaded_and_the_server_ends_with_the_command(
    tmp_path: Path, killed: bool
) -> None:
    (tmp_path / "tells_what_it_has.py").write_text(MODULE)
    running = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    told = json.loads(running.stdout.readline())
    assert (tmp_path / "loads").read_text() == f"{told['command']}\n"  # once
    assert told["loaded_by"] == told["command"]
    assert told["status"] == 3
    server = psutil.Process(told["server"])
    assert server.ppid() == told["command"]
    if killed:
        running.kill()
    assert running.communicate() == ("", None)  # its pipe is not held open by the server
    if killed:
        server.wait(60)
    assert not server.is_running()


#: Every Python that starts in the folder's environment says so.
SAYS_SO = "import sys\nwith open({file!r}, 'a') as said:\n    said.write(' '.join(sys.orig_argv) + '\\n')\n"


def test_a_run_of_two_systems_on_virtual_devices_starts_no_other_python(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SAYS_SO.format(file=str(tmp_path / "said")))
    (tmp_path / "tiny.toml").write_text(TINY)
    command = [str(Path(sys.executable).parent / "roambench"), "run", "tiny.toml", "--fleet", "simulated"]
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (only,) = (tmp_path / "said").read_text().splitlines()
    assert only.endswith("run tiny.toml --fleet simulated")


@pytest.mark.parametrize(
    "before",
    ["import grpc", "from threading import Event, Thread; Thread(target=Event().wait, daemon=True).start()"],
)
def test_a_process_that_cannot_be_forked_safely_is_refused(before: str) -> None:
    program = f"{before}\nfrom roambench.fleet.fork_server_process import fork_from_here\nfork_from_here([])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "RuntimeError: a process with threads or with grpc cannot be forked safely" in done.stderr


@pytest.mark.asyncio
async def test_a_server_that_is_killed_lets_go_of_its_orders_a_moment_later_and_is_dead_all_the_same(
    tmp_path: Path,
) -> None:
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    server = ForkServer([], tmp_path / "log")
    with ours:
        server._orders = ours
        asyncio.get_running_loop().call_later(0.2, theirs.close)
        assert await server.has_died()
