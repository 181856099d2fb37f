"""All flags of a report: what bears on the comparison, then what each run says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from roambench.contract.counts import count
from roambench.contract.metric import ACCURACY
from roambench.report.summaries.flag import Flag, grave, gravest_first
from roambench.report.summaries.run import RunSummary, comparison_flags
from roambench.runs.info import RunState

#: (labels of the runs that say it, "" for all of them together; the flag).
SaidBy = tuple[str, Flag]
_NAMED: Final = 4  # runs that are named one by one although all say the same


def report_flags(runs: Sequence[RunSummary]) -> list[SaidBy]:
    """Every flag once, the gravest first."""
    together = [("", flag) for flag in common_flags(runs)]
    return sorted(together + shared_flags(runs), key=lambda said: said[1].routine)


def common_flags(runs: Sequence[RunSummary]) -> tuple[Flag, ...]:
    """Flags of all runs together: why they should not be compared, or what of them cannot be."""
    return gravest_first([*grave(comparison_flags(runs)), *_missed(runs), *_one_seed(runs)])


def shared_flags(runs: Sequence[RunSummary]) -> list[SaidBy]:
    """The flags of the runs, one that several share once, the gravest first."""
    labels_of: dict[Flag, list[str]] = {}
    for place in range(max((len(run.doubts) for run in runs), default=0)):
        for run in runs:
            if place < len(run.doubts):
                labels_of.setdefault(run.doubts[place], []).append(run.label)
    said_by = (
        (f"all {count(len(runs), 'run')}" if len(labels) == len(runs) > _NAMED else ", ".join(labels), flag)
        for flag, labels in labels_of.items()
    )
    return sorted(said_by, key=lambda said: said[1].routine)


def sentence_of(said: SaidBy) -> str:
    """Such as "mohawk, hierfavg: set rounds.rest_s ..."."""
    labels, flag = said
    return f"{labels}: {flag.sentence}" if labels else flag.sentence


def _missed(runs: Sequence[RunSummary]) -> Iterator[Flag]:
    """A threshold that no finished run reached: of several runs the joules up to it were to be compared."""
    scored = [
        run
        for run in runs
        if run.info.state is RunState.FINISHED
        and run.learning.threshold is not None
        and run.learning.best_score is not None
    ]
    if not scored or any(run.learning.threshold_step is not None for run in scored):
        return
    for metric, threshold in dict.fromkeys((run.learning.metric, run.learning.threshold) for run in scored):
        of_metric = [run.learning.best_score for run in scored if run.learning.metric == metric]
        best = metric.best(score for score in of_metric if score is not None)
        key = "accuracy_threshold" if metric == ACCURACY else "metric_threshold"
        if best is None or threshold is None:
            continue
        yield Flag(
            f"set an easier rounds.{key}, or train for more steps (trace.steps): no run has "
            f"{metric.wanted(threshold)}, the best is {metric.text(best)}, so joules up to it compare "
            "nothing",
            routine=len(runs) == 1,
        )


def _one_seed(runs: Sequence[RunSummary]) -> Iterator[Flag]:
    """Several systems, none of which ran with two seeds."""
    seeds = {
        system: {run.info.seed for run in runs if run.info.system == system} for system in _systems(runs)
    }
    if len(seeds) > 1 and all(len(found) == 1 for found in seeds.values()):
        yield Flag(
            "repeat it with other seeds (roambench sweep): each system ran with one seed, and a difference "
            "between systems that another seed would change looks like one that it would not",
            routine=True,
        )


def _systems(runs: Sequence[RunSummary]) -> list[str]:
    return list(dict.fromkeys(run.info.system for run in runs))
