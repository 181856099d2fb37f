"""`roambench-agent`: what systemd starts on a Pi."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

from roambench.agent.launch import run_agent
from roambench.agent.settings import AgentSettings
from roambench.contract.errors import RoambenchError


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="roambench-agent", description="Runs on a device: trains on order, reads the power meter."
    )
    parser.add_argument("--version", action="version", version=version("roambench"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="dial the controller and serve until stopped")
    run.add_argument("--settings", type=Path, required=True, metavar="FILE", help="agent settings (JSON)")
    arguments = parser.parse_args()
    try:
        status = run_agent(AgentSettings.load(arguments.settings))
    except RoambenchError as error:
        for line in str(error).splitlines():
            print(f"roambench-agent: {line}", file=sys.stderr)
        status = error.exit_code
    sys.exit(status)


if __name__ == "__main__":
    main()
