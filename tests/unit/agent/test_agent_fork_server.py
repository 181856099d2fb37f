"""The process that agents are forked from: one that dies of a mistake leaves its traceback in its own log."""

import subprocess
import sys
from pathlib import Path

MISTAKE = """
import os, sys
from roambench.agent import agent_fork_server
from roambench.agent.settings import AgentSettings

def breaks(settings):
    raise KeyError(settings.device)

agent_fork_server.run_agent = breaks
_, status = os.waitpid(agent_fork_server._fork_agent(AgentSettings("pi-01", "127.0.0.1:9", *sys.argv[1:])), 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_an_agent_that_dies_leaves_its_traceback_in_its_log_and_one_sentence_last(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MISTAKE, str(tmp_path), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stderr) == (1, "")
    log = (tmp_path / "agent.log").read_text().splitlines()
    assert log[-1] == "agent pi-01 ends: KeyError: 'pi-01'"
    assert log[0].startswith("Traceback")
    assert any("raise" in line or "breaks" in line for line in log)
