"""The time that the systems of an experiment will need a bench."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from roambench.experiment.sections import Experiment


def expected_s(experiment: Experiment, fleet: str, only: Sequence[str], finished: Container[str]) -> float:
    """Seconds for all systems that are not `finished`; raises as `plan_experiment` does."""
    from roambench.plan.plan import plan_experiment  # a run on a bench that is free needs no plan

    plans = plan_experiment(experiment, fleet, only)
    return math.fsum(plan.wall_s for plan in plans if plan.system not in finished)
