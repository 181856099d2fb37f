"""One simple model for runs without rests: each phase type draws a constant power.

A reading is the mean of those powers over what its window saw. Where phases touch, nothing but such a model
says which joules were whose, so what a border may be wrong by is in every figure, shared by all of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import ACTIVE_PHASES, UNSTAMPED_PHASES, Phase, PhaseSpan
from roambench.energy.integrate import span_stamps
from roambench.energy.readings.occupancy import MeterWindow, level_occupancy

Floats = npt.NDArray[np.float64]

#: How far a power may be from the middle of the readings (k = 1): a phase that no reading saw.
PRIOR_W: Final = 3.0
#: How far a border may lie from where power changes (k = 1), s: stamps, dead time, beginnings and ends.
BORDER_S: Final = 0.15
_WHOLE: Final = 1.0 - 1e-6
#: Ages of a window that stand for all.
_AGES: Final = 6
_LEVELS: Final = (
    Phase.IDLE,
    Phase.WAIT,
    Phase.DOWNLOAD,
    Phase.DECODE,
    Phase.TRAIN,
    Phase.EVALUATE,
    Phase.ENCODE,
    Phase.UPLOAD,
    Phase.EXCHANGE,
)


@dataclass(frozen=True, slots=True)
class PhasePowers:
    """Fitted powers by phase, with their standard uncertainty, W; `scatter_w` is that of single readings."""

    watts: dict[Phase, float]
    u_w: dict[Phase, float]
    border_j: Floats  # what the borders of each span may have wrong, J, shape (spans,)
    scatter_w: float

    def of(self, phase: Phase) -> Phase:
        """The level of a phase: what is neither work nor waiting idles."""
        return phase if phase in self.watts else Phase.IDLE


def phase_powers(
    at_s: Floats, watts: Floats, spans: Sequence[PhaseSpan], window: MeterWindow, u_clock_s: float = 0.0
) -> PhasePowers:
    """Least squares over all readings that saw known phases only, with a weak belief in their middle.

    A power is no surer than lines with a window of unknown age tell: at a border they saw more or less of the
    phase than is expected.

    `u_clock_s` is the standard uncertainty between the clocks of readings and phases.
    """
    origin_ns = spans[0].start_ns
    starts_s, ends_s = (np.multiply(stamps - origin_ns, 1e-9) for stamps in span_stamps(spans))
    level = np.array([_LEVELS.index(span.phase) if span.phase in _LEVELS else 0 for span in spans])
    known = np.array([span.phase not in UNSTAMPED_PHASES for span in spans])
    share = level_occupancy(at_s, starts_s[known], ends_s[known], window, level[known], len(_LEVELS))
    used = share.sum(axis=1) > _WHOLE
    # A window of unknown age saw more or less of a level than its expected share.
    border = used & (share.max(axis=1) < _WHOLE)
    sharp = MeterWindow(max(window.window_s, 1e-6), 0.0)
    at_ages = [
        level_occupancy(
            at_s[border] - age_s, starts_s[known], ends_s[known], sharp, level[known], len(_LEVELS)
        )
        for age_s in window.latch_s * (np.arange(_AGES) + 0.5) / _AGES
    ]
    sd_share = np.zeros_like(share)
    sd_share[border] = np.std(at_ages, axis=0)
    matrix, seen_w = share[used], watts[used]
    middle_w = float(np.median(seen_w)) if len(seen_w) else 0.0
    sd_w = 0.1
    for _ in range(3):
        precision = matrix.T @ matrix / sd_w**2 + np.eye(len(_LEVELS)) / PRIOR_W**2
        covariance = np.linalg.inv(precision)
        fitted = covariance @ (matrix.T @ (seen_w - middle_w)) / sd_w**2
        residual = seen_w - middle_w - matrix @ fitted
        freedom = max(1, len(seen_w) - len(_LEVELS))
        sd_w = max(float(np.sqrt(residual @ residual / freedom)), 1e-3)
    power_w = fitted + middle_w
    precision = np.square(matrix / np.hypot(sd_w, PRIOR_W * sd_share[used])).sum(axis=0)
    u_w = np.sqrt(np.maximum(np.diag(covariance), 1.0 / (1.0 / PRIOR_W**2 + precision)))
    present = [phase for place, phase in enumerate(_LEVELS) if (level[known] == place).any()]
    step_w = np.abs(np.diff(power_w[level], prepend=power_w[level[:1]], append=power_w[level[-1:]]))
    border_j = math.hypot(BORDER_S, u_clock_s) * np.hypot(step_w[:-1], step_w[1:])
    border_j[[span.phase not in ACTIVE_PHASES for span in spans]] = 0.0
    return PhasePowers(
        {phase: float(power_w[_LEVELS.index(phase)]) for phase in present},
        {phase: float(u_w[place]) for place, phase in enumerate(_LEVELS) if phase in present},
        border_j,
        sd_w,
    )
