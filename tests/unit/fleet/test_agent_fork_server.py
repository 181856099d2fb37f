"""The process that agents are forked from: what becomes of agents that die, end slowly, or never end."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

MISTAKE = """
import os, sys
from roambench.fleet import agent_fork_server
from roambench.agent.settings import AgentSettings

def breaks(settings, load):
    raise KeyError(settings.device)

agent_fork_server.run_agent = breaks
_, status = os.waitpid(agent_fork_server._fork_agent(AgentSettings("pi-01", "127.0.0.1:9", *sys.argv[1:])), 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""

#: One agent, which has other ideas of how to end. It is told to as soon as it says that it lives.
END = """
import signal, sys, time
from pathlib import Path
from roambench.fleet import agent_fork_server

def ends_late(settings, load):
    told = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    Path(settings.state_dir, "lives").touch()
    while not told:
        time.sleep(0.01)
    {ending}
    return 0

agent_fork_server.run_agent = ends_late
agent_fork_server.load_trainer = agent_fork_server.import_for = lambda *agents: None
{limits}
sys.exit(agent_fork_server.forked(sys.argv[1]))
"""
#: The limits, shortened: an agent that is killed for its slowness is, within these.
STILL = "agent_fork_server.STILL_S, agent_fork_server.LOOK_S = 2.0, 0.1"
COMPUTES = "agent_fork_server._ENDING_CPU_S, agent_fork_server.LOOK_S = 0.5, 0.1"


def test_an_agent_that_dies_leaves_its_traceback_in_its_log_and_one_sentence_last(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MISTAKE, str(tmp_path), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stderr) == (1, "")
    log = (tmp_path / "agent.log").read_text().splitlines()
    assert log[-1] == "agent pi-01 ends: KeyError: 'pi-01'"
    assert log[0].startswith("Traceback")
    assert any("raise" in line or "breaks" in line for line in log)


def reports_of_an_agent(folder: Path, ending: str, limits: str) -> list[dict[str, object]]:
    """What the fork server reports of an agent that does `ending` when it is told to end."""
    spec = folder / "agents.json"
    agent = {"device": "pi-01", "controller": "127.0.0.1:9", "state_dir": str(folder)}
    spec.write_text(json.dumps({"agents": [agent], "restart_delay_s": 60.0}))
    program = END.format(ending=ending, limits=limits)
    command = [sys.executable, "-c", program, str(spec)]
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as lines:
        with theirs:
            server = subprocess.Popen(command, stdin=theirs)
        first = lines.readline()
        while not (folder / "lives").exists():
            assert server.poll() is None
        ours.shutdown(socket.SHUT_WR)
        reports = [json.loads(line) for line in (first, *lines)]
    assert server.wait() == 0
    return reports


def test_an_agent_that_ends_slowly_because_it_still_works_is_left_alone(tmp_path: Path) -> None:
    works = "began_s = time.process_time()\n    while time.process_time() < began_s + 4.0: pass"
    started, *later = reports_of_an_agent(tmp_path, works, STILL)
    assert later == [{"exited": "pi-01", "pid": started["pid"], "status": 0}]


@pytest.mark.parametrize(
    ("ending", "limits", "what"),
    [
        ("while True: signal.pause()", STILL, r"did nothing for \d+ s"),
        ("while True: pass", COMPUTES, r"computed for \d+ s"),
    ],
)
def test_an_agent_that_never_ends_is_killed_and_the_report_says_why_and_where_its_records_are(
    tmp_path: Path, ending: str, limits: str, what: str
) -> None:
    started, killed, exited = reports_of_an_agent(tmp_path, ending, limits)
    assert re.fullmatch(
        f"asked to end, the agent {what} and was killed: what it had not handed over is in "
        f"{re.escape(str(tmp_path / 'spool.sqlite'))}, its log is {re.escape(str(tmp_path / 'agent.log'))}",
        str(killed.pop("reason")),
    )
    assert killed == {"killed": "pi-01", "pid": started["pid"]}
    assert exited == {"exited": "pi-01", "pid": started["pid"], "status": -9}


def test_an_agent_is_kept_down_until_it_is_to_be_up_again(tmp_path: Path) -> None:
    spec = tmp_path / "agents.json"
    agent = {"device": "pi-01", "controller": "127.0.0.1:9", "state_dir": str(tmp_path)}
    spec.write_text(json.dumps({"agents": [agent], "restart_delay_s": 0.0}))
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rb") as lines:
        with theirs:
            command = [sys.executable, "-c", END.format(ending="pass", limits=""), str(spec)]
            server = subprocess.Popen(command, stdin=theirs)
        first = json.loads(lines.readline())
        ours.sendall(b'{"do')  # a line comes in as many pieces as it likes
        ours.sendall(b'wn": "pi-01"}\n')
        assert json.loads(lines.readline()) == {"exited": "pi-01", "pid": first["pid"], "status": -9}
        ours.settimeout(1.0)  # of an agent that died, the place is taken at once
        with pytest.raises(TimeoutError):
            ours.recv(1)
        ours.settimeout(None)
        (tmp_path / "lives").unlink(missing_ok=True)
        ours.sendall(b'{"up": "pi-01"}\n')
        assert json.loads(ours.recv(1000))["started"] == "pi-01"
        while not (tmp_path / "lives").exists():
            assert server.poll() is None
        ours.shutdown(socket.SHUT_WR)
        assert json.loads(ours.recv(1000))["status"] == 0
    assert server.wait() == 0
