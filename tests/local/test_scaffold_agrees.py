"""SCAFFOLD on agents and on virtual devices: the same models, and its vectors charged as communication."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from roambench.rounds.records import CloudAggregated, EdgeAggregated, OrderAnswered, RoundRecord
from roambench.runs.folder import RunFolder

EXPERIMENT = """
name = "vectors"
systems = ["fedavg", "mohawk"]
seed = 11
[trace]
parameters = { devices = 40, steps = 48 }
steps = 6
[fleet]
agents = 6
aps = 3
[learning]
model = "mlp"
images_per_device = 24
local_epochs = 2
momentum = 0.0
[rounds]
cloud_every_steps = 2
[algorithm]
local = "scaffold"
[local]
time_scale = 12.0
cpu_slowdown = 1.0
[energy]
idle_baseline_s = 0.0
"""


def run(folder: Path, fleet: str, *changes: str) -> dict[str, list[RoundRecord]]:
    """The records of every system's run."""
    (folder / "vectors.toml").write_text(EXPERIMENT)
    runs = folder / f"{fleet}{len(changes)}"
    command = [str(Path(sys.executable).parent / "roambench"), "run", "vectors.toml", "--fleet", fleet]
    command += ["--runs-dir", str(runs), *(part for change in changes for part in ("--set", change))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, list[RoundRecord]] = {}
    for path in runs.glob("*/run.json"):
        opened = RunFolder.open(path.parent)
        told[opened.info.system] = list(opened.read_log())
        opened.close()
    return told


def digests(records: Iterable[RoundRecord]) -> list[str]:
    return [record.digest for record in records if isinstance(record, EdgeAggregated | CloudAggregated)]


def moved_bytes(records: Iterable[RoundRecord]) -> int:
    return sum(record.transferred_bytes or 0 for record in records if isinstance(record, OrderAnswered))


@pytest.mark.timeout(600)
def test_scaffold_makes_the_same_models_on_both_fleets_and_moves_twice_the_bytes(tmp_path: Path) -> None:
    simulated, local = run(tmp_path, "simulated"), run(tmp_path, "local")
    plain = run(tmp_path, "simulated", 'algorithm.local=""')
    for system in ("fedavg", "mohawk"):
        assert digests(local[system]) == digests(simulated[system])
        assert len(set(digests(local[system]))) >= 2
        assert not set(digests(plain[system])) & set(digests(local[system]))
        assert moved_bytes(local[system]) == moved_bytes(simulated[system])
        # An MLP of 2,410 parameters and no buffers: the vector is as long as the model, the header is not.
        assert 1.9 < moved_bytes(simulated[system]) / moved_bytes(plain[system]) < 2.0
