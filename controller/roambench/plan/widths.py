"""The uncertainty of phases' net energy, before any was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import scipy

from roambench.energy.rests import GUARD_SHARE
from roambench.energy.window_sums import PRIOR_FREEDOM, sampling_j2
from roambench.meters.traits import MeterTraits

#: Scatter of the power of a Raspberry Pi at rest, W, and for how long it is off the same way, s.
QUIET_SD_W: Final = 0.02
QUIET_S: Final = 0.5
#: Seconds at rest that tell the idle power under a phase.
NEARBY_S: Final = 8.0
#: Phases last as planned within this share.
VARIES: Final = 0.1


@dataclass(slots=True)
class ExpectedPhases:
    """Phases of one kind that a meter will see: `watts` of net power for `seconds` each, one list entry a
    phase, `waits_s` more in which they draw none, and what they cause after their end, `after_j`."""

    watts: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    after_j: float = 0.0

    def add(self, watts: float, seconds: float, after_j: float = 0.0, waits_s: float = 0.0) -> None:
        """One more of them."""
        if seconds > 0.0:
            self.watts.append(watts)
            self.seconds.append(seconds)
            self.waits_s.append(waits_s)
            self.after_j += after_j

    @property
    def net_j(self) -> float:
        """Joules of all of them."""
        return float(np.dot(self.watts, self.seconds)) + self.after_j

    def u_j(self, rest_s: float, meter: MeterTraits) -> float:
        """Standard uncertainty to expect of their sum but for the gain: what `window_sums.scatter` makes of
        this many, and the idle power below them."""
        period_s, window_s, latch_s = meter.nominal_s, meter.window_s, meter.latch_s
        count = len(self.seconds)
        if not count:
            return 0.0
        seconds = np.array(self.seconds)
        mean_w = self.net_j / float(seconds.sum())
        sampling = sampling_j2(mean_w, seconds, period_s, window_s)
        length_s = seconds + np.array(self.waits_s) + GUARD_SHARE * rest_s
        lines = length_s * max(period_s, QUIET_S)
        noise = QUIET_SD_W**2 * lines
        idle = noise * length_s / NEARBY_S
        # Phases of whole periods scatter less than others, and the estimator finds it.
        k = np.arange(1, 65)[:, None] / period_s
        smooth = np.square(np.sinc(k * window_s) / (np.pi * k * period_s))
        blur = np.square(np.sinc(k * latch_s)) * np.sinc(2.0 * k * VARIES * seconds)
        share = (smooth * (1.0 - np.cos(2.0 * np.pi * k * seconds) * blur)).sum(axis=0)
        found = float(np.sum(np.square(mean_w * period_s) * share + noise))
        excess = (PRIOR_FREEDOM + (count - 1) * found / float((sampling + noise).sum())) / (
            PRIOR_FREEDOM + count - 1
        )
        student = float(scipy.special.stdtrit(PRIOR_FREEDOM + count - 1, 0.97725)) / 2.0
        return float(np.sqrt(student**2 * excess * (sampling + noise).sum() + idle.sum()))
