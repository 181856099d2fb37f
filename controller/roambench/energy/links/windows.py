"""Power of a device in each window of a calibration sweep, above its idle power just before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.attribution.attribute import attribute
from roambench.energy.links.sweep import SweepWindow, long_enough
from roambench.energy.readings.occupancy import SP2_WINDOW, MeterWindow
from roambench.energy.readings.samples import PowerSamples

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
    """Fit one power per window and one per idle stretch by least squares (R3), in order of time.

    `samples` are raw arrivals in device time (corrected for a known gain), `spans` one device's phases,
    sorted. A window counts when both its neighbours are idle stretches and all its transfers are there:
    one that broke off or that the agent's death interrupted is left out.
    """
    stretches = _stretches(spans, window_of_order)
    if len(stretches) < 3 or not len(samples):
        return []
    fit = attribute(
        samples,
        [_own_level(stretch) for stretch in stretches],
        nominal_s=nominal_s,
        window=meter_window,
        own_level_s=0.0,
        fit_lateness=True,
    )
    found = []
    for i in range(1, len(stretches) - 1):
        before, here, after = stretches[i - 1 : i + 2]
        whole = here.window is not None and here.transferred_bytes == _planned_bytes(here.window)
        joined = here.start_ns - before.end_ns <= _SEAM_NS and after.start_ns - here.end_ns <= _SEAM_NS
        if here.window is None or not whole or not joined or before.window or after.window:
            continue
        at = fit.level_of_span[i - 1 : i + 2]
        if fit.readings[at].min() < 1.0:
            continue  # the meter was silent
        weights = np.array([-0.5, 1.0, -0.5])
        covariance = fit.covariance_w2[np.ix_(at, at)]
        found.append(
            WindowPower(
                here.window,
                float(weights @ fit.watts[at]),
                float(np.sqrt(weights @ covariance @ weights)),
                float(fit.watts[at[[0, 2]]].mean()),
                (here.end_ns - here.start_ns) * 1e-9,
                here.transferred_bytes,
            )
        )
    return found


def _own_level(stretch: _Stretch) -> PhaseSpan:
    """As a span with a power of its own: background spans would share one idle power over hours of drift."""
    return PhaseSpan("", "", Phase.EXCHANGE, 0, stretch.start_ns, stretch.end_ns)


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
