"""Values, several labels at once, a class per place of a sequence: the tasks of docs/adding.md make the same
models on agents, on virtual devices and without a server, and score what NumPy makes of the saved model."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_diabetes

import forked_commands
import label_tasks
import roambench as rb
from roambench.rounds.records import CloudAggregated, EdgeAggregated, ModelsScored
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder
from roambench.runs.models import load_model
from samples import sampled

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding.md").read_text("utf-8")
FILES = {
    **dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)),
    **label_tasks.FILES,
}
#: With deadlines that a busy machine keeps, too.
QUICK = (
    "local.time_scale=12.0",
    "local.cpu_slowdown=1.0",
    "energy.idle_baseline_s=0.0",
    "rounds.rest_s=0",
    "fleet.deadline_s=3600",
)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("labels")
    for name in ("__init__", "diabetes", "traits", "sums", "buckets"):
        (found / "bench_extras").mkdir(exist_ok=True)
        (found / "bench_extras" / f"{name}.py").write_text(FILES[f"bench_extras/{name}.py"])
    (found / "labels.toml").write_text(FILES["labels.toml"])
    return found


def roambench(folder: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1", "COLUMNS": "200"}
    done = forked_commands.roambench(*command, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(folder: Path, task: str, fleet: str, *changes: str) -> Path:
    """The run's folder. Nothing that it tells, with all tables of its report, speaks of accuracy."""
    runs = folder / f"{task.partition('.')[2].partition(':')[0]}-{fleet}{len(changes)}"
    sets = [f'learning.task="{task}"', *QUICK, *changes]
    told = roambench(
        folder, "run", "labels.toml", "--full", "--fleet", fleet, "--runs-dir", str(runs),
        *(part for change in sets for part in ("--set", change)),
    )  # fmt: skip
    assert "final " in told
    assert not re.search(r"\bacc(uracy)?\b", told.lower().replace("token accuracy", ""))
    (found,) = runs.glob("labels/latest/*/run.json")
    return found.parent


def logged(path: Path, *kinds: type) -> list[Any]:
    opened = RunFolder.open(path)
    try:
        return [record for record in opened.read_log() if isinstance(record, kinds)]
    finally:
        opened.close()


