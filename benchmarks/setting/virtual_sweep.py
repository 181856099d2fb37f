"""A calibration sweep in virtual time: a board with a drawn radio, its restless background, its meter."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from roambench.contract.draws import generator
from roambench.contract.link_power import LinkPower
from roambench.contract.phases import Phase, PhaseSpan
from roambench.emulation.electric.power import Activity, PiPower
from roambench.emulation.virtual import emulate
from roambench.energy.links.sweep import SweepSettings, SweepWindow, plan_sweep
from roambench.energy.readings.samples import PowerSamples

#: The board's other processes: one core's share, changing about this often.
RESTLESS_CORES = 0.015
RESTLESS_S = 0.8
#: It warms up over the sweep by this much of a core.
WARM_CORES = 0.05
#: The rate of a paced link from second to second.
RATE_SCATTER = 0.05


@dataclass(frozen=True)
class VirtualSweep:
    """What the analysis may see of one device, and (apart) the truth that it may not."""

    samples: PowerSamples
    spans: list[PhaseSpan]
    window_of_order: dict[str, SweepWindow]
    truth: LinkPower


def virtual_sweep(
    settings: SweepSettings, seed: int, device: int = 0, *, spread: float = 0.3, tolerance: float = 1.0
) -> VirtualSweep:
    """One device's sweep; its radio and (with `tolerance`) its meter's parts are drawn from the seed."""
    power = PiPower().varied(seed, device).with_drawn_radio(seed, device, spread)
    draw = generator(seed, "virtual sweep", device)
    windows = plan_sweep(settings, seed, device)
    spans: list[PhaseSpan] = []
    rates: list[tuple[float, SweepWindow | None]] = []  # what the radio does from that second on
    at = 0.0

    def add(phase: Phase, length_s: float, window: SweepWindow | None = None) -> None:
        nonlocal at
        order = "" if window is None else f"order-{window.index}"
        start_ns, end_ns = round(at * 1e9), round((at + length_s) * 1e9)
        moved = 0 if window is None else window.point.size_bytes
        spans.append(PhaseSpan(f"pi-{device}", "boot", phase, 0, start_ns, end_ns, order, "", moved))
        rates.append((at, window))
        at += length_s

    add(Phase.IDLE, settings.idle_s)
    for window in windows:
        phase = Phase.UPLOAD if window.point.direction == "up" else Phase.DOWNLOAD
        for _ in range(window.repeats):
            # A call's own round trip makes every transfer a little longer than the pacing does.
            add(phase, window.point.transfer_s + draw.exponential(0.01), window)
        add(Phase.WAIT, settings.idle_s + draw.uniform(0.0, 1.0))
    run = emulate(
        _activities(rates, at, draw), at + 2.0, seed, device=device, power=power, tolerance=tolerance
    )
    return VirtualSweep(
        PowerSamples.from_readings(run.readings()),
        spans,
        {f"order-{window.index}": window for window in windows},
        power.radio,
    )


def _activities(
    rates: list[tuple[float, SweepWindow | None]], end_s: float, draw: np.random.Generator
) -> list[tuple[float, Activity]]:
    """What the board does from when on: borders, and in between the restless background and rate."""
    borders = [at for at, _ in rates]
    restless = np.cumsum(draw.exponential(RESTLESS_S, int(2.0 * end_s / RESTLESS_S)))
    edges = np.unique(np.concatenate((borders, restless[restless < end_s])))
    inside = np.searchsorted(borders, edges, "right") - 1
    busy = draw.exponential(RESTLESS_CORES, len(edges)) + WARM_CORES * (1.0 - np.exp(-3.0 * edges / end_s))
    # The mean over a transfer is what its bytes and seconds say: pieces scatter around it, lengths weighed.
    length = np.diff(np.append(edges, end_s))
    scatter = RATE_SCATTER * draw.standard_normal(len(edges))
    weight = np.bincount(inside, length, len(rates))
    scatter -= (np.bincount(inside, scatter * length, len(rates)) / weight)[inside]
    schedule = []
    for k, at in enumerate(edges.tolist()):
        _, window = rates[inside[k]]
        mbit_s = 0.0
        if window is not None:
            mbit_s = window.point.size_mbit / weight[inside[k]] * (1.0 + float(scatter[k]))
        up = window is not None and window.point.direction == "up"
        schedule.append(
            (at, Activity(float(busy[k]), mbit_s if up else 0.0, 0.0 if up else max(0.0, mbit_s)))
        )
    assert math.isfinite(end_s)
    return schedule
