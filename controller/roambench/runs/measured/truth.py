"""The true energy of emulated boards, integrated over the very spans of the ledger.

It never passed through a sensor: the emulator logs what its boards draw (`emulation.truth`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.phases import ACTIVE_PHASES, PhaseSpan
from roambench.emulation.electric.signal import PowerSignal
from roambench.emulation.spec import EmulatorSpec
from roambench.emulation.truth import read_truths
from roambench.energy.idle.baseline import BASELINE_PHASES
from roambench.energy.integrate import PowerCurve, covered_by_span, span_stamps
from roambench.energy.rests import windows_of

Floats = npt.NDArray[np.float64]
Stamps = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BoardTruth:
    """True joules of one board over exactly the time that its meter covered.

    `whole_j` is of the whole run; `gross_j` and `net_j` have shape (spans,). Net is above what the board
    would have drawn idling at the same moments, which warms up and cools down; that of an active phase holds
    what it still caused in the guard behind it, and its gross energy, too. Of an older run, whose truth
    does not say that, it is above the mean of the idle baselines before and after the work; NaN without.
    `perfect_meter`: its emulated meter has neither a gain nor an offset.
    """

    whole_j: float
    gross_j: Floats
    net_j: Floats
    perfect_meter: bool = False


def board_truth(
    folder: Path, device: str, curve: PowerCurve, spans: Sequence[PhaseSpan], guard_s: float
) -> BoardTruth | None:
    """The truth of `device` in a run folder, phases with their guards of `guard_s` s; None without a truth
    file, or where it does not know all of the time that `curve` covers.
    """
    path = folder / "truth" / f"{device}.csv"
    # A device's name comes over the network once, from a certificate: it must not lead out of the folder.
    if path.parent != folder / "truth" or not path.is_file():
        return None
    try:
        truth, idle = read_truths(path)
    except MeterError:
        return None
    integral = _Integral(truth)
    covered = np.array(curve.covered_intervals(), dtype=np.int64).reshape(-1, 2)
    whole_j = math.fsum(integral.joules(covered[:, 0], covered[:, 1]).tolist())
    if math.isnan(whole_j):
        return None
    starts, ends = span_stamps(spans)
    gross_j = _within(integral, covered, starts, ends)
    if idle is not None:
        idling = _Integral(idle)
        net_j = gross_j - _within(idling, covered, starts, ends)
        # What follows a phase, a radio's tail, is the phase's and not the rest's.
        for window in windows_of(spans, guard_s) if guard_s else ():
            after = slice(window.last + 1, len(spans))
            until_ns = spans[0].start_ns + round(window.until_s * 1e9)
            from_ns = np.minimum(starts[after], until_ns)
            to_ns = np.minimum(ends[after], until_ns)
            reached = int(np.count_nonzero(to_ns > from_ns))
            left = slice(window.last + 1, window.last + 1 + reached)
            left_j = _within(integral, covered, from_ns[:reached], to_ns[:reached])
            left_j = left_j - _within(idling, covered, from_ns[:reached], to_ns[:reached])
            for column in (gross_j, net_j):
                column[left] -= left_j
                column[window.last] += left_j.sum()
    else:
        net_j = gross_j - _idle_w(integral, spans, starts, ends) * covered_by_span(curve, spans)
    return BoardTruth(whole_j, gross_j, net_j, device in perfect_meters(folder))


def perfect_meters(folder: Path) -> frozenset[str]:
    """The devices of a run folder whose emulated meters have neither a gain nor an offset."""
    path = folder / "emulator.json"
    try:
        spec = EmulatorSpec.from_json(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError, ConfigError):
        return frozenset()
    if spec.tolerance:
        return frozenset()
    return frozenset(each.name for each in spec.devices if each.gain == 1.0 and each.offset_w == 0.0)


class _Integral:
    """Cumulative joules of a piecewise constant power, for any number of intervals at once."""

    def __init__(self, signal: PowerSignal) -> None:
        segments = signal.segments
        self._ns = np.array([ns for ns, _ in segments], dtype=np.int64)
        self._watts = np.array([watts for _, watts in segments])
        self._known = np.isfinite(self._watts)
        steps_s = np.diff(self._ns) * 1e-9
        self._joules = np.concatenate(
            ([0.0], np.cumsum(np.where(self._known, self._watts, 0.0)[:-1] * steps_s))
        )
        self._dark_s = np.concatenate(([0.0], np.cumsum(np.where(self._known[:-1], 0.0, steps_s))))

    def joules(self, from_ns: Stamps, to_ns: Stamps) -> Floats:
        """True energy of each interval, shape (intervals,); NaN where any of it is not known."""
        (joules_a, dark_a), (joules_b, dark_b) = self._until(from_ns), self._until(to_ns)
        known = (dark_b - dark_a <= 0.0) & (from_ns >= self._ns[0])
        return np.where(known, joules_b - joules_a, np.nan)

    def _until(self, stamps: Stamps) -> tuple[Floats, Floats]:
        at = np.maximum(np.searchsorted(self._ns, stamps, "right") - 1, 0)
        along_s = np.maximum(stamps - self._ns[at], 0) * 1e-9
        known = self._known[at]
        joules = self._joules[at] + np.where(known, self._watts[at], 0.0) * np.where(known, along_s, 0.0)
        return joules, self._dark_s[at] + np.where(known, 0.0, along_s)


def _within(integral: _Integral, covered: Stamps, starts: Stamps, ends: Stamps) -> Floats:
    """True joules of each span's covered time, shape (spans,): spans are cut at the borders of coverage."""
    first = np.searchsorted(covered[:, 1], starts, "right")
    counts = np.maximum(np.searchsorted(covered[:, 0], ends, "left") - first, 0)
    span = np.repeat(np.arange(len(starts)), counts)
    piece = np.arange(len(span)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    from_ns = np.maximum(covered[piece, 0], starts[span])
    to_ns = np.minimum(covered[piece, 1], ends[span])
    return np.asarray(np.bincount(span, integral.joules(from_ns, to_ns), len(starts)), dtype=np.float64)


def _idle_w(integral: _Integral, spans: Sequence[PhaseSpan], starts: Stamps, ends: Stamps) -> float:
    """Mean true power of the idle time before the first and after the last active span, W; NaN without."""
    active = [i for i, span in enumerate(spans) if span.phase in ACTIVE_PHASES]
    if not active:
        return math.nan
    idle = np.array([span.phase in BASELINE_PHASES for span in spans])
    idle[active[0] : active[-1] + 1] = False
    seconds = float(((ends - starts)[idle] * 1e-9).sum())
    return float(integral.joules(starts[idle], ends[idle]).sum()) / seconds if seconds > 0.0 else math.nan
