"""A learning task as one object: data, who gets what, model and score; ours from the tables, or the user's.

`learning.task = "package.module:Task"` names a class (or a function) that is called without arguments. The
module is imported on the controller and in every process that trains, so it has to be installed there, or
stand in a folder of PYTHONPATH; it is never sent over the network.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Final, Protocol, SupportsFloat, cast

import numpy as np
import torch
from torch import Tensor, nn

from roambench.contract.errors import ConfigError, DataError, RoambenchError
from roambench.contract.metric import Better, Metric
from roambench.contract.orders import Vector
from roambench.learning.datasets.catalogue import load_dataset
from roambench.learning.datasets.checks import wrong_data
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.evaluation import Evaluation, evaluate
from roambench.learning.local_algorithms import cross_entropy
from roambench.learning.models.build import build, draw_weights
from roambench.learning.partition import Indices
from roambench.learning.partitions import PARTITIONS, PartitionRequest, make_partition
from roambench.learning.shards import Images, Labels, are_classes

if TYPE_CHECKING:
    from roambench.learning.local_algorithms import SampleLoss

#: What a task must have, and may have besides.
HOOKS: Final = ("load", "build")
OPTIONAL_HOOKS: Final = ("partition", "batches", "loss", "evaluate")
_METRIC: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_ .@-]{0,39}")
#: Columns of a run's steps, in which a task's metrics are columns, too.
_TAKEN: Final = frozenset({
    "step", "present", "aggregated", "outstanding", "participating_aps", "cloud", "accuracy", "loss",
    "wall_s", "local model divergence",
})  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Task(Protocol):
    """A learning task's functions. A user's own needs `load` and `build`; the others have the usual meaning
    if absent.

    The same call must give the same result in every process: draws are keyed by the seed that is passed.
    Where labels are no classes, it needs `loss`, `evaluate` and `metrics`, too.
    """

    #: What `evaluate` scores besides accuracy, or where there is none instead of it, then the first is what
    #: runs are judged by; and whether "higher" or "lower" values are better. Absent: nothing.
    metrics: Mapping[str, Better]

    def load(self, folder: Path | None, download: bool) -> Dataset:
        """The data: images float32 (n, channels, height, width), and their labels (`Dataset`).

        `folder` is `learning.data_path` (None: not given); fetch nothing unless `download`.
        """

    def build(self, in_channels: int, classes: int) -> nn.Module:
        """The model: (n, channels, height, width) -> (n, classes) logits, or what `loss` takes; every
        parameter is trained.

        Parameters on the "meta" device are drawn for it, as those of our own models are. All others stay
        as they are: torch's generator is seeded around the call, so drawn ones are the same everywhere.
        """

    def partition(self, request: PartitionRequest) -> Sequence[Indices]:
        """For each device the indices of its training images, int64. Absent: `learning.partition`."""

    def batches(
        self, images: Images, labels: Labels, batch_size: int, draws: np.random.Generator
    ) -> Iterable[tuple[Images, Labels]]:
        """The mini-batches of one epoch on a device's samples: as many as these are by `batch_size`, rounded
        up; images and labels may be shorter or narrower than the samples. `draws` is keyed by the run's seed,
        the training and the epoch, nothing else may decide. Absent: every sample once, in a drawn order.
        """

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Losses (n,) of the samples, of what the model gives for them and their labels. Devices descend
        their mean wherever the local algorithm would descend cross-entropy's. Absent: cross-entropy.
        """

    def evaluate(self, module: nn.Module, vector: Vector, images: Images, labels: Labels) -> Evaluation:
        """Score the flat model `vector` (`roambench.learning.evaluation.outputs` asks it). The answer has
        every one of `metrics`, and an accuracy of None where labels are no classes. Absent: accuracy, and the
        mean of `loss`."""


