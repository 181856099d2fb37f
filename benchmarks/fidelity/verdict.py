"""The goals of the proof, and the figures over a group of runs that they are held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fidelity.measured import Figure, Outcome

#: Measured +- 2 u holds the truth in this share of the runs; more would be an uncertainty blown up.
HELD: Final = (0.95, 0.995)
#: Standard deviation of (measured - true) / u.
PULL_SD: Final = (0.7, 1.3)
#: Median 2 u of a calibrated whole run, relative.
WHOLE_2U: Final = 0.01
WHOLE_BIAS: Final = 0.003
PHASE_BIAS: Final = 0.03
WHOLE: Final = "whole"
PHASES: Final = ("download", "train", "upload")
DEMANDED: Final = (WHOLE, *PHASES, *(f"{phase} net" for phase in PHASES))
#: Of runs whose links are mixed: the sums of one link's transfers, gross and net.
CLASSES: Final = tuple(
    f"{link} {phase}{kind}"
    for kind in ("", " net")
    for link in ("lte", "wifi")
    for phase in ("download", "upload")
)
#: Fewer runs than this do not tell 95 % from 90 %; the classes are then printed and not judged.
MIN_JUDGED: Final = 40


@dataclass(frozen=True, slots=True)
class Group:
    """Figures of one quantity over runs; shares and relative errors, not percent."""

    runs: int
    held: float
    pull_mean: float
    pull_sd: float
    bias: float
    sd: float
    median_2u: float
    naive_bias: float
    trapezoid_bias: float

    @classmethod
    def of(cls, figures: Sequence[Figure]) -> Group:
        pulls = np.array([figure.z for figure in figures])
        errors = np.array([figure.error for figure in figures])
        return cls(
            len(figures),
            float(np.mean([figure.held for figure in figures])),
            float(pulls.mean()),
            float(pulls.std()),
            float(errors.mean()),
            float(errors.std()),
            float(np.median([2.0 * figure.u_j / abs(figure.true_j) for figure in figures])),
            float(np.mean([figure.naive_j / figure.true_j - 1.0 for figure in figures])),
            float(np.mean([figure.trapezoid_j / figure.true_j - 1.0 for figure in figures])),
        )


@dataclass(frozen=True, slots=True)
class Goal:
    """One demand and what was reached."""

    what: str
    reached: str
    wanted: str
    met: bool


def figures_of(
    outcomes: Iterable[Outcome], what: str, chosen: Callable[[Outcome], bool] = lambda _: True
) -> list[Figure]:
    """The figures called `what` of the chosen runs."""
    return [figure for o in outcomes if chosen(o) for figure in o.figures if figure.what == what]


def goals(outcomes: Sequence[Outcome]) -> list[Goal]:
    """Every demand on the whole set of runs; net energies are held to the same as gross ones."""
    found = []
    for what in (*DEMANDED, *CLASSES):
        figures = figures_of(outcomes, what)
        if what in CLASSES and len(figures) < MIN_JUDGED:
            continue
        group = Group.of(figures)
        bias = WHOLE_BIAS if what == WHOLE else PHASE_BIAS
        found += [
            Goal(
                f"{what}: +- 2 u holds the truth",
                f"{group.held:.1%}",
                f"{HELD[0]:.1%} to {HELD[1]:.1%}",
                HELD[0] <= group.held <= HELD[1],
            ),
            Goal(
                f"{what}: sd of (measured - true) / u",
                f"{group.pull_sd:.2f}",
                f"{PULL_SD[0]} to {PULL_SD[1]}",
                PULL_SD[0] <= group.pull_sd <= PULL_SD[1],
            ),
            Goal(f"{what}: mean bias", f"{group.bias:+.2%}", f"+- {bias:.1%}", abs(group.bias) <= bias),
        ]
    calibrated = Group.of(figures_of(outcomes, WHOLE, lambda o: o.scenario.calibrated))
    found.append(
        Goal(
            "whole, calibrated: median 2 u",
            f"{calibrated.median_2u:.2%}",
            f"<= {WHOLE_2U:.0%}",
            calibrated.median_2u <= WHOLE_2U,
        )
    )
    return found
