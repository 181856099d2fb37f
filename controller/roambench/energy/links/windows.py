"""Power of a device in each window of a calibration sweep, above its idle power just before and after.

Transfers back to back draw a steady power: the mean of the readings that saw nothing else is sharper than the
sum around the window, whose ends fall between two lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, UNSTAMPED_PHASES, Phase, PhaseSpan
from roambench.energy.idle.local_idle import MARGIN_S, idle_lines, idle_readings, quiet_readings
from roambench.energy.links.sweep import SweepWindow, long_enough
from roambench.energy.readings.occupancy import SP2_STEP_W, SP2_WINDOW, MeterWindow
from roambench.energy.readings.samples import PowerSamples, without_bursts
from roambench.energy.rests import windows_of
from roambench.energy.window_sums import u_idle_j

#: A border stamped before the next begins leaves at most this much between two spans.
_SEAM_NS = 5_000_000
#: A board or meter that averages for longer is given a guard, but no more than this share of a window.
_SETTLING_SHARE = 0.25
#: Fewer of the expected lines: the meter was silent.
_LEAST_SEEN = 0.75


@dataclass(frozen=True, slots=True)
class WindowPower:
    """Net power of one window of `active_s` seconds.

    `u_net_w` leaves out the meter's gain, `rounding_w`, what its steps hide of a power that is steadier than
    they are, and `u_idle_w`, by which the idle power under all windows of the sweep is wrong alike (k = 1).
    """

    window: SweepWindow
    net_w: float
    u_net_w: float
    idle_w: float
    active_s: float
    transferred_bytes: int
    rounding_w: float = 0.0
    u_idle_w: float = 0.0

    @property
    def mbit_s(self) -> float:
        """The rate that really was."""
        return self.transferred_bytes * 8e-6 / self.active_s

    @property
    def counts(self) -> bool:
        """True if it lasted long enough for a fit (rule R7)."""
        return long_enough(self.active_s)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Consecutive spans at one level: a window, or the idle time between two."""

    start_ns: int
    end_ns: int
    window: SweepWindow | None
    transferred_bytes: int


def window_powers(
    samples: PowerSamples,
    spans: Sequence[PhaseSpan],
    window_of_order: Mapping[str, SweepWindow],
    *,
    nominal_s: float = 1.0,
    meter_window: MeterWindow = SP2_WINDOW,
    step_w: float = SP2_STEP_W,
) -> list[WindowPower]:
    """The power of each window, in order of time: the mean of the readings that saw it alone, above the idle
    power nearby.

    `samples` are raw arrivals in device time (corrected for a known gain) in steps of `step_w`, `spans` one
    device's phases, sorted. A window counts when both its neighbours are idle stretches and all its transfers
    are there: one that broke off or that the agent's death interrupted is left out.
    """
    stretches = _stretches(spans, window_of_order)
    if len(stretches) < 3 or not len(samples):
        return []
    steady = without_bursts(samples, nominal_s).samples
    timeline = [_as_span(stretch) for stretch in stretches]
    guard_s = 0.45 * min(span.duration_s for span in timeline if span.phase is Phase.REST)
    windows = windows_of(timeline, guard_s)
    at_s = np.multiply(steady.ns - timeline[0].start_ns, 1e-9)
    chosen = quiet_readings(at_s, timeline, windows, meter_window)
    quiet = idle_readings(at_s[chosen], steady.watts[chosen], nominal_s)
    if quiet is None:
        return []
    lines = idle_lines(quiet, windows)
    rounding_w = step_w / math.sqrt(12.0) if quiet.sd_w < 0.5 * step_w else 0.0
    settling_s = max(guard_s, meter_window.support_s + MARGIN_S)
    line_w = math.hypot(quiet.sd_w, step_w / math.sqrt(12.0))
    lengths_s = [window.until_s - window.start_s for window in windows]
    idle_j = [u_idle_j([j], windows, lines, quiet, 0.0) for j in range(len(windows))]
    alike_j2 = u_idle_j(range(len(windows)), windows, lines, quiet, 0.0) ** 2 - math.fsum(
        u * u for u in idle_j
    )
    u_idle_w = math.sqrt(max(0.0, alike_j2)) / math.fsum(lengths_s)
    found = []
    for j, window in enumerate(windows):
        here = stretches[window.first]
        assert here.window is not None
        active_s = window.end_s - window.start_s
        begin_s = window.start_s + min(settling_s, _SETTLING_SHARE * active_s)
        first, last = np.searchsorted(at_s, [begin_s, window.end_s], side="right").tolist()
        whole = here.transferred_bytes == _planned_bytes(here.window) and len(window.active) == 1
        seen = last - first >= max(1.0, _LEAST_SEEN * (window.end_s - begin_s) / nominal_s - 1.0)
        if not whole or not seen or not _joined(stretches, window.first):
            continue  # it broke off, or the meter was silent
        above_w = steady.watts[first:last] - lines.at(j, at_s[first:last])
        u_w = math.hypot(line_w / math.sqrt(last - first), idle_j[j] / lengths_s[j])
        found.append(
            WindowPower(
                here.window,
                float(above_w.mean()),
                u_w,
                float(lines.watts[j]),
                active_s,
                here.transferred_bytes,
                rounding_w,
                u_idle_w,
            )
        )
    return found


def _as_span(stretch: _Stretch) -> PhaseSpan:
    """A window of transfers as a phase, the time between two of them as a rest."""
    phase = Phase.REST if stretch.window is None else Phase.EXCHANGE
    return PhaseSpan("", "", phase, 0, stretch.start_ns, stretch.end_ns)


def _joined(stretches: Sequence[_Stretch], index: int) -> bool:
    """Return whether a window has idle stretches for neighbours, without a hole between them."""
    if not 0 < index < len(stretches) - 1:
        return False
    before, here, after = stretches[index - 1 : index + 2]
    close = here.start_ns - before.end_ns <= _SEAM_NS and after.start_ns - here.end_ns <= _SEAM_NS
    return close and before.window is None and after.window is None


def _planned_bytes(window: SweepWindow) -> int:
    return window.repeats * window.point.size_bytes


def _stretches(spans: Sequence[PhaseSpan], window_of_order: Mapping[str, SweepWindow]) -> list[_Stretch]:
    """Neighbouring spans of one window (or of none) become one stretch; other work and LOST time, none."""
    stretches: list[_Stretch] = []
    for span in spans:
        window = window_of_order.get(span.order_id) if span.phase in ACTIVE_PHASES else None
        if span.phase in UNSTAMPED_PHASES or (span.phase in ACTIVE_PHASES and window is None):
            continue
        last = stretches[-1] if stretches else None
        if last is not None and last.window == window and span.start_ns - last.end_ns <= _SEAM_NS:
            stretches[-1] = _Stretch(
                last.start_ns, span.end_ns, window, last.transferred_bytes + span.transferred_bytes
            )
        elif span.end_ns > span.start_ns:
            stretches.append(_Stretch(span.start_ns, span.end_ns, window, span.transferred_bytes))
    return stretches
