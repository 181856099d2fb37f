"""Power of a device in each window of a calibration sweep, above its idle power just before and after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.idle.local_idle import idle_lines, idle_readings, quiet_readings
from roambench.energy.integrate import GAP_PERIODS
from roambench.energy.links.sweep import SweepWindow, long_enough
from roambench.energy.readings.occupancy import SP2_WINDOW, MeterWindow
from roambench.energy.readings.samples import PowerSamples, without_bursts
from roambench.energy.rests import GUARD_SHARE, windows_of
from roambench.energy.window_sums import BEFORE_S, cells_of, sampling_j2, u_idle_j, window_sums

#: A border stamped before the next begins leaves at most this much between two spans.
_SEAM_NS = 5_000_000


@dataclass(frozen=True, slots=True)
class WindowPower:
    """Net power of one window over its `active_s` seconds; `u_net_w` leaves out the meter's gain."""

    window: SweepWindow
    net_w: float
    u_net_w: float
    idle_w: float
    active_s: float
    transferred_bytes: int

    @property
    def mbit_s(self) -> float:
        """The rate that really was."""
        return self.transferred_bytes * 8e-6 / self.active_s

    @property
    def counts(self) -> bool:
        """Whether it lasted long enough for a fit (rule R7)."""
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
) -> list[WindowPower]:
    """The power of each window, in order of time: its readings and those of a guard behind it, summed above
    the idle power nearby.

    `samples` are raw arrivals in device time (corrected for a known gain), `spans` one device's phases,
    sorted. A window counts when both its neighbours are idle stretches and all its transfers are there:
    one that broke off or that the agent's death interrupted is left out.
    """
    stretches = _stretches(spans, window_of_order)
    if len(stretches) < 3 or not len(samples):
        return []
    steady = without_bursts(samples, nominal_s).samples
    timeline = [_as_span(stretch) for stretch in stretches]
    guard_s = GUARD_SHARE * min(span.duration_s for span in timeline if span.phase is Phase.REST)
    windows = windows_of(timeline, guard_s)
    at_s = np.multiply(steady.ns - timeline[0].start_ns, 1e-9)
    chosen = quiet_readings(at_s, timeline, windows, meter_window)
    quiet = idle_readings(at_s[chosen], steady.watts[chosen], nominal_s)
    if quiet is None:
        return []
    lines = idle_lines(quiet, windows)
    cells_s = cells_of(at_s, nominal_s, GAP_PERIODS * nominal_s)
    sums = window_sums(at_s, steady.watts, cells_s, windows, lines, quiet, nominal_s, BEFORE_S)
    found = []
    for j, window in enumerate(windows):
        here = stretches[window.first]
        assert here.window is not None
        whole = here.transferred_bytes == _planned_bytes(here.window) and len(window.active) == 1
        between = 0 < window.first < len(stretches) - 1
        length_s, seen_s = window.until_s - window.start_s, float(sums.seconds[j])
        if (
            not whole
            or not between
            or not _joined(stretches, window.first)
            or abs(seen_s - length_s) > 2.0 * nominal_s
        ):
            continue  # it broke off, or the meter was silent
        active_s = window.end_s - window.start_s
        power_w = float(sums.joules[j]) / active_s
        sampling = sampling_j2(power_w, np.array([active_s]), nominal_s, meter_window.window_s)[0]
        u_idle = u_idle_j([j], windows, lines, quiet, 0.0)
        u_j = math.sqrt(float(sampling) + float(sums.noise_j2[j]) + u_idle**2)
        found.append(
            WindowPower(
                here.window, power_w, u_j / active_s, float(sums.idle_w[j]), active_s, here.transferred_bytes
            )
        )
    return found


def _as_span(stretch: _Stretch) -> PhaseSpan:
    """A window of transfers as a phase, the time between two of them as a rest."""
    phase = Phase.REST if stretch.window is None else Phase.EXCHANGE
    return PhaseSpan("", "", phase, 0, stretch.start_ns, stretch.end_ns)


def _joined(stretches: Sequence[_Stretch], index: int) -> bool:
    """Whether a window has idle stretches for neighbours, without a hole between them."""
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
        if span.phase is Phase.LOST or (span.phase in ACTIVE_PHASES and window is None):
            continue
        last = stretches[-1] if stretches else None
        if last is not None and last.window == window and span.start_ns - last.end_ns <= _SEAM_NS:
            stretches[-1] = _Stretch(
                last.start_ns, span.end_ns, window, last.transferred_bytes + span.transferred_bytes
            )
        elif span.end_ns > span.start_ns:
            stretches.append(_Stretch(span.start_ns, span.end_ns, window, span.transferred_bytes))
    return stretches
