"""Movement between waypoints, looked at once per step: where everybody is when the step begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError
from roambench.mobility.readers.account import RowAccount
from roambench.mobility.readers.fixes import Fixes

#: More samples than this are a wrong step or a damaged time, not a trace (1.6 GB of columns).
MAX_SAMPLES: Final = 50_000_000

Spans = Sequence[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Path:
    """One device's waypoints, ascending in time: columns of shape (waypoints,).

    It moves in a straight line at constant speed from each to the next; before the first and after the last
    it stands still. It is present in `spans` [from, to); one of no length is the moment itself.
    """

    t_s: npt.NDArray[np.float64]
    x_m: npt.NDArray[np.float64]
    y_m: npt.NDArray[np.float64]
    spans: Spans


def sampled(paths: Mapping[str, Path], step_s: int, account: RowAccount, origin_s: int = 0) -> Fixes:
    """A fix of every path in every step its spans touch, on a plane: where it is at the step's beginning.

    A step begins at `origin_s`. In the step in which a span begins it is where the span begins. Raises
    TraceError when that is more than can be meant.
    """
    names = sorted(name for name, path in paths.items() if len(path.t_s))
    device, seconds, xs, ys = [], [], [], []
    held = 0
    for index, name in enumerate(names):
        path = paths[name]
        touched = [_steps(first, last, step_s, origin_s) for first, last in sorted(path.spans)]
        held += sum(len(step) for step, _ in touched)
        if held > MAX_SAMPLES:
            raise _too_many(step_s)
        step = np.concatenate([np.empty(0, np.int64), *(step for step, _ in touched)])
        at_s = np.concatenate([np.empty(0), *(times_s for _, times_s in touched)])
        at_s = at_s[np.unique(step, return_index=True)[1]]  # the earliest moment of every step
        device.append(np.full(len(at_s), index, np.int32))
        seconds.append(at_s)
        xs.append(np.interp(at_s, path.t_s, path.x_m))
        ys.append(np.interp(at_s, path.t_s, path.y_m))
    columns = (device, seconds, ys, xs)
    device_column, at_column, y_m, x_m = (np.concatenate(column or [np.empty(0)]) for column in columns)
    return Fixes(
        device_ids=tuple(names),
        place_ids=(),
        device=device_column.astype(np.int32),
        place=np.full(len(device_column), -1, np.int32),
        t_utc_s=np.floor(at_column).astype(np.int64),
        latitude=y_m,
        longitude=x_m,
        rows=account.rows,
        malformed=account.malformed,
        malformed_rows=account.malformed_rows,
        used=account.used,
        duplicates=account.duplicates,
        left_out=account.left_out,
        plane=True,
        simulated=True,
    )


def _steps(
    first_s: float, last_s: float, step_s: int, origin_s: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The steps that [first_s, last_s) touches, and in each the first moment inside it."""
    first = int(np.floor((first_s - origin_s) / step_s))
    end = max(first + 1, int(np.ceil((last_s - origin_s) / step_s)))
    if end - first > MAX_SAMPLES:
        raise _too_many(step_s)
    step = np.arange(first, end, dtype=np.int64)
    return step, np.maximum(step * float(step_s) + origin_s, first_s)


def _too_many(step_s: int) -> TraceError:
    return TraceError(
        f"more than {MAX_SAMPLES:,} samples of {step_s} s: give a longer --step-s, or look at the times"
    )