@cache
def load_task(name: str) -> Task:
    """The task "package.module:Name", made once per process.

    Its module runs with the rights of this process: it is the user's own code. ConfigError says which
    module, what is missing of it, and which of its methods no run would ever call.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError([f"task {name!r}: expected package.module:Name"])
    where, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(f"{error.name}.")):
            text = (
                f"there is no module {error.name} here; install it wherever the run trains, or set PYTHONPATH"
            )
        else:
            text = f"{where} needs the module {error.name}, which is not installed here"
        raise ConfigError([f"task {name!r}: {text}"]) from None
    except Exception as error:  # whatever the user's module does when it is imported
        raise ConfigError([f"task {name!r}: importing {where} fails: {error_text(error)}"]) from error
    maker = getattr(module, attribute, None)
    if not callable(maker):
        others = sorted(key for key, row in vars(module).items() if _is_task(row))
        hint = f"; it has {', '.join(others)}" if others else ""
        raise ConfigError([f"task {name!r}: the module {where} has no class or function {attribute}{hint}"])
    try:
        task = maker()
    except Exception as error:
        raise ConfigError([f"task {name!r}: {attribute}() fails: {error_text(error)}"]) from error
    wrong = [f"has no {hook}" for hook in HOOKS if not hasattr(task, hook)]
    wrong += [
        f"has {hook}, which cannot be called"
        for hook in (*HOOKS, *OPTIONAL_HOOKS)
        if hasattr(task, hook) and not callable(getattr(task, hook))
    ]
    known = (*HOOKS, *OPTIONAL_HOOKS)
    wrong += [
        f"has {name}, which nobody would call: a task's methods are {', '.join(known)}; begin the name of a "
        "helper with an underscore"
        for name in dir(task)
        if not name.startswith("_")
        and name not in (*known, "metrics")
        and inspect.isroutine(getattr(task, name))
    ]
    wrong += _wrong_metrics(task)
    if wrong:
        raise ConfigError([f"task {name!r}: {attribute} {text}" for text in wrong])
    return cast(Task, task)


def metrics_of(task: str) -> tuple[Metric, ...]:
    """The task's own metrics, the one it is judged by first; none for no task, or one without."""
    own: Mapping[str, Better] = getattr(load_task(task), "metrics", {}) if task else {}
    return tuple(Metric(name, better) for name, better in own.items())


