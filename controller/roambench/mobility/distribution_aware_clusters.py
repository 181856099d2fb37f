"""DCM's cluster centres: a greedy cover of the static devices by discs of R_c (Algorithm 1, "Clustering")."""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.mobility.distribution_aware import Counts, Field, Grid, static_counts, within

CentreTies = Literal["most_static", "random"]
CENTRE_TIES: Final[tuple[str, ...]] = get_args(CentreTies)


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
