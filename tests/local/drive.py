"""Runs an experiment on local agents, in a process that a test may kill:

    python drive.py [--one-core] [--late=RANDOM_S,REVERSED_S] FILE RUNS_DIR [--fleet=FLEET] [KEY=VALUE...]

Prints what `roambench run` prints; the comparison at the end is left out. A bench needs no preflight.
`--late` delays the agents' answers (`late_agents`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from late_agents import late_agents
from rich.console import Console

from roambench.experiment.load import load_experiment
from roambench.fleet.local_agents import LocalAgents
from roambench.runner.bench_options import BenchOptions
from roambench.study.command_process import fork_trainings, settle


def main(arguments: list[str], agents: type[LocalAgents] = LocalAgents) -> None:
    settle()  # as the command does
    if arguments[0] == "--one-core":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # agents and emulator inherit it
        arguments = arguments[1:]
    if arguments[0].startswith("--late="):
        random_s, reversed_s = map(float, arguments.pop(0).removeprefix("--late=").split(","))
        agents = late_agents(random_s, reversed_s)
    file, runs_dir, *overrides = arguments
    fleet = "local"
    if overrides and overrides[0].startswith("--fleet="):
        fleet = overrides.pop(0).removeprefix("--fleet=")
    fork_trainings(fleet)
    from roambench.runner.benches import local_bench  # loads grpc
    from roambench.runner.composition import run_experiment

    local_bench.LocalAgents = agents  # type: ignore[misc]
    run_experiment(
        load_experiment(file, overrides),
        fleet=fleet,
        runs_dir=Path(runs_dir),
        console=Console(width=300),
        bench=BenchOptions(preflight=False, unproven=True),
    )


if __name__ == "__main__":
    main(sys.argv[1:])
