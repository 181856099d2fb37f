"""Local algorithms of other packages: their loss, correction, clipping and schedule, against plain NumPy."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from foreign_packages import importable, install
from roambench.contract.errors import ConfigError, ModelError
from roambench.contract.learning_spec import LearningSpec
from roambench.fleet.simulated.stacked_learner import StackedLearner, StackedTask
from roambench.learning.layout import flatten
from roambench.learning.local_algorithms import local_algorithm
from roambench.learning.models.build import build
from roambench.learning.shards import Shard
from trained_with import trained_with

ROWS = """
import math

from roambench.learning.local_algorithms import LocalAlgorithm, LocalAlgorithmRow


def squared(logits, labels):
    return (logits[:, 0] - labels).square()


def build(pull, clip):
    def correct(gradients, parameters, run, step):
        for gradient, parameter, begun in zip(gradients, parameters, run.start, strict=True):
            gradient += pull * (step + 1) * (parameter - begun) + 0.125
    return LocalAlgorithm(
        squared, correct=correct, clip_norm=clip, schedule=lambda step, steps: 1 - step / steps
    )


MINE = LocalAlgorithmRow(build, {"pull": 0.5, "clip": 2.0})
SCALAR = LocalAlgorithmRow(lambda: LocalAlgorithm(lambda logits, labels: (logits[:, 0] - labels).mean()))
UNKNOWN = LocalAlgorithmRow(lambda: LocalAlgorithm(squared, afterwards=print))
NOT_ONE = LocalAlgorithmRow(lambda: squared)
"""


@pytest.fixture(scope="module")
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = {name.lower(): f"pocket_bench.rows:{name}" for name in ("MINE", "SCALAR", "UNKNOWN", "NOT_ONE")}
    folder = tmp_path_factory.mktemp("package")
    return install(folder, {"pocket_bench/rows.py": ROWS}, {"roambench.local_algorithms": points})


@pytest.fixture(autouse=True)
def _site(_installed: Path) -> Iterator[None]:
    with importable(_installed):
        yield


def trained(text: str) -> np.ndarray:
    """Full batches on one point, x = (1, 2), y = 3, in float64."""
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 1)).double()
    images, labels = np.array([1.0, 2.0], np.float32).reshape(1, 1, 1, 2), np.array([3])
    start = np.array([0.5, -0.25, 0.1])
    return trained_with(
        module, images, labels, start=start, epochs=4, batch_size=1, learning_rate=0.1, seed=1, objective=text
    ).vector


@pytest.mark.parametrize(("text", "pull", "clip"), [("mine", 0.5, 2.0), ("mine:pull=2,clip=50", 2.0, 50.0)])
def test_every_hook_does_in_float64_what_the_same_lines_of_numpy_do(text: str, pull: float, clip: float):
    w = start = np.array([0.5, -0.25, 0.1])
    x = np.array([1.0, 2.0, 1.0])
    for step in range(4):
        g = 2.0 * (w @ x - 3.0) * x + pull * (step + 1) * (w - start) + 0.125
        g = g * min(1.0, clip / np.linalg.norm(g))
        w = w - 0.1 * (1.0 - step / 4) * g
    assert trained(text) == pytest.approx(w, abs=1e-12)


def test_a_loss_that_is_not_one_per_sample_is_refused():
    with pytest.raises(
        ModelError, match=r"loss of 'scalar': expected a tensor of shape \(1,\), one per sample, got \(\)"
    ):
        trained("scalar")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("unknown", "cannot be built from its defaults: TypeError: .* keyword argument 'afterwards'"),
        ("not_one", "expected it to build a LocalAlgorithm, got function"),
    ],
)
def test_an_unknown_hook_and_a_row_of_something_else_name_the_package(name: str, sentence: str):
    with pytest.raises(
        ConfigError, match=rf"local algorithm '{name}' \(pocket-bench pocket_bench.rows:.*{sentence}"
    ):
        local_algorithm(name)


def test_the_stacked_backend_refuses_what_changes_steps_in_one_sentence():
    spec = LearningSpec("mlp", 1, 10, 0.05, 0.0, 0.0, 8, "")
    start = flatten(build("mlp", 1, 10, seed=1))
    shard = Shard(np.zeros((8, 1, 32, 32), np.float32), np.zeros(8, np.int64))
    (refused,) = StackedLearner(spec, stack=4).train([StackedTask(shard, start, None, "mine", 2, 1)])
    assert refused == (
        "objective 'mine' corrects, clips or schedules steps, which the stacked backend cannot: expected "
        'simulated.backend = "workers" or "ray"'
    )
