"""Idle power that trainings raise: a board is warm for a while after each, and draws more at rest.

    idle(t) = line(t) + A * (training on or off, through a low-pass of `tau_s`)

`A` is common to the run, and used only where it is sure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import COMPUTING_PHASES, PhaseSpan
from roambench.energy.readings.periods import nearby, places

#: Time constants to choose from, s. What fades by the shortest is no heat: the guard was too short.
TAUS_S: Final = (5.0, 10.0, 20.0, 40.0, 80.0)
#: Standard uncertainties that the term must be worth, and trainings that tell them.
_SURE: Final = 4.0
_MIN_TRAININGS: Final = 8
#: Slower changes of idle power than over this many seconds to either side are the lines' business.
_NEAR_S: Final = 40.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Heat:
    """Watts of a board that trains for ever, their standard uncertainty, and when trainings begin and end."""

    watts: float
    u_w: float
    tau_s: float
    edges_s: Floats

    @property
    def is_remnant(self) -> bool:
        """True where it fades as fast as can be seen: trainings outlast their guard."""
        return self.watts > 0.0 and self.tau_s == TAUS_S[0]

    @property
    def idle_w(self) -> float:
        """Return the part of `watts` that is idle power: a remnant is training's own."""
        return 0.0 if self.is_remnant else self.watts

    def shape(self, at_s: Floats) -> Floats:
        """Share of `watts` at some moments, ascending, shape (moments,)."""
        return next(_responses(self.edges_s, at_s, (self.tau_s,)))


def heat_of(at_s: Floats, watts: Floats, spans: Sequence[PhaseSpan]) -> Heat:
    """The heat in quiet readings: arrivals, s after the timeline's start, and watts, shape (readings,)."""
    origin_ns = spans[0].start_ns
    trained = [span for span in spans if span.phase in COMPUTING_PHASES]
    edges_s = np.array([(ns - origin_ns) * 1e-9 for span in trained for ns in (span.start_ns, span.end_ns)])
    if len(trained) < _MIN_TRAININGS:
        return Heat(0.0, 0.0, TAUS_S[-1], edges_s)
    low, high = nearby(at_s, _NEAR_S)
    training = places(edges_s, at_s) // 2

    def without_drift(column: Floats) -> Floats:
        sums = np.concatenate(([0.0], np.cumsum(column)))
        return np.asarray(column - (sums[high] - sums[low]) / (high - low))

    seen_w = without_drift(watts)
    found = []
    for tau_s, response in zip(TAUS_S, _responses(edges_s, at_s, TAUS_S), strict=True):
        shape = without_drift(response)
        power = max(float(shape @ shape), 1e-12)
        fitted_w = float(shape @ seen_w) / power
        rest_w = seen_w - fitted_w * shape
        # Readings of one training are wrong together.
        u_w = math.sqrt(float(np.square(np.bincount(training, rest_w * shape)).sum())) / power
        found.append((float(rest_w @ rest_w), Heat(fitted_w, u_w, tau_s, edges_s)))
    best = min(found, key=lambda pair: pair[0])[1]
    return best if best.watts > _SURE * best.u_w else Heat(0.0, 0.0, best.tau_s, edges_s)


def _responses(edges_s: Floats, at_s: Floats, taus_s: Sequence[float]) -> Iterator[Floats]:
    """For each of `taus_s` a low-pass of 1 between the first and second edge, the third and fourth, and so
    on, 0 elsewhere."""
    if not len(edges_s):
        yield from (np.zeros_like(at_s) for _ in taus_s)
        return
    edge = places(edges_s, at_s, "right") - 1
    before, edge = int(np.searchsorted(at_s, edges_s[0])), np.maximum(edge, 0)
    targets = [float(k % 2 == 0) for k in range(len(edges_s))]
    past_s, target_of = np.maximum(at_s - edges_s[edge], 0.0), np.array(targets)[edge]
    for tau_s in taus_s:
        states = [0.0]
        for target, fade in zip(targets, np.exp(-np.diff(edges_s) / tau_s).tolist(), strict=False):
            states.append((states[-1] - target) * fade + target)
        shape = target_of + np.subtract(states, targets)[edge] * np.exp(past_s / -tau_s)
        shape[:before] = 0.0
        yield shape
