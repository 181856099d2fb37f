"""A learning task of the user's: what it has to have, and how it is found, checked and called.

`learning.task = "package.module:Task"` names a class (or a function) that is called without arguments. The
module is imported on the controller and in every process that trains, so it has to be installed there, or
stand in a folder of PYTHONPATH; it is never sent over the network. What it leaves out is ours (`task_parts`).
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from roambench.contract.errors import ConfigError, RoambenchError, error_text
from roambench.contract.metric import TAKEN, Better, Metric

if TYPE_CHECKING:  # who checks an experiment's task or asks for its metrics needs no torch
    from pathlib import Path

    import numpy as np
    from torch import Tensor, nn

    from roambench.contract.orders import Vector
    from roambench.learning.datasets.dataset import Dataset
    from roambench.learning.evaluation import Evaluation
    from roambench.learning.partition import Indices
    from roambench.learning.partitions import PartitionRequest
    from roambench.learning.shards import Images, Labels

#: What a task must have, and may have besides.
HOOKS: Final = ("load", "build")
OPTIONAL_HOOKS: Final = ("partition", "batches", "loss", "evaluate")
_METRIC: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_ .@-]{0,39}")
_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


class Task(Protocol):
    """A learning task's functions. A user's own needs `load` and `build`; the others have the usual meaning
    if absent.

    The same call must give the same result in every process: draws are keyed by the seed that is passed.
    torch's, NumPy's and Python's generators are seeded around every call.
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
        """The model: (n, channels, height, width) -> (n, classes) logits, or what both a `loss` and an
        `evaluate` of the task take; every parameter is trained.

        Parameters on the "meta" device are drawn for it, as those of our own models are. All others stay
        as they are; drawn ones are the same everywhere.
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
    module = _imported(name, where)
    maker = getattr(module, attribute, None)
    if not callable(maker):
        others = sorted(key for key, row in vars(module).items() if _is_task(row))
        hint = f"; it has {', '.join(others)}" if others else ""
        raise ConfigError([f"task {name!r}: the module {where} has no class or function {attribute}{hint}"])
    try:
        task = maker()
    except Exception as error:
        raise ConfigError([f"task {name!r}: {attribute}() fails: {error_text(error)}"]) from error
    if wrong := [*_wrong_hooks(task), *_wrong_metrics(task)]:
        raise ConfigError([f"task {name!r}: {attribute} {text}" for text in wrong])
    return cast(Task, task)


def metrics_of(task: str) -> tuple[Metric, ...]:
    """The task's own metrics, the one it is judged by first; none for no task, or one without."""
    own: Mapping[str, Better] = getattr(load_task(task), "metrics", {}) if task else {}
    return tuple(Metric(name, better) for name, better in own.items())


def has_hook(task: str, hook: str) -> bool:
    """Return whether there is a task, and it has that one of OPTIONAL_HOOKS or "metrics"."""
    return bool(task) and hasattr(load_task(task), hook)


def asked(task: str, hook: str, *arguments: object) -> Any:
    """Return what a function of the task returns; ConfigError, in one sentence, where it fails."""
    try:
        return getattr(load_task(task), hook)(*arguments)
    except RoambenchError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError([f"task {task!r}: {hook} fails: {error_text(error)}"]) from error


def _imported(name: str, where: str) -> ModuleType:
    """The module `where` of task `name`."""
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (where == error.name or where.startswith(f"{error.name}.")):
            text = (
                f"there is no module {error.name} here; install it wherever the run trains, or set PYTHONPATH"
            )
        else:
            text = f"{where} needs the module {error.name}, which is not installed here"
        raise ConfigError([f"task {name!r}: {text}"]) from None
    except Exception as error:  # any error of the user's module as it is imported
        raise ConfigError([f"task {name!r}: importing {where} fails: {error_text(error)}"]) from error


def _wrong_hooks(task: object) -> list[str]:
    """Functions that it lacks, and what looks like one and would never be called."""
    known = (*HOOKS, *OPTIONAL_HOOKS)
    wrong = [f"has no {hook}" for hook in HOOKS if not hasattr(task, hook)]
    wrong += [
        f"has {hook}, which cannot be called"
        for hook in known
        if hasattr(task, hook) and not callable(getattr(task, hook))
    ]
    wrong += [
        f"has {name}, which would never be called: a task's methods are {', '.join(known)}; begin the name "
        "of a helper with an underscore"
        for name in dir(task)
        if not name.startswith("_")
        and name not in (*known, "metrics")
        and inspect.isroutine(getattr(task, name))
    ]
    return wrong


def _wrong_metrics(task: object) -> list[str]:
    if not hasattr(task, "metrics"):
        return []
    metrics, wanted = task.metrics, '{name: "higher" or "lower", what is better}'
    if not isinstance(metrics, Mapping) or not metrics:
        got = "a function" if callable(metrics) else repr(metrics)
        return [f"has metrics: expected {wanted}, got {got}"]
    wrong = [
        f"has metrics: {name!r}: expected a name of up to 40 letters, digits, spaces and _ - . @ that is "
        f"none of {', '.join(sorted(TAKEN))}"
        for name in metrics
        if not isinstance(name, str) or not _METRIC.fullmatch(name) or name in TAKEN
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
