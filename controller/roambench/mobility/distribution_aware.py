"""Distribution-aware mobility (DAM), and cluster-centre mobility (DCM) with its centres.

Mobile devices go where the data of their neighbours would differ most from those of their present ones. Pure
functions over points and class counts. DCM's centres are a greedy cover of the static devices by discs of R_c
(Algorithm 1, "Clustering").

Equation numbers are those of the workshop paper (4-9); the journal paper prints the same as 9-13. Points are
whole numbers of shape (points, 2); class counts have shape (devices, classes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError

Grid = npt.NDArray[np.int64]  # (points, 2)
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
CentreTies = Literal["most_static", "random"]
CENTRE_TIES: Final[tuple[str, ...]] = get_args(CentreTies)


@dataclass(frozen=True, slots=True)
class Mover:
    """Place and destination of a mobile device, both as numbers of points of the field.

    Destination = point: it has arrived, and draws a new destination at its next move (Eq. 8). So it starts.
    """

    device: int
    point: int
    destination: int


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """The knowledge of movers: the points they may stand on, what data lie around each, where they may be
    bound.

    `static_counts`: samples per class of all static devices within R_c of each point, (points, classes).
    `candidates`: numbers of points: all of them in DAM, the cluster centres in DCM.
    """

    points: Grid
    static_counts: Counts
    candidates: npt.NDArray[np.intp]

    def __post_init__(self) -> None:
        if not len(self.candidates):
            raise ConfigError(
                ["distribution-aware mobility needs a point to go to: there is no static device"]
            )


def grid_points(side: int) -> Grid:
    """{1..G} x {1..G} as the papers number it, shape (G², 2): (1, 1), (1, 2), .. (1, G), (2, 1) .."""
    if side < 1:
        raise ConfigError([f"grid of {side} x {side} points: expected at least 1"])
    ticks = np.arange(1, side + 1)
    return np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.int64)


def within(points: Grid, others: Grid, radius: float) -> npt.NDArray[np.bool_]:
    """Tell which others are at most `radius` from which points, shape (points, others); it may be inf."""
    return np.sqrt(_squares(points, others)) <= radius


def static_counts(points: Grid, static: Grid, class_counts: Counts, contact_radius: float) -> Counts:
    """Σ over the static devices within R_c of their samples per class, shape (points, classes).

    `static`: their places (statics, 2); `class_counts`: theirs too, (statics, classes).
    """
    counts = np.asarray(class_counts, np.int64)
    if counts.ndim != 2 or len(counts) != len(static):
        raise ValueError(f"{len(static)} static devices, class counts of shape {counts.shape}")
    return within(points, static, contact_radius).astype(np.int64) @ counts


def dam_field(points: Grid, static: Grid, class_counts: Counts, contact_radius: float) -> Field:
    """DAM: any point is a destination. Arguments as of `static_counts`."""
    around = static_counts(points, static, class_counts, contact_radius)
    return Field(points, around, np.arange(len(points)))


def class_distributions(around: Counts, own: Counts) -> Floats:
    """D_L of Eq. 4, shape (points, classes): the samples around each point and the mover's own, by their sum.

    Other mobile devices do not count. Without a single sample the distribution is all 0 (not in the paper).
    """
    counts = (np.asarray(around, np.int64) + np.asarray(own, np.int64)).astype(np.float64)
    sums = counts.sum(axis=1, keepdims=True)
    distributions: Floats = np.divide(counts, sums, out=np.zeros_like(counts), where=sums > 0.0)
    return distributions


def distribution_distances(distributions: Floats, reference: Floats) -> Floats:
    """d of Eq. 5: the Euclidean distance of each distribution (points, classes) to one, (classes,)."""
    apart = distributions - reference
    distances: Floats = np.sqrt((apart * apart).sum(axis=1))
    return distances


def destination_probabilities(distances: Floats) -> Floats:
    """Eq. 6 and 9: proportional to the distance, over the candidates given; uniform if all are 0 (ours)."""
    total = float(distances.sum())
    if total == 0.0:
        return np.full(len(distances), 1.0 / len(distances))
    probabilities: Floats = distances / total
    return probabilities


def next_destination(field: Field, mover: Mover, own: Counts, seed: int, step: int) -> int:
    """The point a mover that has arrived heads for, drawn by Eq. 4-6; keyed by (seed, device, step).

    `own`: the mover's samples per class, shape (classes,).
    """
    known = np.append(field.candidates, mover.point)
    distributions = class_distributions(field.static_counts[known], own)
    chances = destination_probabilities(distribution_distances(distributions[:-1], distributions[-1]))
    cumulative = np.cumsum(chances)
    draw = generator(seed, "mover destination", mover.device, step).random() * cumulative[-1]
    # The first whose cumulative chance exceeds the draw: one of chance 0 never does.
    chosen = min(int(np.searchsorted(cumulative, draw, side="right")), int(np.flatnonzero(chances)[-1]))
    return int(field.candidates[chosen])


def step_towards(field: Field, mover: Mover, destination: int, radius: float, seed: int, step: int) -> int:
    """Eq. 7: the destination if R_m reaches it, else of the points within R_m one that is nearest to it.

    `radius` R_m may be inf. Of several equally near one is drawn, keyed by (seed, device, step).
    """
    way_here = _squares(field.points[[mover.point]], field.points)[0]
    if np.sqrt(way_here[destination]) <= radius:
        return destination
    reachable = np.flatnonzero(np.sqrt(way_here) <= radius)
    way_on = _squares(field.points[[destination]], field.points[reachable])[0]
    nearest = reachable[way_on == way_on.min()]
    if len(nearest) == 1:
        return int(nearest[0])
    return int(nearest[generator(seed, "mover tie", mover.device, step).integers(len(nearest))])


def move(field: Field, mover: Mover, own: Counts, radius: float, seed: int, step: int) -> Mover:
    """One move of one device (Eq. 7, 8): a new destination if it has arrived, then a step towards it.

    A device that has not arrived keeps its destination. Draws are keyed by (seed, device, step), so devices
    may be moved in any order. Raises ValueError for a radius that is negative or no number.
    """
    if not radius >= 0.0:
        raise ValueError(f"R_m = {radius}: expected 0 or more")
    destination = mover.destination
    if mover.point == destination:
        destination = next_destination(field, mover, own, seed, step)
    return Mover(mover.device, step_towards(field, mover, destination, radius, seed, step), destination)


def _squares(points: Grid, others: Grid) -> npt.NDArray[np.int64]:
    """Squared distances, exact: shape (points, others)."""
    apart = points[:, None, :] - others[None, :, :]
    squares: npt.NDArray[np.int64] = apart[..., 0] ** 2 + apart[..., 1] ** 2
    return squares


def dcm_field(
    points: Grid,
    static: Grid,
    class_counts: Counts,
    contact_radius: float,
    seed: int,
    ties: CentreTies = "random",
) -> Field:
    """DCM: destinations are the cluster centres of `seed`, drawn once for all movers and steps.

    `class_counts`: samples per class of the static devices, (statics, classes). Raises ConfigError if there
    is no static device.
    """
    centres = cluster_centres(points, static, contact_radius, seed, ties)
    return Field(points, static_counts(points, static, class_counts, contact_radius), centres)


def cluster_centres(
    points: Grid, static: Grid, contact_radius: float, seed: int, ties: CentreTies = "random"
) -> npt.NDArray[np.intp]:
    """Numbers of the points chosen, in the order of choice, until every static device is within R_c of one.

    Each is a point with the most static devices within R_c that no earlier centre covers. Of several:

        random       one of them (journal, Algorithm 3)
        most_static  those with the most static devices in all, covered or not; of these a random one
                     (workshop, Algorithm 1 line 6; for the first centre both rules are the same)

    The n-th choice is keyed by (seed, n). `points` (points, 2) and `static` (statics, 2) are whole numbers;
    without static devices there are no centres. Raises ConfigError for another name of `ties`, or if a
    static device is beyond R_c of every point.
    """
    if ties not in CENTRE_TIES:
        raise ConfigError([f"centre ties = {ties!r}: expected one of {', '.join(CENTRE_TIES)}"])
    reaches = within(points, static, contact_radius)
    if not reaches.any(axis=0).all():
        lost = int(np.flatnonzero(~reaches.any(axis=0))[0])
        raise ConfigError([f"no point is within R_c = {contact_radius} of static device {lost}"])
    in_all = reaches.sum(axis=1)
    uncovered = np.ones(len(static), np.bool_)
    centres: list[int] = []
    while uncovered.any():
        covers = reaches[:, uncovered].sum(axis=1)
        best = np.flatnonzero(covers == covers.max())
        if ties == "most_static":
            best = best[in_all[best] == in_all[best].max()]
        draw = generator(seed, "cluster centre", step=len(centres))
        centres.append(int(best[draw.integers(len(best))]))
        uncovered &= ~reaches[centres[-1]]
    return np.array(centres, np.intp)