def layers(vector: np.ndarray, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """The flat model cut up: parameters in the order of the module."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    assert ends[-1] == len(vector)
    parts = np.split(vector.astype(np.float64), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def of_diabetes(vector: np.ndarray) -> dict[str, float]:
    """By hand from scikit-learn's own table: nothing of the task takes part."""
    figures, progress = load_diabetes(return_X_y=True)
    weights, bias = layers(vector, (1, 10), (1,))
    said = 152.0 + 77.0 * (figures[342:] / figures.std() @ weights.T + bias)[:, 0]
    error = ((said - progress[342:]) ** 2).mean()
    return {"rmse": error**0.5, "R2": 1.0 - error / progress[342:].var()}


def of_traits(vector: np.ndarray, module: ModuleType) -> dict[str, float]:
    data = module.Traits().load(None, False)
    first, bias, second, other = layers(vector, (32, 64), (32,), (4, 32), (4,))
    hidden = np.maximum(data.test_images.reshape(-1, 64) @ first.T + bias, 0.0)
    said, holds = hidden @ second.T + other > 0.0, data.test_labels == 1.0
    precision, recall = (said & holds).sum() / said.sum(), (said & holds).sum() / holds.sum()
    right = np.mean([list(a) == list(b) for a, b in zip(said, holds, strict=True)])
    return {"micro F1": 2.0 / (1.0 / precision + 1.0 / recall), "all right": right}


def of_sums(vector: np.ndarray, module: ModuleType) -> dict[str, float]:
    data = module.Sums().load(None, False)  # in both modules
    known, look, bias, last, other = layers(vector, (5, 8), (32, 8, 3), (32,), (4, 32, 1), (4,))
    right = counted = 0
    for numbers, wanted in zip(data.test_images[:, 0, 0].astype(int), data.test_labels, strict=True):
        seen = np.pad(known[numbers], ((1, 1), (0, 0)))
        for place, label in enumerate(wanted):
            if label < 0:
                continue
            hidden = np.maximum(np.einsum("kc,hck->h", seen[place : place + 3], look) + bias, 0.0)
            right += int((last[:, :, 0] @ hidden + other).argmax() == label)
            counted += 1
    return {"token accuracy": right / counted}


@dataclass(frozen=True)
class Case:
    task: str
    changes: Sequence[str]
    truth: Callable[[np.ndarray, ModuleType], Mapping[str, float]]
    better: Mapping[str, str]


CASES = {
    "diabetes": Case(
        "bench_extras.diabetes:Diabetes",
        (),
        lambda vector, _module: of_diabetes(vector),
        {"rmse": "lower", "R2": "higher"},
    ),
    "traits": Case(
        "bench_extras.traits:Traits",
        ('learning.partition="dirichlet"', "learning.alpha=0.5"),
        of_traits,
        {"micro F1": "higher", "all right": "higher"},
    ),
    "sums": Case("bench_extras.sums:Sums", (), of_sums, {"token accuracy": "higher"}),
    "buckets": Case("bench_extras.buckets:BucketedSums", (), of_sums, {"token accuracy": "higher"}),
}


@pytest.mark.parametrize("name", sampled(["traits", "sums"], CASES))
def test_models_are_equal_on_both_fleets_and_metrics_what_numpy_makes_of_them(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    module = pytest.importorskip(f"bench_extras.{name}")
    case = CASES[name]
    simulated, local = (run(folder, case.task, fleet, *case.changes) for fleet in ("simulated", "local"))
    digests = [
        [record.digest for record in logged(path, EdgeAggregated, CloudAggregated)]
        for path in (simulated, local)
    ]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) >= 4
    truth = case.truth(load_model(simulated / GLOBAL_MODEL), module)
    for path in (simulated, local):
        steps = pq.read_table(path / "steps.parquet")
        assert "accuracy" not in steps.column_names
        for metric, better in case.better.items():
            assert steps.schema.field(metric).metadata[b"better"] == better.encode()
            assert steps[metric].to_pylist()[-1] == pytest.approx(truth[metric], rel=1e-5)
        assert len(set(steps[next(iter(truth))].to_pylist())) >= 3  # something was learned
    better = rb.load(simulated, local).table.better
    assert {metric: better[f"best {metric}"] for metric in case.better} == case.better
    assert (better[next(iter(truth))], better["trainings"]) == (next(iter(case.better.values())), "")


@pytest.mark.parametrize("name", sampled(["diabetes"], ["diabetes", "sums"]))
def test_without_a_server_the_metric_is_the_mean_over_the_devices(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    case = CASES[name]
    changes = (
        'systems=["d_psgd"]', 'mobility.model="random"', "mobility.mobile=2", "decentralised.iterations=6",
        "decentralised.evaluate_every=3",
    )  # fmt: skip
    simulated, local = (run(folder, case.task, fleet, *changes) for fleet in ("simulated", "local"))
    told = [logged(path, ModelsScored) for path in (simulated, local)]
    assert [record.digests for record in told[0]] == [record.digests for record in told[1]]
    metric, better = next(iter(case.better.items()))
    steps = pq.read_table(simulated / "steps.parquet")
    means = [value for value in steps[metric].to_pylist() if value is not None]
    assert [statistics.mean(record.scores) for record in told[0]] == pytest.approx(means)
    table = json.loads(roambench(folder, "report", str(simulated), "--json"))["runs"][0]["decentralised"]
    best, worst = (min, max) if better == "lower" else (max, min)
    assert [(row["best"], row["worst"]) for row in table["scores"]] == [
        (best(record.scores), worst(record.scores)) for record in told[0]
    ]
    shown = roambench(folder, "report", str(simulated), "--full")
    assert f"final {metric}, mean of devices ({better} is better)" in shown
    assert "of the worst device" in shown
    assert [value is not None for value in steps[metric].to_pylist()] == [False, False, True] * 2


def test_a_sweep_has_the_mean_and_the_deviation_of_the_tasks_metrics(folder: Path) -> None:
    (folder / "seeds.toml").write_text('experiment = "labels.toml"\n[grid]\nseeds = 2\n')
    task = ("--set", f'learning.task="{CASES["diabetes"].task}"')
    told = roambench(folder, "sweep", "seeds.toml", "--jobs", "1", "-o", "swept", *task)
    assert "final rmse ↓" in told
    assert "↓ lower is better" in told
    (better,) = pq.read_schema(folder / "swept" / "table.parquet").field("final rmse_mean").metadata.items()
    assert better == (b"better", b"lower")
    assert "accuracy" not in told
    found = pq.read_table(folder / "swept" / "table.parquet").to_pylist()[0]
    steps = [pq.read_table(path) for path in (folder / "swept").glob("points/*/runs/*/steps.parquet")]
    last = [table["rmse"].to_pylist()[-1] for table in steps]
    assert len(set(last)) == 2
    assert found["final rmse_mean"] == pytest.approx(np.mean(last))
    assert found["final rmse_sd"] == pytest.approx(np.std(last, ddof=1))
