"""Figures of a sweep by access point and class, of runs with `rounds.score_aps`.

`global_of_3_4` is the last accuracy of the global model on images of the classes 3 and 4 (the mean of both),
`ap0_of_3_4` that of access point 0's, `ap0` its accuracy on all. `ap0_drift` and `ap0_drift_of_3_4` are what
its model gains from one cloud aggregation until the next, mean over these intervals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from roambench.rounds.records import ap_metric

#: By a metric's name and by step.
Metrics = Mapping[str, Mapping[int, float]]

_WRITTEN: Final = re.compile(
    r"(?:ap(?P<ap>\d+)(?P<drift>_drift)?(?:_of(?P<its>(?:_\d+)+))?|global_of(?P<of>(?:_\d+)+))"
)


@dataclass(frozen=True, slots=True)
class ClassMetric:
    """`ap`: None is the global model; `classes`: none are all; `drift`: the gain, not the last accuracy."""

    ap: int | None
    classes: tuple[int, ...]
    drift: bool

    @property
    def title(self) -> str:
        """In words, for a table."""
        who = "global model" if self.ap is None else f"AP {self.ap}"
        of = f" on {', '.join(map(str, self.classes))}" if self.classes else ""
        return f"{who}{of}{', gain between clouds' if self.drift else ''}"

    def figure(self, metrics: Metrics, clouds: Mapping[int, float]) -> float | None:
        """0..1, or a difference of these; None where the run has none. `clouds`: the accuracy of every cloud
        aggregation whose model was scored, by step."""
        ends = self._accuracy(metrics, "" if self.ap is None else ap_metric(self.ap))
        if not ends:
            return None
        if not self.drift:
            return ends[max(ends)]
        starts = self._accuracy(metrics, "") if self.classes else clouds
        between = [(start, end) for start, end in pairwise(sorted(clouds)) if start in starts and end in ends]
        return _mean([ends[end] - starts[start] for start, end in between]) if between else None

    def _accuracy(self, metrics: Metrics, who: str) -> dict[int, float]:
        """By step, of the model whose metrics begin with `who`."""
        names = [f"{who}, class {label}" if who else f"class {label}" for label in self.classes] or [who]
        found = [metrics.get(name, {}) for name in names]
        steps = found[0].keys() if all(found) else ()
        return {step: _mean([values[step] for values in found]) for step in steps}


def class_metric_of(name: str) -> ClassMetric | None:
    """The figure of this name; None for another metric."""
    written = _WRITTEN.fullmatch(name)
    if written is None:
        return None
    numbers = (written["its"] or written["of"] or "").split("_")[1:]
    ap = None if written["ap"] is None else int(written["ap"])
    return ClassMetric(ap, tuple(map(int, numbers)), bool(written["drift"]))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
