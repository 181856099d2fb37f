"""`roambench-agent run SETTINGS`, on an emulated board."""

import sys
from pathlib import Path

from roambench.agent.life.launch import run_agent
from roambench.agent.settings import AgentSettings
from roambench.emulation.board_load import load_of

if __name__ == "__main__":
    settings = AgentSettings.load(Path(sys.argv[1]))
    sys.exit(run_agent(settings, load_of(settings)))
