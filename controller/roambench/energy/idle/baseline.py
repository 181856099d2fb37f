"""Idle baselines before and after a run (rule R8): how well they are known and whether they drifted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError
from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.readings.occupancy import SP2_STEP_W, MeterWindow
from roambench.energy.readings.samples import PowerSamples

#: An idle baseline lasts a minute at least, before and after each run.
MIN_BASELINE_S: Final = 60.0
#: Left out at both ends of an idle span: borders are stamped late, boards do not stop at once.
MARGIN_S: Final = 0.5
#: Fewer readings of idling than this are no baseline.
MIN_BASELINE_READINGS: Final = 10
#: Before the work and after it a board idles under any of these names: the minute after a run is stamped
#: `wait` where the last order was another, `absent` where the trace has sent it away.
BASELINE_PHASES: Final = frozenset({Phase.IDLE, Phase.REST, Phase.WAIT, Phase.ABSENT})
DRIFT_SIGMAS: Final = 3.0
DRIFT_SHARE: Final = 0.02


@dataclass(frozen=True, slots=True)
class IdleLevel:
    """Mean idle power with its standard uncertainty, from `effective` independent readings of `readings`."""

    watts: float
    u_watts: float
    readings: int
    effective: float


def idle_level(watts: npt.ArrayLike, step_w: float = 0.0) -> IdleLevel:
    """Mean of idle readings, shape (readings,), in order of time; u = sd / sqrt(n_eff).

    n_eff = n (1 - r) / (1 + r) with r the lag-1 autocorrelation (never taken as negative): the readings of
    a board that warms up are not independent. `step_w` is the meter's step, whose rounding no number of
    equal readings averages away. Fewer than two readings raise ConfigError.
    """
    values = np.asarray(watts, dtype=np.float64)
    count = len(values)
    if count < 2:
        raise ConfigError([f"idle baseline: expected at least 2 readings, got {count}"])
    deviation = values - values.mean()
    square = float(deviation @ deviation)
    repeat = float(deviation[1:] @ deviation[:-1]) / square if square > 0.0 else 0.0
    repeat = min(max(repeat, 0.0), 1.0 - 1.0 / count)
    effective = max(1.0, count * (1.0 - repeat) / (1.0 + repeat))
    sd = math.sqrt(square / (count - 1))
    u = math.hypot(sd / math.sqrt(effective), step_w / math.sqrt(12.0))
    return IdleLevel(float(values.mean()), u, count, effective)


def has_drifted(before: IdleLevel, after: IdleLevel) -> bool:
    """Return whether the two differ by more than 3 u or by more than 2 %: then neither is the run's idle
    power."""
    difference = abs(after.watts - before.watts)
    u = math.hypot(before.u_watts, after.u_watts)
    return difference > DRIFT_SIGMAS * u or difference > DRIFT_SHARE * abs(before.watts)


@dataclass(frozen=True, slots=True)
class IdleBaselines:
    """Idle power before and after a run, each with the middle of its time."""

    before: IdleLevel
    before_ns: int
    after: IdleLevel
    after_ns: int

    @property
    def drifted(self) -> bool:
        """True if the two differ too much for either to be the run's idle power (`has_drifted`)."""
        return has_drifted(self.before, self.after)


@dataclass(frozen=True, slots=True)
class NoBaselines:
    """The number of readings that saw the board idle before and after its work: too few for a baseline, at
    one end at least (`MIN_BASELINE_READINGS`)."""

    readings_before: int
    readings_after: int

    @property
    def short(self) -> bool:
        """True if the board was read idling at both ends, only not for long enough."""
        return min(self.readings_before, self.readings_after) > 0


def idle_baselines(
    samples: PowerSamples, spans: Sequence[PhaseSpan], window: MeterWindow, step_w: float = SP2_STEP_W
) -> IdleBaselines | NoBaselines:
    """Idle power before the first and after the last active phase, or how far it was read without success.

    Samples are raw arrivals: those count whose whole window lies well inside a span of `BASELINE_PHASES`.
    """
    active = [i for i, span in enumerate(spans) if span.phase in ACTIVE_PHASES]
    if not active:
        return NoBaselines(0, 0)
    before, after = (_idling(samples, part, window) for part in (spans[: active[0]], spans[active[-1] + 1 :]))
    if min(len(before), len(after)) < MIN_BASELINE_READINGS:
        return NoBaselines(len(before), len(after))
    return IdleBaselines(
        idle_level(before.watts, step_w),
        int(before.ns.mean()),
        idle_level(after.watts, step_w),
        int(after.ns.mean()),
    )


def _idling(samples: PowerSamples, spans: Sequence[PhaseSpan], window: MeterWindow) -> PowerSamples:
    """The samples that saw nothing but idling in one of `spans`."""
    inside = np.zeros(len(samples), dtype=np.bool_)
    for span in spans:
        if span.phase in BASELINE_PHASES:
            first = np.searchsorted(samples.ns, span.start_ns + round((window.support_s + MARGIN_S) * 1e9))
            last = np.searchsorted(samples.ns, span.end_ns - round(MARGIN_S * 1e9), "right")
            inside[first:last] = True
    return PowerSamples(samples.ns[inside], samples.watts[inside])
