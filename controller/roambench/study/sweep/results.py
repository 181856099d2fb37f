"""The table of a sweep: a row per grid point without the seed, mean and standard deviation over the seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from roambench.energy.ledger import Basis
from roambench.report.improvement import Improvement, Measured, improvement
from roambench.report.quantities import UP_TO_THRESHOLD
from roambench.report.spread import Spread, spread_of
from roambench.study.sweep.metrics import accuracy_in, is_of_task, metric_of
from roambench.study.sweep.points import Point
from roambench.study.sweep.sweep_folder import PointEnd


@dataclass(frozen=True, slots=True)
class ResultRow:
    """`runs` of this grid point, of which `finished` have figures; each metric counts those that have one.

    `doubts` says which of them are not sure (not fit, or made with fewer boards), and why: they are in no
    mean, unless there is no other run; the row is then not `sure`.
    """

    values: tuple[tuple[str, Any], ...]
    runs: int
    finished: int
    metrics: Mapping[str, Spread]
    doubts: tuple[str, ...] = ()
    sure: bool = True
    beside: Mapping[str, Improvement] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SweepTable:
    """Rows in the order of the grid. The same outcomes give the same table, in any order.

    `better`: of each metric whether higher or lower values are, "" where neither is. `basis`: whether its
    joules are measured or modelled, None of what is not joules.
    """

    keys: tuple[str, ...]
    metrics: tuple[str, ...]
    better: Mapping[str, str]
    basis: Mapping[str, Basis | None]
    rows: tuple[ResultRow, ...]

    @property
    def compared(self) -> tuple[str, ...]:
        """The metrics of which some row has a factor beside another one."""
        return tuple(name for name in self.metrics if any(name in row.beside for row in self.rows))


def table_of(
    points: Sequence[Point],
    outcomes: Sequence[PointEnd | None],
    metrics: Sequence[str],
    beside: Mapping[str, str] = MappingProxyType({}),
) -> SweepTable:
    """`outcomes[i]` is that of `points[i]`, None where there is none yet. Rows have factors
    beside those that `points.rows_beside` names."""
    groups: dict[str, list[tuple[Point, PointEnd | None]]] = {}
    for point, outcome in zip(points, outcomes, strict=True):
        groups.setdefault(repr(point.row), []).append((point, outcome))
    rows = []
    for key, members in groups.items():
        ended = [outcome for _, outcome in members if outcome is not None and outcome.finished]
        sure = [outcome for outcome in ended if not outcome.doubts]
        cells = {
            name: spread_of([outcome.energy(name) or outcome.figure(name) for outcome in sure or ended])
            for name in metrics
        }
        doubts = tuple(
            f"{point.label}: {doubt}"
            for point, outcome in members
            if outcome is not None and outcome.finished
            for doubt in outcome.doubts
        )
        row = members[0][0].row
        usual = groups[beside[key]] if beside.get(key, key) != key else []
        beside_it = _factors(members, usual, metrics)
        rows.append(
            ResultRow(row, len(members), len(ended), cells, doubts, bool(sure) or not ended, beside_it)
        )
    own = {name: better for one in outcomes if one is not None for name, better in one.own.items()}
    better = {name: _better(name, own) for name in metrics}
    basis = {name: _basis(name, outcomes) for name in metrics}
    return SweepTable(tuple(name for name, _ in points[0].row), tuple(metrics), better, basis, tuple(rows))


def _factors(
    members: Sequence[tuple[Point, PointEnd | None]],
    usual: Sequence[tuple[Point, PointEnd | None]],
    metrics: Sequence[str],
) -> dict[str, Improvement]:
    """Return the factors of costs, from pairs of sure runs with one seed: the mean ratio of ours to the
    usual. A cost up to an accuracy that one of the runs never reached has none: pairs of those that did would
    favour the side that seldom does."""
    sure = [
        [(point, one) for point, one in side if one is not None and one.finished and not one.doubts]
        for side in (members, usual)
    ]
    ours, theirs = ({point.seed: one for point, one in side} for side in sure)
    found = {}
    for name in metrics:
        metric = metric_of(name)
        pairs = [
            (_measured(theirs[seed], name), _measured(one, name))
            for seed, one in ours.items()
            if seed in theirs
        ]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        if not both or metric is None or metric.better != "lower" or metric.share:
            continue
        cut_off = any(_never_reached(point, one, name) for side in sure for point, one in side)
        factor = improvement(both, "lower")
        if factor.factor is not None and not cut_off:
            found[name] = factor
    return found


def _never_reached(point: Point, outcome: PointEnd, name: str) -> bool:
    """True if a run's cost is only a bound, or not there, as the run never reached the accuracy."""
    reached = outcome.figure("threshold_step") is not None
    if not reached and (point.experiment.rounds.stop_at_threshold or name in UP_TO_THRESHOLD):
        return True
    return outcome.figure(name) is None and (accuracy_in(name) is not None or not reached)


def _measured(outcome: PointEnd, name: str) -> Measured | None:
    energy, figure = outcome.energy(name), outcome.figure(name)
    if energy is not None:
        return Measured(energy.joules, energy.terms)
    return None if figure is None else Measured(figure)


def _better(name: str, own: Mapping[str, str]) -> str:
    if is_of_task(name):
        return own.get(name.partition(" ")[2], "")
    metric = metric_of(name)
    return "" if metric is None else metric.better


def _basis(name: str, outcomes: Sequence[PointEnd | None]) -> Basis | None:
    """The runs of a sweep are on one fleet: all with meters, or all without."""
    metric = metric_of(name)
    bases = (one.basis for one in outcomes if one is not None and one.basis)
    return None if metric is None else metric.basis_in(next(bases, None))
