"""Sweeps of a calibration: a radio that obeys Eq. 1 on a board, metered as the worlds of runs are.

s = sweep("restless", seed=3, windows=[Transfers("up", 8.0, 5.0, 7), ...], idle_s=5.0)
s.readings, s.spans (phase, window), s.truth       # alpha up and down in W per Mbit/s, beta in W
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fidelity.generator import DEFAULT, idle_power
from fidelity.meters import Board, metered
from fidelity.signals import DT, cumulated
from fidelity.world import BASE_NS, Readings, Span

# ruff: noqa: C408

#: Steps of 30 mW, noise of 4.
COARSE = "coarse"
#: What is different in each; Eq. 1 is true in all of them.
SWEEPS: dict[str, dict[str, Any]] = {
    "quiet": dict(),
    "restless": dict(idle_noise=0.04, idle_tau=3.0),
    "wandering": dict(idle_noise=0.03, idle_tau=20.0),
    "drift": dict(idle_drift=-0.15),
    "pulses": dict(idle_pulse=(1.0, 0.12, -5.0)),
    "job": dict(idle_pulse=(0.3, 1.5, -20.0)),
    "late": dict(late_load=(0.06, 0.2)),
    "lost": dict(lost=0.03, doubled=0.03),
    "jitter": dict(period_jitter=(0.9, 1.3)),
    "sp3": dict(meter="sp3", period=0.1),
    COARSE: dict(lsb=0.03, idle_noise=0.004, meter_noise=0.0005),
}
#: Of the rate, from second to second.
RATE_SCATTER = 0.05


@dataclass(frozen=True)
class Transfers:
    """One window: `repeats` transfers of `mbit` Mbit each, paced to `mbit_s`."""

    direction: Literal["up", "down"]
    mbit: float
    mbit_s: float
    repeats: int


@dataclass(frozen=True)
class Sweep:
    """`windows` says which of them each span is of, -1 for none; `gain` is the meter's true error, `truth`
    alpha up, alpha down (W per Mbit/s) and beta (W)."""

    readings: Readings
    spans: list[Span]
    windows: list[int]
    truth: tuple[float, float, float]
    gain: float
    period_s: float
    window_s: float
    latch_s: float
    step_w: float


def sweep(name: str, seed: int, windows: Sequence[Transfers], idle_s: float, **changes: Any) -> Sweep:
    """The sweep of that name and seed; `changes` are of the worlds' parameters."""
    p = {**DEFAULT, **SWEEPS[name], **changes}
    rng = np.random.default_rng([seed, 7, sum(ord(c) * (i + 1) for i, c in enumerate(name))])
    up, down, beta = (mean * (1 + rng.uniform(-0.3, 0.3)) for mean in (0.010, 0.005, 0.200))
    plan: list[tuple[str, int, float, float]] = []
    at_s = 0.0

    def add(phase: str, window: int, seconds: float) -> None:
        nonlocal at_s
        plan.append((phase, window, at_s, at_s + seconds))
        at_s += seconds

    add("idle", -1, idle_s)
    for k, window in enumerate(windows):
        for _ in range(window.repeats):
            # A call's own round trip makes every transfer a little longer than the pacing does.
            seconds = window.mbit / window.mbit_s + rng.exponential(0.01)
            add("upload" if window.direction == "up" else "download", k, seconds)
        add("wait", -1, idle_s + rng.uniform(0.0, 1.0))
    add("idle", -1, 2.0)
    if unknown := set(p) - set(DEFAULT):
        raise KeyError(unknown)
    count = int(np.ceil(at_s / DT)) + 1
    net = np.zeros(count)
    for _, k, start_s, end_s in plan:
        if k < 0:
            continue
        first, last = round(start_s / DT), round(end_s / DT)
        wavers = np.repeat(rng.normal(0, RATE_SCATTER, 1 + (last - first) // 1000), 1000)[: last - first]
        rate = windows[k].mbit / (end_s - start_s) * (1 + wavers - wavers.mean())
        net[first:last] = beta + (up if windows[k].direction == "up" else down) * rate
    idle = idle_power(plan, p, count, np.zeros(count), rng)
    seen = metered(Board(plan, at_s, idle, net, np.zeros(count), cumulated(idle + net)), p, rng)
    stamps = (
        BASE_NS + np.round(np.array([s for _, _, s, _ in plan] + [at_s]) * 1e9).astype(np.int64)
    ).tolist()
    spans = [Span(phase, 0, a, b) for (phase, *_), a, b in zip(plan, stamps[:-1], stamps[1:], strict=True)]
    return Sweep(
        seen.readings, spans, [k for _, k, _, _ in plan], (up, down, beta), seen.gain, p["period"],
        seen.window_s, seen.latch_s, p["lsb"] or (0.00381687 if p["meter"] == "sp2" else 0.001),
    )  # fmt: skip
