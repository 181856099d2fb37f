"""Labels that are no classes: what a data set may hold, what is refused, and how a device trains on them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import ConfigError, DataError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.contract.metric import Metric
from roambench.fleet.simulated.stacked_learner import StackedLearner, StackedTask
from roambench.learning.datasets.catalogue import drawn_subset
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.learner import Learner
from roambench.learning.partitions import PARTITIONS, PartitionRequest, make_partition
from roambench.learning.shards import IGNORED, Shard, read_shard, write_shard, wrong_labels
from roambench.learning.task_parts import build_model, load_data, score
from roambench.learning.tasks import load_task, metrics_of
from roambench.learning.training import TrainingResult
from roambench.runs.tables import STEPS

TASKS = """
import numpy as np
import torch
from torch import nn
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.evaluation import Evaluation, outputs

DRAWS = np.random.default_rng(3)
IMAGES = DRAWS.standard_normal((7, 1, 1, 3)).astype(np.float32)
VALUES = DRAWS.standard_normal((7, 2)).astype(np.float32)

class Values:
    metrics = {"mae": "lower"}
    def load(self, folder, download):
        return Dataset(IMAGES, VALUES, IMAGES[:3], VALUES[:3], 2)
    def build(self, in_channels, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(3, classes, device="meta"))
    def loss(self, outputs, values):
        return (outputs - values).square().sum(dim=1)
    def evaluate(self, module, vector, images, values):
        found = outputs(module, vector, images) - torch.from_numpy(values)
        return Evaluation(None, float("nan"), {"mae": found.abs().mean()})

class Rows(Values):
    def batches(self, images, values, batch_size, draws):
        for start in range(0, len(values), batch_size):
            yield images[start : start + batch_size], values[start : start + batch_size]

class Few(Values):
    def batches(self, images, values, batch_size, draws):
        yield images, values

class Many(Values):
    def batches(self, images, values, batch_size, draws):
        while True:
            yield images, values

class Whole(Values):
    def batches(self, images, values, batch_size, draws):
        yield images.astype(np.float64), values

class Odd(Values):
    def batches(self, images, values, batch_size, draws):
        yield images, np.zeros(len(images), np.int64)

class Fails(Values):
    def batches(self, images, values, batch_size, draws):
        yield images[:batch_size], values[:batch_size]
        raise KeyError("no more")

class Bare:
    load, build = Values.load, Values.build

class Accurate(Values):
    def evaluate(self, module, vector, images, values):
        return Evaluation(0.5, 0.0, {"mae": 1.0})

class Other(Values):
    def evaluate(self, module, vector, images, values):
        return Evaluation(None, 0.0, {"rmse": 1.0})

class Best(Values):
    metrics = {"mae": "best", "loss": "lower", "a\\x1bb": "higher"}

class None_(Values):
    metrics = {}
