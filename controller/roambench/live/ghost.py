"""The run before, as a faint line behind the one that goes on."""

from __future__ import annotations

import math
from typing import Any

from roambench.contract.errors import RoambenchError
from roambench.contract.phases import Outcome
from roambench.live.folders import FoundRun
from roambench.live.view import RunView

Ghost = dict[str, Any]


def ghost_of(found: FoundRun | None) -> Ghost:
    """The rows of a run, step by step: step, score, joules and wasted joules so far, wasted local updates so
    far. Empty where there is none or it cannot be read."""
    if found is None or found.info is None:
        return {}
    try:
        view = RunView(found.path)
        while view.look():
            pass
    except RoambenchError:
        return {}
    try:
        rows, metric = _rows(view), view.history.metric.name
        return {"name": found.name, "system": found.info.system, "metric": metric, "rows": rows}
    finally:
        view.close()


def _rows(view: RunView) -> list[list[float | None]]:
    steps = sorted(view.history.steps.values(), key=lambda step: step.step)
    by_step = view.joules_by_step()
    before_j = math.fsum(joules for step, joules in by_step.items() if step < 0)
    wasted = [0] * (len(steps) + 1)
    wasted_j = [0.0] * (len(steps) + 1)
    for index, update in enumerate(view.history.updates):
        if update.outcome is Outcome.WASTED and 0 <= update.decided_step < len(steps):
            wasted[update.decided_step] += 1
            wasted_j[update.decided_step] += view.update_joules(index)
    rows: list[list[float | None]] = []
    joules, lost, lost_j = before_j, 0, 0.0
    for index, step in enumerate(steps):
        joules += by_step.get(step.step, 0.0)
        lost, lost_j = lost + wasted[index], lost_j + wasted_j[index]
        score = None if step.score is None else round(step.score, 5)
        rows.append([step.step, score, round(joules, 1), round(lost_j, 1), lost])
    return rows
