"""One line per system and fleet: digests of the model that a small seeded run ends in and of its records.

    python benchmarks/digests.py                    virtual devices and rehearsals, two minutes
    python benchmarks/digests.py --against FILE     which lines differ from an earlier output, or are gone

For changes that must not change a result: print before, change, compare. Models depend on the machine's
torch, so a file of another machine says nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from safetensors import safe_open

from roambench.experiment import catalogue
from roambench.experiment.sections import Experiment
from roambench.rounds.records import RoundRecord, StepClosed
from roambench.runner.composition import run_experiment
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder

#: Every way of moving, so that every rule of mixing meets each.
MOBILITY: dict[str, dict[str, object]] = {
    "static": {"mobility": {"model": "static", "grid": 3}, "contacts": {"radius": 1.5}},
    "random": {"mobility": {"model": "random", "grid": 4, "mobile": 2}, "contacts": {"radius": 2.0}},
    "dam": {"mobility": {"model": "dam", "grid": 4, "mobile": 2}, "contacts": {"radius": 2.0}},
    "dcm": {"mobility": {"model": "dcm", "grid": 4, "mobile": 2}, "contacts": {"radius": 2.0}},
    "reflected_walk": {"mobility": {"model": "reflected_walk"}, "contacts": {"radius": 50.0}},
    "trace": {"mobility": {"model": "trace"}, "contacts": {"radius": 200.0}},
}
COMMON: dict[str, object] = {
    "seed": 7,
    "fleet": {"agents": 6},
    "trace": {"steps": 8, "window": "busiest"},
    "learning": {"model": "mlp", "images_per_device": 40, "alpha": 0.5, "momentum": 0.9},
    "rounds": {"cloud_every_steps": 3},
    "decentralised": {"iterations": 6, "evaluate_every": 3},
    "simulated": {"workers": 2},
}


def experiments() -> Iterator[tuple[str, Experiment]]:
    """What is run, by what its lines begin with."""
    for system in catalogue.table("algorithms").names():
        yield system, Experiment.model_validate({**COMMON, "systems": (system,)})
    for name, moves in MOBILITY.items():
        for system in catalogue.table("decentralised").names():
            yield f"{system} {name}", Experiment.model_validate({**COMMON, **moves, "systems": (system,)})


def lines(fleets: Sequence[str]) -> Iterator[str]:
    console = Console(quiet=True)
    for name, experiment in experiments():
        for fleet in fleets:
            with tempfile.TemporaryDirectory(prefix="digests-") as base:
                (path,) = run_experiment(experiment, fleet=fleet, runs_dir=Path(base), console=console)
                yield f"{name} {fleet}: model {_model(path)} records {_records(path)}"


def _model(path: Path) -> str:
    file = path / GLOBAL_MODEL
    if not file.exists():
        return "-"
    content = hashlib.sha256()
    with safe_open(file, "numpy") as model:
        # Of the entries of its vector: what else a state dict has is the same in every model of its kind.
        for name in sorted(model.metadata()["order"].split("\n")):
            content.update(name.encode() + model.get_tensor(name).tobytes())
    return content.hexdigest()[:16]


def _records(path: Path) -> str:
    """Of all that was decided: values only, names may change."""
    folder = RunFolder.open(path)
    content = hashlib.sha256()
    for record in folder.read_log():
        content.update(repr(dataclasses.astuple(_without_wall_time(record))).encode())
    folder.close()
    return content.hexdigest()[:16]


def _without_wall_time(record: RoundRecord) -> RoundRecord:
    return dataclasses.replace(record, wall_s=0.0) if isinstance(record, StepClosed) else record


def _run(line: str) -> str:
    """What a line is of: system, movement and fleet."""
    return line.partition(":")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", type=Path, help="an earlier output")
    parser.add_argument("--fleet", action="append", choices=("simulated", "rehearsal", "local"))
    asked = parser.parse_args()
    before = set(asked.against.read_text().splitlines()) if asked.against else None
    fleets, printed, others = asked.fleet or ("simulated", "rehearsal"), set(), 0
    for line in lines(fleets):
        other = before is not None and line not in before
        others += other
        printed.add(_run(line))
        print(line + ("   DIFFERS" if other else ""), flush=True)
    for run in sorted({_run(line) for line in before or ()} - printed):
        if run.split()[-1] in fleets:
            others += 1
            print(f"{run}: GONE")
    if others:
        sys.exit(f"{others} lines differ from {asked.against}")


if __name__ == "__main__":
    main()
