"""SCAFFOLD, FedDyn and FedNova on agents and on virtual devices: the same models, and the vectors that travel
with SCAFFOLD's charged as communication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from forked_commands import roambench
from roambench.rounds.records import CloudAggregated, EdgeAggregated, OrderAnswered, RoundRecord
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder
from roambench.runs.models import load_model

EXPERIMENT = """
name = "vectors"
systems = ["fedavg", "mohawk"]
seed = 11
trace = { parameters = { devices = 40, steps = 48 }, steps = 4 }
fleet = { agents = 4, aps = 3 }
learning = { model = "mlp", images_per_device = 24, local_epochs = 2, momentum = 0.0 }
rounds = { cloud_every_steps = 2, rest_s = 0.0 }
algorithm = { local = "scaffold" }
local = { time_scale = 12.0, cpu_slowdown = 1.0 }
energy = { idle_baseline_s = 0.0 }
"""


@dataclass(frozen=True)
class Run:
    """What a run wrote."""

    records: Sequence[RoundRecord]
    model: np.ndarray  # the last global one

    @property
    def digests(self) -> list[str]:
        kinds = EdgeAggregated | CloudAggregated
        return [record.digest for record in self.records if isinstance(record, kinds)]

    @property
    def moved_bytes(self) -> int:
        answers = (record for record in self.records if isinstance(record, OrderAnswered))
        return sum(answer.transferred_bytes or 0 for answer in answers)


def run(folder: Path, fleet: str, *changes: str) -> dict[str, Run]:
    """The run of every system."""
    (folder / "vectors.toml").write_text(EXPERIMENT)
    runs = folder / f"{fleet}{len(changes)}"
    command = ["run", "vectors.toml", "--fleet", fleet, "--runs-dir", str(runs)]
    done = roambench(*command, *(part for change in changes for part in ("--set", change)), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Run] = {}
    for path in runs.glob("vectors/latest/*/run.json"):
        opened = RunFolder.open(path.parent)
        told[opened.info.system] = Run(list(opened.read_log()), load_model(path.parent / GLOBAL_MODEL))
        opened.close()
    return told


@pytest.mark.timeout(600)
def test_scaffold_makes_the_same_models_on_both_fleets_and_moves_twice_the_bytes(tmp_path: Path) -> None:
    simulated, local = run(tmp_path, "simulated"), run(tmp_path, "local")
    plain = run(tmp_path, "simulated", 'algorithm.local=""')
    for system in ("fedavg", "mohawk"):
        assert local[system].digests == simulated[system].digests
        assert len(set(local[system].digests)) >= 2
        assert not set(plain[system].digests) & set(local[system].digests)
        assert local[system].moved_bytes == simulated[system].moved_bytes
        # An MLP of 2,410 parameters and no buffers: the vector is as long as the model, the header is not.
        assert 1.9 < simulated[system].moved_bytes / plain[system].moved_bytes < 2.0


@pytest.mark.timeout(600)
def test_feddyn_and_fednova_make_the_same_models_on_both_fleets(tmp_path: Path) -> None:
    # Devices with very different amounts of data, so that they take different numbers of steps.
    changes = (
        'systems=["fedavg", "feddyn", "fednova"]',
        'algorithm.local=""',
        'learning.partition="dirichlet_split"',
        "learning.alpha=0.3",
    )
    simulated, local = (run(tmp_path, fleet, *changes) for fleet in ("simulated", "local"))
    for system in ("feddyn", "fednova"):
        assert local[system].digests == simulated[system].digests
        assert np.abs(local[system].model - local["fedavg"].model).max() > 1e-3
        assert local[system].moved_bytes == simulated[system].moved_bytes == local["fedavg"].moved_bytes