"""
REQUEST = PartitionRequest(np.zeros((20, 2), np.float32), 3, 5, 1.0, seed=5)


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "label_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("label_tasks", None)
    load_task.cache_clear()


def named(name: str) -> str:
    return f"label_tasks:{name}"


def spec_of(name: str, **changes: object) -> LearningSpec:
    spec = LearningSpec("", 1, 2, 0.05, 0.0, 0.0, 3, "", task=named(name), height=1, width=3)
    return replace(spec, precision="float64", **changes)  # type: ignore[arg-type]


def descended(epochs: int, start: np.ndarray) -> np.ndarray:
    """Of `Rows`: the samples in their order by threes, by hand."""
    data = load_data(named("Values"), "", None, download=False)
    weights, bias = start[:6].reshape(2, 3).copy(), start[6:].copy()
    for _ in range(epochs):
        for rows in (slice(0, 3), slice(3, 6), slice(6, 7)):
            x, y = data.train_images[rows, 0, 0].astype(float), data.train_labels[rows].astype(float)
            error = 2.0 * (x @ weights.T + bias - y) / len(x)
            weights -= 0.05 * error.T @ x
            bias -= 0.05 * error.sum(axis=0)
    return np.concatenate([weights.reshape(-1), bias])


def test_a_device_descends_the_tasks_loss_on_the_tasks_own_batches() -> None:
    data = load_data(named("Rows"), "", None, download=False)
    start = np.linspace(-1.0, 1.0, 8)
    result = Learner(spec_of("Rows")).train(
        Shard(data.train_images, data.train_labels), LocalTraining(2, 7), start
    )
    np.testing.assert_allclose(result.vector, descended(2, start), rtol=1e-12)
    assert (result.samples, result.sgd_steps) == (7, 6)


def test_the_stacked_backend_learns_values_as_the_workers_do() -> None:
    data = load_data(named("Values"), "", None, download=False)
    shard, start = Shard(data.train_images, data.train_labels), np.linspace(-1.0, 1.0, 8, dtype=np.float32)
    spec = replace(spec_of("Values"), precision="float32")
    own = Learner(spec).train(shard, LocalTraining(2, 7), start)
    (stacked,) = StackedLearner(spec, stack=4).train([StackedTask(shard, start, None, "ce", 6, 7)])
    assert isinstance(stacked, TrainingResult)
    assert stacked.vector == pytest.approx(own.vector, abs=1e-6)
    assert np.abs(own.vector - start).max() > 0.01


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Few", "expected 3 batches of an epoch, 7 samples by 3, got 1"),
        ("Many", "expected 3 batches of an epoch, 7 samples by 3, got more than 3"),
        ("Whole", r"expected images float32 \(n, channels, height, width\)"),
        ("Odd", "labels: expected float32 of 2 axes, got int64 of 1"),
        ("Fails", "fails: KeyError: 'no more' .*label_tasks.py"),
    ],
)
def test_batches_that_are_none_are_one_sentence_with_the_task(name: str, sentence: str) -> None:
    data = load_data(named(name), "", None, download=False)
    with pytest.raises(ConfigError, match=rf"task 'label_tasks:{name}': batches:? ?{sentence}"):
        Learner(spec_of(name)).train(
            Shard(data.train_images, data.train_labels), LocalTraining(2, 7), np.zeros(8)
        )


@pytest.mark.parametrize(
    "labels",
    [
        np.float32([[0.5, -2.0], [1.0, 0.0]]),
        np.array([[1, 0, IGNORED], [IGNORED, IGNORED, 1]]),
    ],
)
def test_a_shard_comes_back_as_it_was_written(labels: np.ndarray, tmp_path: Path) -> None:
    images = np.ones((2, 1, 1, 3), np.float32)
    write_shard(tmp_path / "s", Shard(images, labels))
    found = read_shard(tmp_path / "s", in_channels=1, classes=2).labels
    assert (found.dtype, found.tolist()) == (labels.dtype, labels.tolist())


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            np.float32([0.5, 1.0]),
            r"expected int64 of shape \(2,\), .*float32 of shape \(2, values\), got float32",
        ),
        (np.ones((2, 2)), "got float64"),
        (np.ones((2, 3), np.float32), "expected 2 values per sample, as many as `classes`, got float32"),
        (np.float32([[0.0, np.nan], [1.0, 1.0]]), "expected finite values, got NaN or infinity"),
        (np.array([[0, 1], [IGNORED, IGNORED]]), "at least one place of every sample that is not -100"),
        (np.array([[0, 2], [1, 1]]), r"expected 0\.\.1, got 0\.\.2"),
        (np.array([[0, -1], [1, 1]]), r"expected 0\.\.1, got -1\.\.1"),
        (np.zeros((2, 1, 1), np.int64), "got int64 of shape"),
        (np.int64(3), "got int64|got ndarray"),
    ],
)
def test_labels_of_no_known_kind_are_refused_with_what_was_expected(
    labels: np.ndarray, sentence: str
) -> None:
    assert re.search(sentence, wrong_labels(labels, 2, 2))


@pytest.mark.parametrize("rule", sorted(PARTITIONS.own.keys() - {"iid"}))
def test_partitions_by_class_refuse_labels_without_classes(rule: str) -> None:
    with pytest.raises(ConfigError, match='goes by class, and the labels are no classes: expected "iid"'):
        make_partition(rule, REQUEST)


def test_iid_and_subsets_need_no_classes() -> None:
    parts = make_partition("iid", REQUEST)
    assert [len(set(part.tolist())) for part in parts] == [5, 5, 5]
    part = drawn_subset(REQUEST.labels, 8, "test")
    assert len(set(part.tolist())) == 8
    assert 0 <= part.min() <= part.max() < 20


def test_groups_stand_for_classes() -> None:
    groups = np.array([0, 3, 0, 3, 1, 1, 1])
    data = load_data(named("Values"), "", None, download=False)
    grouped = replace(data, train_groups=groups)
    assert (data.groups, data.group_count) == (None, 0)
    assert grouped.groups is groups
    assert grouped.group_count == 4


def test_a_task_without_loss_evaluate_and_metrics_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="there is neither cross-entropy nor accuracy: expected loss, eval"):
        load_data(named("Bare"), "", None, download=False)


def test_metrics_are_checked_and_are_in_the_order_of_the_task() -> None:
    assert metrics_of(named("Values")) == (Metric("mae", "lower"),)
    assert metrics_of("") == ()
    with pytest.raises(ConfigError) as caught:
        load_task(named("Best"))
    told = " ".join(caught.value.problems)
    assert "metrics: 'mae': expected \"higher\" or \"lower\", what is better, got 'best'" in told
    assert "metrics: 'loss': expected a name" in told
    assert "metrics: 'a\\x1bb': expected a name" in told
    with pytest.raises(ConfigError, match=r'expected \{name: "higher" or "lower", .* got \{\}'):
        load_task(named("None_"))
    for taken in STEPS.names:
        assert taken in told, "a metric of this name would be a second column of it"


def test_a_score_has_the_tasks_metrics_and_no_accuracy() -> None:
    data = load_data(named("Values"), "", None, download=False)
    vector = np.linspace(-1.0, 1.0, 8, dtype=np.float32)

    def scored(name: str) -> object:
        module = build_model(named(name), "", 1, 2)
        return score(named(name), module, vector, data.test_images, data.test_labels)

    found = scored("Values")
    said = data.test_images[:, 0, 0] @ vector[:6].reshape(2, 3).T + vector[6:]
    truth = np.abs(said - data.test_labels).mean()
    assert (found.accuracy, found.metrics) == (None, {"mae": pytest.approx(truth, rel=1e-6)})  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"expected an accuracy of None, as labels are no classes, got 0"):
        scored("Accurate")
    with pytest.raises(ConfigError, match=r"a number for each of the task's metrics, \['mae'\], got"):
        scored("Other")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: replace(data, test_labels=data.test_labels[:, :1]), "test_labels: expected 2 values"),
        (
            lambda data: replace(data, train_groups=np.zeros((7, 2), np.float32)),
            "train_groups: expected a group",
        ),
        (
            lambda data: replace(data, train_groups=np.zeros(6, np.int64)),
            r"train_groups: expected int64 .*\(7,\)",
        ),
        (
            lambda data: replace(data, test_labels=np.zeros((3, 4), np.int64)),
            r"test_labels: expected float32 of shape \(2,\) each, as the training labels",
        ),
        (
            lambda data: replace(data, test_images=data.test_images * np.float32(np.nan)),
            "test_images: expected finite values, got NaN or infinity",
        ),
    ],
)
def test_data_that_do_not_go_together_are_refused(
    change: Callable[[Dataset], Dataset], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = load_task(named("Values"))
    wrong = change(task.load(None, False))
    monkeypatch.setattr(type(task), "load", lambda self, folder, download: wrong)
    with pytest.raises(DataError, match=sentence):
        load_data(named("Values"), "", None, download=False)
