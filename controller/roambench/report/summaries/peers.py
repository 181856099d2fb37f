"""Learning of a decentralised run, and how well its network carried models: from the event log alone;
pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy

from roambench.aggregation.connectivity import cumulative_neighbours, strong_connectivity
from roambench.contract.metric import ACCURACY, Metric
from roambench.rounds.records import (
    MixingPlanned,
    ModelsExchanged,
    ModelsScored,
    PeersDescribed,
    RoundRecord,
)
from roambench.runs.event_log import EventLog
from roambench.runs.scores import scores_of

Floats = npt.NDArray[np.float64]

#: Neighbours of all steps together above which their union is not searched for B.
_MOST_LINKS: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class PeerPoint:
    """Scores after one scored iteration: over the devices, by their mobility, and of the mean model.

    `high` and `low` are means over the devices of high and low mobility; None where there is none.
    """

    step: int
    mean: float
    worst: float
    best: float
    high: float | None
    low: float | None
    average: float  # of the mean of all models

    @property
    def gap(self) -> float | None:
        """High- minus low-mobility devices."""
        return None if self.high is None or self.low is None else self.high - self.low


@dataclass(frozen=True, slots=True, eq=False)
class PeerSummary:
    """`neighbours`: cumulative mean number per step of high- and of low-mobility devices, (steps, 2).

    `connected_within` is B of B-strong connectivity, None if there is none (or it was not searched).
    """

    metric: Metric  # what the scores are of: accuracy (0..1), or the first of the task's own
    points: tuple[PeerPoint, ...]
    steps: int
    high_mobility: int
    exchanges: int  # models sent and received between two devices, counted once per direction
    left_out: Mapping[str, int]  # by reason
    sent_bytes: int
    received_bytes: int
    neighbours: Floats
    mean_neighbours: float
    connected_within: int | None
    spectral_gaps: Floats  # (steps,), NaN where it was not computed
    distribution_distances: Floats  # (steps,), NaN where it is not known

    @property
    def final(self) -> PeerPoint | None:
        """The last step that was scored, if any was."""
        return self.points[-1] if self.points else None

    @property
    def final_average(self) -> float | None:
        """Score of the mean of all models at the last scored step."""
        return self.points[-1].average if self.points else None

    @property
    def mean_gap(self) -> float | None:
        """Over all scored iterations."""
        gaps = [point.gap for point in self.points if point.gap is not None]
        return float(np.mean(gaps)) if gaps else None

    @property
    def left_out_models(self) -> int:
        """Models of neighbours that were left out, for any reason."""
        return sum(self.left_out.values())

    @property
    def mean_spectral_gap(self) -> float | None:
        """The mean spectral gap of the mixing matrices."""
        return _mean(self.spectral_gaps)

    @property
    def mean_distribution_distance(self) -> float | None:
        """The mean distance of neighbourhoods' labels from the whole's."""
        return _mean(self.distribution_distances)

    def joules_per_point(self, joules: float | None) -> float | None:
        """`joules` by percentage points of the final accuracy, mean over the devices; None of others."""
        if joules is None or self.metric != ACCURACY or self.final is None or self.final.mean <= 0.0:
            return None
        return joules / (100.0 * self.final.mean)


def peer_summary(records: Sequence[RoundRecord]) -> PeerSummary | None:
    """None for a run of a system with a server."""
    log = EventLog.of(records)
    planned: list[MixingPlanned] = list(log.only(MixingPlanned))
    if not planned:
        return None
    devices = len(planned[0].counts)
    fast = np.zeros(devices, np.bool_)
    for described in log.only(PeersDescribed):
        fast[list(described.high_mobility)] = True
    links = [_neighbours(record) for record in planned]
    total = sum(link.nnz for link in links)
    present = sum(int(np.count_nonzero(record.counts)) for record in planned)
    metric = scores_of(log).metric
    reasons: Counter[str] = Counter()
    for record in log.only(ModelsExchanged):
        reasons.update(reason.partition(":")[0] for reason in record.reasons)
    return PeerSummary(
        metric=metric,
        points=tuple(
            _point(record, fast, metric)
            for record in log.only(ModelsScored)
            if np.isfinite([*record.scores, record.average_score]).all()
        ),
        steps=len(planned),
        high_mobility=int(fast.sum()),
        exchanges=total,
        left_out=dict(reasons.most_common()),
        sent_bytes=int(log.array(ModelsExchanged, "sent_bytes").sum()),
        received_bytes=int(log.array(ModelsExchanged, "received_bytes").sum()),
        neighbours=cumulative_neighbours(links, fast),
        mean_neighbours=total / present if present else 0.0,
        connected_within=strong_connectivity(links) if total <= _MOST_LINKS else None,
        spectral_gaps=_floats([record.spectral_gap for record in planned]),
        distribution_distances=_floats([record.distribution_distance for record in planned]),
    )


def _neighbours(record: MixingPlanned) -> scipy.sparse.csr_array:
    """Matrix of who exchanged with whom, without oneself."""
    devices = len(record.counts)
    rows = np.repeat(np.arange(devices), record.counts)
    columns = np.array(record.columns, np.int64)
    others = rows != columns
    cells = rows[others], columns[others]
    return scipy.sparse.csr_array((np.ones(len(cells[0]), np.bool_), cells), shape=(devices, devices))


def _point(record: ModelsScored, fast: npt.NDArray[np.bool_], metric: Metric) -> PeerPoint:
    scores = np.array(record.scores)
    high = fast[list(record.devices)]
    worst, best = (float(end) for end in (scores.min(), scores.max()))
    if metric.better == "lower":
        worst, best = best, worst
    return PeerPoint(
        step=record.step,
        mean=float(scores.mean()),
        worst=worst,
        best=best,
        high=float(scores[high].mean()) if high.any() else None,
        low=float(scores[~high].mean()) if not high.all() else None,
        average=record.average_score,
    )


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    if not known.size:
        return None
    mean = float(known.mean())
    return mean if abs(mean) > 1e-12 else 0.0  # rounding of eigenvalues, not a figure
