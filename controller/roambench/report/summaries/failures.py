"""Trainings that failed, as doubts about a run: how many, why, and which key cures it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from roambench.experiment.deadline import deadline_remedy
from roambench.experiment.sections import Experiment
from roambench.report.summaries.flag import Flag
from roambench.report.summaries.orders import device_name
from roambench.runs.learning import TrainingSummary

#: More causes, or devices, than these are counted, not named.
_NAMED: Final = 4
_LONGEST: Final = 160
#: What the reason of a training says that missed its deadline.
_TOO_LATE: Final = "timeout"
#: What any other reason says (the first that fits), and its remedy.
_REMEDIES: Final[tuple[tuple[str, Callable[[Experiment], str]], ...]] = (
    (
        "diverged",
        lambda experiment: f"try a learning.learning_rate below {experiment.learning.learning_rate:g}",
    ),
    ("NaN or infinity", lambda experiment: "try a smaller learning.learning_rate"),
    (
        "more than 1 value per channel",
        lambda experiment: (
            "give devices more images (learning.images_per_device), or choose a learning.batch_size that "
            "leaves no batch of one image, as BatchNorm needs two"
        ),
    ),
    (
        "died",
        lambda experiment: (
            "choose a smaller learning.batch_size or a smaller model, as a trainer that dies has mostly run "
            "out of memory"
        ),
    ),
    ("lost", lambda experiment: "look at the power, the network and the agent's log of these boards"),
)


def failure_flags(
    trainings: TrainingSummary, names: Sequence[str], experiment: Experiment, longest_s: float = 0.0
) -> list[Flag]:
    """A sentence for all failed trainings of a cause, and one for the devices that never trained. `longest_s`
    is device time that a training was seen to take, 0 where that is not known."""
    found: Counter[tuple[str, str]] = Counter()
    late = 0
    for reason, count in trainings.failed_reasons.items():
        if _TOO_LATE in reason:
            late += count
            continue
        text = reason if len(reason) <= _LONGEST else reason[: _LONGEST - 3] + "..."
        remedy = next((cure(experiment) for sign, cure in _REMEDIES if sign in reason), "")
        found[text, remedy] += count
    flags = [_late_flag(late, trainings, experiment, longest_s)] if late else []
    flags += [
        Flag((f"{remedy}: " if remedy else "") + f"{count} of {trainings.ordered} trainings failed: {text}")
        for (text, remedy), count in found.most_common(_NAMED)
    ]
    if rest := found.total() - sum(count for _, count in found.most_common(_NAMED)):
        flags.append(Flag(f"{rest} more trainings failed for other reasons: see the table of local updates"))
    if trainings.never:
        devices = [device_name(names, device) for device in trainings.never]
        more = f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
        first = next(iter(trainings.never.values()))
        flags.append(Flag(f"never trained: {', '.join(devices[:_NAMED])}{more} ({first[:_LONGEST]})"))
    return flags


def _late_flag(late: int, trainings: TrainingSummary, experiment: Experiment, longest_s: float) -> Flag:
    """All that came too late are one matter, in every phase."""
    deadline_s = experiment.fleet.deadline_s
    which = "all" if late == trainings.ordered else f"{late} of"
    seen = f", and a training took up to {longest_s:.0f} s" if longest_s else ""
    return Flag(
        f"{deadline_remedy(deadline_s, longest_s)}: {which} {trainings.ordered} trainings timed out, where "
        f"an order may take {deadline_s:g} s{seen}"
    )
