"""Flags of runs whose model learned nothing; pure."""

from __future__ import annotations

import math
from typing import Final

from roambench.contract.metric import ACCURACY
from roambench.experiment.sections import Experiment
from roambench.report import numbers
from roambench.report.summaries.flag import Flag, grave
from roambench.runs.info import RunInfo
from roambench.runs.learning import LearningSummary

#: A share this many standard deviations above chance may still be chance.
_DEVIATIONS: Final = 2.0


def learned_flags(
    info: RunInfo, learning: LearningSummary, experiment: Experiment, *, untrained: bool = False
) -> list[Flag]:
    """That the last accuracy is what guessing gives, and that the global model diverged. `untrained`: no
    model ever replaced the one it began with."""
    flags = []
    rate = experiment.learning.learning_rate
    losses = [(point.step, point.loss) for point in learning.points if point.loss is not None]
    # A task without a loss has none from the beginning.
    if losses and math.isfinite(losses[0][1]) and not math.isfinite(losses[-1][1]):
        step = next(step for step, loss in losses if not math.isfinite(loss))
        flags.append(
            f"try a learning.learning_rate below {rate:g}: the global model diverged, its loss is no number "
            f"from step {step} on"
        )
    final, chance = learning.final_accuracy, info.chance_accuracy
    if learning.metric == ACCURACY and final is not None and _is_chance(final, chance, info.test_samples):
        best = learning.best_accuracy
        once = f" (the best was {numbers.percent(best)})" if best is not None and best > final else ""
        if untrained:
            flags.append(
                "see what became of the trainings: no model reached the cloud, and the one it began with is "
                f"no better than chance, at {numbers.percent(final)}; all joules bought no accuracy"
            )
            return grave(flags)
        flags.append(
            f"train for more steps (trace.steps), or with another learning.learning_rate ({rate:g}): the "
            f"model ends no better than chance, at {numbers.percent(final)}{once}, where naming the most "
            f"frequent class always gives {numbers.percent(chance)}; its joules bought no accuracy"
        )
    return grave(flags)


def _is_chance(accuracy: float, chance: float | None, samples: int | None) -> bool:
    if chance is None or not samples:
        return False
    bound = chance + _DEVIATIONS * math.sqrt(chance * (1.0 - chance) / samples)
    # Of four samples or fewer the bound is 100 % or more where chance is 50 %.
    return accuracy <= chance or (accuracy <= bound and accuracy < 1.0)