def build_model(task: str, model: str, in_channels: int, classes: int, seed: int = 0) -> nn.Module:
    """The task's model, or without a task the catalogue's `model`; weights are drawn from `seed`.

    Every call with one seed gives the same weights. ConfigError where the task's hook fails.
    """
    if not task:
        return build(model, in_channels, classes, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = asked(task, "build", in_channels, classes)
    if not isinstance(module, nn.Module):
        raise ConfigError([f"task {task!r}: build: expected a torch.nn.Module, got {type(module).__name__}"])
    draw_weights(module, seed, only_meta=True)
    if not any(True for _ in module.parameters()):
        raise ConfigError([f"task {task!r}: build: expected a model with parameters, got none"])
    return module


def load_data(task: str, dataset: str, folder: Path | None, *, download: bool) -> Dataset:
    """The task's data, or without a task the data set of that name. DataError says what is wrong with it."""
    where = f"task {task!r}: load" if task else f"data set {dataset!r}"
    found = (
        asked(task, "load", folder, download) if task else load_dataset(dataset, folder, download=download)
    )
    if not isinstance(found, Dataset):
        raise DataError(f"{where}: expected a Dataset, got {type(found).__name__}")
    if wrong := wrong_data(found):
        raise DataError(f"{where}: {wrong}")
    if not are_classes(found.train_labels):
        needed = ("loss", "evaluate", "metrics")
        lacking = [hook for hook in needed if not task or not hasattr(load_task(task), hook)]
        if lacking:
            raise ConfigError(
                [
                    f"{where}: labels that are no classes need a task with {', '.join(needed)}, for there is "
                    f"neither cross-entropy nor accuracy: expected {', '.join(lacking)}, too"
                ]
            )
    return found


def share_out(task: str, rule: str, request: PartitionRequest) -> list[Indices]:
    """Every device's images by the task's own `partition`, or where it has none by the rule of that name."""
    own = bool(task) and hasattr(load_task(task), "partition")
    if not own and rule in PARTITIONS.own:
        return make_partition(rule, request)
    where = f"task {task!r}: partition" if own else f"partition {rule!r}"
    dealt = asked(task, "partition", request) if own else make_partition(rule, request)
    parts = [np.asarray(part) for part in dealt]
    if len(parts) != request.devices:
        raise DataError(f"{where}: expected {request.devices} devices, got {len(parts)}")
    last = len(request.labels) - 1
    for device, part in enumerate(parts):
        if part.ndim != 1 or not len(part) or part.dtype.kind != "i" or part.min() < 0 or part.max() > last:
            raise DataError(f"{where}: device {device}: expected one or more indices in 0..{last}")
    return [part.astype(np.int64) for part in parts]


def score(
    task: str,
    module: nn.Module,
    vector: Vector,
    images: Images,
    labels: Labels,
    *,
    by_class: bool = False,
) -> Evaluation:
    """The task's own `evaluate`, or ours. ConfigError where the task's is no Evaluation with an accuracy
    (None where labels are no classes), or has others than the task's `metrics`; a loss may be NaN, of a model
    that diverged or a task that has none, and so may a metric. `by_class` is for ours."""
    if not task or not hasattr(load_task(task), "evaluate"):
        if not are_classes(labels):
            raise ConfigError([f"task {task!r}: labels that are no classes need a task with evaluate"])
        return evaluate(
            module, vector, images, labels, loss=own_loss(task) or cross_entropy, by_class=by_class
        )
    found = asked(task, "evaluate", module, vector, images, labels)
    if not isinstance(found, Evaluation):
        raise ConfigError([f"task {task!r}: evaluate: expected an Evaluation, got {type(found).__name__}"])
    if not are_classes(labels):
        if found.accuracy is not None:
            wanted = "an accuracy of None, as labels are no classes"
            raise ConfigError([f"task {task!r}: evaluate: expected {wanted}, got {found.accuracy}"])
    elif found.accuracy is None or not 0.0 <= found.accuracy <= 1.0:
        raise ConfigError([f"task {task!r}: evaluate: expected an accuracy in 0..1, got {found.accuracy}"])
    metrics, own = found.metrics, [metric.name for metric in metrics_of(task)]
    if (
        not isinstance(metrics, Mapping)
        or set(metrics) != set(own)
        or not all(isinstance(value, SupportsFloat) for value in metrics.values())
    ):
        wanted = f"a number for each of the task's metrics, {own}"
        raise ConfigError([f"task {task!r}: evaluate: metrics: expected {wanted}, got {metrics!r}"])
    return replace(found, metrics={name: float(metrics[name]) for name in own})


def own_loss(task: str) -> SampleLoss | None:
    """The task's own `loss`, None where it has none. It raises ConfigError where it is no loss per sample."""
    if not task or not hasattr(load_task(task), "loss"):
        return None

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        found = asked(task, "loss", logits, labels)
        if not isinstance(found, Tensor) or found.shape != labels.shape[:1]:
            got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            wanted = f"a tensor of shape {tuple(labels.shape[:1])}, one per sample"
            raise ConfigError([f"task {task!r}: loss: expected {wanted}, got {got}"])
        return found

    return loss


def asked(task: str, hook: str, *arguments: object) -> Any:
    """What a function of the task returns; ConfigError, in one sentence, where it fails."""
    try:
        return getattr(load_task(task), hook)(*arguments)
    except RoambenchError:
        raise
    except Exception as error:
        raise ConfigError([f"task {task!r}: {hook} fails: {error_text(error)}"]) from error


def _wrong_metrics(task: object) -> list[str]:
    if not hasattr(task, "metrics"):
        return []
    metrics, wanted = task.metrics, '{name: "higher" or "lower", what is better}'
    if not isinstance(metrics, Mapping) or not metrics:
        got = "a function" if callable(metrics) else repr(metrics)
        return [f"has metrics: expected {wanted}, got {got}"]
    wrong = [
        f"has metrics: {name!r}: expected a name of up to 40 letters, digits, spaces and _ - . @ that is "
        f"none of {', '.join(sorted(_TAKEN))}"
        for name in metrics
        if not isinstance(name, str) or not _METRIC.fullmatch(name) or name in _TAKEN
    ]
    wrong += [
        f'has metrics: {name!r}: expected "higher" or "lower", what is better, got {better!r}'
        for name, better in metrics.items()
        if better not in ("higher", "lower")
    ]
    if not hasattr(task, "evaluate"):
        wrong.append("has metrics and no evaluate that would score them")
    return wrong


def _is_task(row: object) -> bool:
    return isinstance(row, type) and all(callable(getattr(row, hook, None)) for hook in HOOKS)


def error_text(error: Exception) -> str:
    """The error in words and, where a function of the task raised it, its line."""
    frame = extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{text} ({frame.filename}:{frame.lineno})"
