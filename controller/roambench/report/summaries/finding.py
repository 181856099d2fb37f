"""One sentence of what runs showed, or why they show nothing: the title of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from roambench.contract.counts import count
from roambench.contract.metric import ACCURACY
from roambench.energy.energy_value import Energy, told_from_zero
from roambench.report import numbers
from roambench.report.summaries.run import RunSummary, comparison_flags, reference_of
from roambench.runs.info import RunState

#: More runs than this beside the reference are for the table.
_MOST: Final = 2


def finding_of(runs: Sequence[RunSummary]) -> str:
    """Say what one run reached and wasted, or how several differ from `reference_of` them.

    Energies that lie within 2 u of each other are called indistinct. Of runs that should not be
    compared it says why.
    """
    doubts = [*(_fruitless(run, runs) for run in runs if run.orders.fruitless), *comparison_flags(runs)]
    if doubts and len(runs) > 1:
        return f"No comparison: {doubts[0]}."
    if len(runs) > 1 and all(run.peers is None for run in runs):
        found = _compared(runs)
        if found:
            return found
    return " ".join(_alone(run, runs) for run in runs[: _MOST + 1])


def wasted_energy(run: RunSummary) -> Energy | None:
    """Cumulative wasted energy of a run, gross: measured, else modelled; None where waste means nothing or
    nothing drew power."""
    if run.spent is None or run.info.lookahead or run.peers is not None:
        return None
    return run.spent.gross.cumulative_wasted


def consumed_energy(run: RunSummary) -> Energy | None:
    """Cumulative energy of downloads, trainings, uploads and exchanges, gross: measured, else modelled."""
    return None if run.spent is None else run.spent.gross.cumulative_consumed


def failed_energy(run: RunSummary) -> Energy | None:
    """Cumulative energy of trainings that failed, gross: measured, else modelled; None where nothing drew
    power."""
    return None if run.spent is None else run.spent.gross.cumulative_failed


def _compared(runs: Sequence[RunSummary]) -> str:
    reference = reference_of(runs)
    others = [run for run in runs if run is not reference]
    if any(run.info.lookahead for run in runs):
        return ""
    sentences = [_beside(other, reference, runs) for other in others[:_MOST]]
    return " ".join(sentences) if all(sentences) else ""


def _beside(other: RunSummary, reference: RunSummary, runs: Sequence[RunSummary]) -> str:
    one, two = name_of(other, runs), name_of(reference, runs)
    a, b = wasted_energy(other), wasted_energy(reference)
    if a is None or b is None:
        return _shares(other, reference, one, two)
    kind = "energy" if other.measured and reference.measured else "energy (modelled)"
    amounts = f"{numbers.energy(a, zero='0 J')} against {numbers.energy(b, zero='0 J')}"
    if abs(a.joules - b.joules) <= 2.0 * math.hypot(a.u_joules, b.u_joules):
        sentence = f"the wasted {kind} of {one} and {two} is equal within its uncertainty: {amounts}"
    elif min(a.joules, b.joules) <= 0.0:
        more, less = (one, two) if a.joules > b.joules else (two, one)
        sentence = f"{more} wasted {kind}, {less} none: {amounts}"
    else:
        sentence = f"{one} wasted {a.joules / b.joules:.2f} × the {kind} of {two}: {amounts}"
    return "In one run each, " + sentence + _accuracies(other, reference) + "."


def _accuracies(other: RunSummary, reference: RunSummary) -> str:
    a, b, metric = other.learning.final_score, reference.learning.final_score, other.learning.metric
    if a is None or b is None or metric != reference.learning.metric:
        return ""
    if metric == ACCURACY:
        return f", at accuracies of {numbers.percent(a)} and {numbers.percent(b)}"
    return f", at {metric.name} {metric.text(a)} and {metric.text(b)}"


def _shares(other: RunSummary, reference: RunSummary, one: str, two: str) -> str:
    a, b = other.trainings.wasted_share, reference.trainings.wasted_share
    if a is None or b is None:
        return ""
    return (
        f"In one run each, {one} wasted {numbers.percent(a, 0)} of its trainings, "
        f"{two} {numbers.percent(b, 0)}"
        f"{_accuracies(other, reference)}."
    )


def _fruitless(run: RunSummary, runs: Sequence[RunSummary]) -> str:
    return f"{name_of(run, runs)}: {run.orders.fruitless}"


def _alone(run: RunSummary, runs: Sequence[RunSummary]) -> str:
    name = name_of(run, runs)
    if run.orders.fruitless:
        return f"{_fruitless(run, runs)}."
    if run.info.state is not RunState.FINISHED:
        return f"{name} is {run.info.state.value} after {count(len(run.learning.points), 'step')}."
    parts = []
    if (score := run.learning.final_score) is not None:
        judged = run.learning.metric
        parts.append(f"reached {'' if judged == ACCURACY else f'{judged.name} '}{judged.text(score)}")
    consumed, wasted = consumed_energy(run), wasted_energy(run)
    modelled = "" if run.measured else " (modelled)"
    if consumed is not None and consumed.joules > 0.0:
        parts.append(f"used {numbers.energy(consumed)}{modelled} for learning")
        if wasted is not None and told_from_zero(consumed.joules, consumed.u_joules):
            parts.append(f"wasted {numbers.percent(wasted.joules / consumed.joules, 0)} of it")
    elif run.trainings.wasted_share is not None and run.peers is None and not run.info.lookahead:
        parts.append(f"wasted {numbers.percent(run.trainings.wasted_share, 0)} of its trainings")
    if run.trainings.failed:
        parts.append(f"failed in {run.trainings.failed} of {run.trainings.ordered} trainings")
    if not parts:
        return f"{name} played {count(len(run.learning.points), 'step')}."
    return f"{name} {', '.join(parts[:-1])}{' and ' if len(parts) > 1 else ''}{parts[-1]}."


def name_of(run: RunSummary, runs: Sequence[RunSummary]) -> str:
    """The system's name where no other of these runs has it, else the run's own."""
    same = sum(other.info.system == run.info.system for other in runs)
    return run.info.system if same == 1 else run.label
