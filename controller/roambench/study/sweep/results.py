"""The table of a sweep: a row per grid point without the seed, mean and standard deviation over the seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roambench.energy.ledger import Basis
from roambench.report.spread import Spread, spread_of
from roambench.study.sweep.metrics import is_of_task, metric_of
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


def table_of(
    points: Sequence[Point], outcomes: Sequence[PointEnd | None], metrics: Sequence[str]
) -> SweepTable:
    """`outcomes[i]` is that of `points[i]`, None where there is none yet."""
    groups: dict[str, list[tuple[Point, PointEnd | None]]] = {}
    for point, outcome in zip(points, outcomes, strict=True):
        groups.setdefault(repr(point.row), []).append((point, outcome))
    rows = []
    for members in groups.values():
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
        rows.append(ResultRow(row, len(members), len(ended), cells, doubts, bool(sure) or not ended))
    own = {name: better for one in outcomes if one is not None for name, better in one.own.items()}
    better = {name: _better(name, own) for name in metrics}
    basis = {name: _basis(name, outcomes) for name in metrics}
    return SweepTable(tuple(name for name, _ in points[0].row), tuple(metrics), better, basis, tuple(rows))


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
