"""The parts of a learning task: data, who gets which of them, model, loss and score. Each is the task's own
where the user's task has it, and else ours from the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor, float32, float64, nn

from roambench.contract.errors import ConfigError, DataError, error_text
from roambench.contract.orders import Vector
from roambench.learning.datasets.catalogue import load_dataset
from roambench.learning.datasets.checks import wrong_data
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.evaluation import Evaluation, evaluate, wrong_outputs
from roambench.learning.local_algorithms import cross_entropy
from roambench.learning.models.build import build, draw_weights, refuse_misfits
from roambench.learning.partition import Indices
from roambench.learning.partitions import PARTITIONS, PartitionRequest, make_partition
from roambench.learning.seeding import seeded
from roambench.learning.shards import Images, Labels, are_classes
from roambench.learning.tasks import asked, has_hook, metrics_of

if TYPE_CHECKING:
    from roambench.learning.local_algorithms import SampleLoss


def load_data(task: str, dataset: str, folder: Path | None, *, download: bool) -> Dataset:
    """The task's data, or without a task the data set of that name. DataError says what is wrong with it."""
    where = f"task {task!r}: load" if task else f"data set {dataset!r}"
    with seeded(0):  # in every process and for every seed of a run the same data
        found = (
            asked(task, "load", folder, download)
            if task
            else load_dataset(dataset, folder, download=download)
        )
    if not isinstance(found, Dataset):
        raise DataError(f"{where}: expected a Dataset, got {type(found).__name__}")
    if wrong := wrong_data(found):
        raise DataError(f"{where}: {wrong}")
    if not are_classes(found.train_labels):
        needed = ("loss", "evaluate", "metrics")
        lacking = [hook for hook in needed if not has_hook(task, hook)]
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
    own = has_hook(task, "partition")
    if not own and rule in PARTITIONS.own:
        return make_partition(rule, request)
    where = f"task {task!r}: partition" if own else f"partition {rule!r}"
    with seeded(request.seed):
        dealt = asked(task, "partition", request) if own else make_partition(rule, request)
    try:
        parts = [np.asarray(part) for part in dealt]
    except (TypeError, ValueError) as error:
        wanted = "expected a sequence with the indices of each device"
        raise DataError(f"{where}: {wanted}: {error_text(error)}") from None
    if len(parts) != request.devices:
        raise DataError(f"{where}: expected {request.devices} devices, got {len(parts)}")
    last = len(request.labels) - 1
    for device, part in enumerate(parts):
        if part.ndim != 1 or not len(part) or part.dtype.kind != "i" or part.min() < 0 or part.max() > last:
            raise DataError(f"{where}: device {device}: expected one or more indices in 0..{last}")
    return [part.astype(np.int64) for part in parts]


def model_name(task: str, model: str) -> str:
    """The task's model, or the one of that name, as errors call it."""
    return f"task {task!r}: build" if task else f"model {model!r}"


def build_model(task: str, model: str, in_channels: int, classes: int, seed: int = 0) -> nn.Module:
    """The task's model, or without a task the catalogue's `model`; weights are drawn from `seed`.

    Every call with one seed gives the same weights. ConfigError where the task's hook fails.
    """
    if not task:
        return build(model, in_channels, classes, seed)
    where = model_name(task, model)
    with seeded(seed):
        module = asked(task, "build", in_channels, classes)
    if not isinstance(module, nn.Module):
        raise ConfigError([f"{where}: expected a torch.nn.Module, got {type(module).__name__}"])
    refuse_misfits(where, module)
    draw_weights(module, seed, only_meta=True)
    if not any(True for _ in module.parameters()):
        raise ConfigError([f"{where}: expected a model with parameters, got none"])
    return module


def require_classes(task: str, model: str, module: nn.Module, data: Dataset) -> None:
    """ConfigError where our score of classes could not be that of the model: it fails on the data's images,
    or has fewer outputs than classes, or others. A task's own `evaluate` may take what it likes."""
    if has_hook(task, "evaluate"):
        return
    with seeded(0):
        if wrong := wrong_outputs(module, data.test_images[:2], data.classes):
            raise ConfigError([f"{model_name(task, model)}: {wrong}"])


def wrong_losses(found: object, labels: Tensor) -> str:
    """Return what was expected of the losses of samples with these labels, and what they are; "" if all is
    well."""
    wanted = f"expected a tensor of shape {tuple(labels.shape[:1])}, one per sample"
    if not isinstance(found, Tensor):
        return f"{wanted}, got {type(found).__name__}"
    if found.shape != labels.shape[:1]:
        return f"{wanted}, got {tuple(found.shape)}"
    if found.dtype not in (float32, float64):
        return f"{wanted}, of float32 or float64, got {found.dtype}"
    return ""


def own_loss(task: str) -> SampleLoss | None:
    """The task's own `loss`, None where it has none. It raises ConfigError where it is no loss per sample."""
    if not has_hook(task, "loss"):
        return None

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        found: Tensor = asked(task, "loss", logits, labels)
        if wrong := wrong_losses(found, labels):
            raise ConfigError([f"task {task!r}: loss: {wrong}"])
        return found

    return loss


def score(
    task: str,
    module: nn.Module,
    vector: Vector,
    images: Images,
    labels: Labels,
    *,
    by_class: bool = False,
    bfloat16: bool = False,
) -> Evaluation:
    """The task's own `evaluate`, or ours. ConfigError where the task's is no Evaluation with an accuracy
    (None where labels are no classes), or has others than the task's `metrics`; a loss may be NaN, of a model
    that diverged or a task that has none, and so may a metric. `by_class` and `bfloat16` are for ours."""
    if has_hook(task, "evaluate"):
        with seeded(0):
            found: Evaluation = asked(task, "evaluate", module, vector, images, labels)
        own = [metric.name for metric in metrics_of(task)]
        if wrong := _wrong_evaluation(found, labels, own):
            raise ConfigError([f"task {task!r}: evaluate: {wrong}"])
        accuracy = None if found.accuracy is None else float(found.accuracy)
        metrics = {name: float(found.metrics[name]) for name in own}
        return replace(found, accuracy=accuracy, loss=float(found.loss), metrics=metrics)
    if not are_classes(labels):
        raise ConfigError([f"task {task!r}: labels that are no classes need a task with evaluate"])
    loss = own_loss(task) or cross_entropy
    with seeded(0):
        return evaluate(module, vector, images, labels, loss=loss, by_class=by_class, bfloat16=bfloat16)


def _wrong_evaluation(found: object, labels: Labels, own: list[str]) -> str:
    """Return what was expected of a task's answer, with its `own` metrics, and what it is; "" if all is
    well."""
    if not isinstance(found, Evaluation):
        return f"expected an Evaluation, got {type(found).__name__}"
    if not are_classes(labels):
        if found.accuracy is not None:
            return f"expected an accuracy of None, as labels are no classes, got {found.accuracy}"
    elif not _is_number(found.accuracy) or not 0.0 <= float(found.accuracy or 0.0) <= 1.0:
        return f"expected an accuracy in 0..1, got {found.accuracy!r}"
    loss: object = found.loss
    if not _is_number(loss):
        return f"expected a number as loss, got {loss!r}"
    metrics: object = found.metrics
    if (
        not isinstance(metrics, Mapping)
        or set(metrics) != set(own)
        or not all(map(_is_number, metrics.values()))
    ):
        return f"metrics: expected a number for each of the task's metrics, {own}, got {metrics!r}"
    return ""


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # of a tensor with more than one entry, too
        return False
    return not isinstance(value, str)
