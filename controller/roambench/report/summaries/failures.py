"""Trainings that failed, as doubts about a run: how many, why, and which key cures it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from roambench.experiment.deadline import deadline_remedy
from roambench.experiment.sections import Experiment
from roambench.report.summaries.learning import TrainingSummary
from roambench.report.summaries.orders import device_name

#: More causes, or devices, than these are counted, not named.
_NAMED: Final = 4
_LONGEST: Final = 160
#: What a reason says (the first that fits), and its remedy.
_REMEDIES: Final[tuple[tuple[str, Callable[[Experiment], str]], ...]] = (
    ("timeout", lambda experiment: deadline_remedy(experiment.fleet.deadline_s)),
    (
        "diverged",
        lambda experiment: f"try a learning.learning_rate below {experiment.learning.learning_rate:g}",
    ),
    ("NaN or infinity", lambda experiment: "try a smaller learning.learning_rate"),
    (
        "more than 1 value per channel",
        lambda experiment: (
            "BatchNorm needs two images in every batch: give devices more images "
            "(learning.images_per_device), or choose a learning.batch_size that leaves no batch of one image"
        ),
    ),
    (
        "died",
        lambda experiment: (
            "a trainer that dies has mostly run out of memory: choose a smaller "
            "learning.batch_size or a smaller model"
        ),
    ),
    ("lost", lambda experiment: "look at the power, the network and the agent's log of these boards"),
)


def failure_flags(
    trainings: TrainingSummary, names: Sequence[str], experiment: Experiment
) -> tuple[str, ...]:
    """A sentence for all failed trainings of a cause, and one for the devices that never trained."""
    found: Counter[tuple[str, str]] = Counter()
    for reason, count in trainings.failed_reasons.items():
        text = reason if len(reason) <= _LONGEST else reason[: _LONGEST - 3] + "..."
        remedy = next((cure(experiment) for sign, cure in _REMEDIES if sign in reason), "")
        found[text, remedy] += count
    flags = [
        f"{count} of {trainings.ordered} trainings failed: {text}" + (f"; {remedy}" if remedy else "")
        for (text, remedy), count in found.most_common(_NAMED)
    ]
    if rest := found.total() - sum(count for _, count in found.most_common(_NAMED)):
        flags.append(f"{rest} more trainings failed for other reasons: see the table of local updates")
    if trainings.never:
        devices = [device_name(names, device) for device in trainings.never]
        more = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
        first = next(iter(trainings.never.values()))
        flags.append(f"never trained: {', '.join(devices[:_NAMED])}{more} ({first[:_LONGEST]})")
    return tuple(flags)
