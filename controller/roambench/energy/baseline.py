"""Idle baselines before and after a run (rule R8): how well they are known and whether they drifted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError

#: An idle baseline lasts a minute at least, before and after each run.
MIN_BASELINE_S: Final = 60.0
DRIFT_SHARE: Final = 0.02
DRIFT_SIGMAS: Final = 3.0


@dataclass(frozen=True, slots=True)
class IdleLevel:
    """Mean idle power with its standard uncertainty, from `effective` independent readings of `readings`."""

    watts: float
    u_watts: float
    readings: int
    effective: float


def idle_level(watts: npt.ArrayLike) -> IdleLevel:
    """Mean of idle readings, shape (readings,), in order of time; u = sd / sqrt(n_eff).

    n_eff = n (1 - r) / (1 + r) with r the lag-1 autocorrelation (never taken as negative): the readings of
    a board that warms up are not independent. Fewer than two readings raise ConfigError.
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
    return IdleLevel(float(values.mean()), sd / math.sqrt(effective), count, effective)


def has_drifted(before: IdleLevel, after: IdleLevel) -> bool:
    """Whether the two differ by more than 3 u or by more than 2 %: then neither is the run's idle power."""
    difference = abs(after.watts - before.watts)
    u = math.hypot(before.u_watts, after.u_watts)
    return difference > DRIFT_SIGMAS * u or difference > DRIFT_SHARE * abs(before.watts)


def idle_between(
    before: IdleLevel, before_ns: int, after: IdleLevel, after_ns: int, at_ns: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Idle power at `at_ns`, linearly from the middle of one baseline to the middle of the other."""
    share = (np.asarray(at_ns, dtype=np.int64) - before_ns) / (after_ns - before_ns)
    return np.asarray(before.watts + np.clip(share, 0.0, 1.0) * (after.watts - before.watts))
