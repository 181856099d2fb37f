"""One world: a plan of phases, what the board draws in it, and what its meter shows.

    w = world("clean_2s", seed=3)             # own rounds and rests of the world, else 20 and 4.0 s
    w.readings.arrival_ns / .watts / .volts / .amps
    w.spans      -> [Span(phase, step, start_ns, end_ns), ...]  contiguous
    w.nominal_s, w.window_s, w.latch_s, w.gain_u              # what a data sheet says (NOT what is true)
    w.truth.gross(a, b), .idle(a, b), .net(a, b)              # joules between two ns stamps
    w.truth.span_caused[i]   net joules that span i caused, wherever they fell (tail, promotion included)
    w.truth.caused("download")                                # sum over the spans of a phase

Idle power is what the board would have drawn at that moment without the phases' own loads: level, drift,
noise, flips, background bursts and the leakage of a chip still warm. A tail belongs to the span that caused
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fidelity.catalogue import WORLDS
from fidelity.meters import Board, metered
from fidelity.signals import DT, Floats, ar1, drawn, load_shape, low_pass
from fidelity.world import BASE_NS, LOADS, Span, Truth, World

Parameters = dict[str, Any]
#: Phase, step, start and end in seconds.
Planned = tuple[str, int, float, float]

DEFAULT: Parameters = dict(  # noqa: C408
    rounds=20, rest_s=4.0, baseline_s=60.0,
    order="fl",                          # "fl": download/train/upload; "peers": train/exchange
    down_s=2.0, up_s=2.0, train_s=10.0, exchange_s=2.0, spread=0.15, train_spread=0.10,
    down_w=0.45, up_w=0.70, train_w=2.6, exchange_w=0.6,
    wait_s=(0.1, 1.0), wait_w=0.0, drain=None, dither_s=1.0, lock_s=None,
    down={}, up={}, train={}, exchange={},
    idle_w=1.9, idle_noise=0.015, idle_tau=0.5, idle_drift=0.0, idle_flip=None, heat_w=0.0, heat_tau=30.0,
    idle_pulse=None,                     # (watts, length s, period s or minus the mean of a Poisson process)
    rest_pulse=None,                     # (watts, length, at: share of every long rest)
    rest_w=0.0,                          # rests (and waits) draw more than the long baselines
    border_late=0.0, board_low_pass=0.0,
    # meter
    meter="sp2", period=1.0, ppm=(-50, 50), period_extra=(0.0, 0.0009), conv_s=0.2638, conv_tol=0.02,
    conv_jitter=0.0, window_s=None, meter_low_pass=0.0, period_jitter=None, skew=None, latency=0.003,
    late=0.0, late_load=None, hold=None, lost=0.0, lost_load=0.0, gap=None, doubled=0.0, frozen=None,
    catch_up=0.0, clock_offset=0.0,
    gain=None, gain_u=0.002, nonlin=0.0, nonlin_watts_only=False, gain_heat=0.0, gain_drift=0.0, offset=0.0,
    meter_noise=0.0015, lsb=None, decimals=3,
)  # fmt: skip


def world(
    name: str, seed: int, rounds: int | None = None, rest_s: float | None = None, **changes: Any
) -> World:
    """The world of this name and seed; None: its own rounds and rests. `changes` are of `DEFAULT`."""
    spec = WORLDS[name]
    p = {**DEFAULT, **spec["set"], **changes}
    if rounds is not None:
        p["rounds"] = rounds
    if rest_s is not None:
        p["rest_s"] = rest_s
    if unknown := set(p) - set(DEFAULT):
        raise KeyError(unknown)
    rng = np.random.default_rng([seed, sum(ord(c) * (i + 1) for i, c in enumerate(name))])
    plan = _plan(p, rng)
    total_s = plan[-1][3]
    count = int(np.ceil(total_s / DT)) + 1
    net, train_net, caused = _loads(plan, p, count, rng)
    idle = idle_power(plan, p, count, train_net, rng)
    spans = _stamped(plan, p, rng)
    truth = Truth(idle, net, spans, caused)
    seen = metered(Board(plan, total_s, idle, net, train_net, truth.cumulated_gross), p, rng)
    spacing = 1.0
    if p["period_jitter"]:
        spacing = float(np.mean(p["period_jitter"]))
    elif p["skew"]:
        spacing = 1 + p["skew"][0] * (p["skew"][1] - 1)
    facts = {"true_period": seen.period_s * spacing, "gain": seen.gain, "total_s": total_s}
    return World(
        name, seed, seen.readings, spans, truth, p["period"], seen.window_s, seen.latch_s, p["gain_u"],
        spec["holds"], spec["cause"], p["rest_s"], {**facts, "seen": spec["seen"], "set": spec["set"]},
    )  # fmt: skip


def _plan(p: Parameters, rng: np.random.Generator) -> list[Planned]:
    """Phases with their physical borders, contiguous."""
    plan: list[Planned] = []
    rest_s, at_s = p["rest_s"], 0.0

    def add(phase: str, step: int, seconds: float) -> None:
        nonlocal at_s
        plan.append((phase, step, at_s, at_s + seconds))
        at_s += seconds

    def length(mean: float, spread: float) -> float:
        return mean * (1 + rng.uniform(-spread, spread))

    add("idle", -1, p["baseline_s"])
    for step in range(p["rounds"]):
        if p["lock_s"]:  # steps start at whole multiples of the clock
            add("wait", step, (-at_s) % p["lock_s"] or p["lock_s"])
        else:
            dither_s = p["dither_s"]
            add("wait", step, drawn(p["wait_s"], rng) + (rng.uniform(0, dither_s) if dither_s else 0.0))
        if p["order"] == "fl":
            add("rest", step, rest_s / 2)
            add("download", step, length(p["down_s"], p["spread"]))
            add("rest", step, rest_s)
            add("train", step, length(p["train_s"], p["train_spread"]))
            add("rest", step, rest_s)
            add("wait", step, drawn(p["wait_s"], rng))
            add("rest", step, rest_s / 2)
            add("upload", step, length(p["up_s"], p["spread"]))
            add("rest", step, rest_s)
        else:
            add("rest", step, rest_s / 2)
            add("train", step, length(p["train_s"], p["train_spread"]))
            add("rest", step, rest_s)
            for _ in range(2):
                add("wait", step, drawn(p["wait_s"], rng))
                add("rest", step, rest_s / 2)
                add("exchange", step, length(p["exchange_s"], p["spread"]))
                add("rest", step, rest_s)
    add("wait", p["rounds"], drawn(p["wait_s"], rng))
    add("idle", -1, p["baseline_s"])
    return plan


def _loads(
    plan: list[Planned], p: Parameters, count: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Net power of all phases and of training, shape (grid,), and joules that each phase caused."""
    net, train_net, caused = np.zeros(count), np.zeros(count), np.zeros(len(plan))
    for i, (phase, _, start_s, end_s) in enumerate(plan):
        seconds, lead = end_s - start_s, 0
        if phase in LOADS:
            short = {"download": "down", "upload": "up"}.get(phase, phase)
            shape, lead = load_shape(p[short], seconds, p[short + "_w"], rng, start_s)
        elif phase == "wait" and (p["wait_w"] or p["drain"]):
            samples = max(1, int(seconds / DT))
            shape = np.full(samples, float(p["wait_w"]))
            if p["drain"]:  # a drain of records: (watts, seconds)
                shape[: min(samples, int(p["drain"][1] / DT))] += p["drain"][0]
        else:
            continue
        first = round(start_s / DT) - lead
        shape = shape[: count - first]
        net[first : first + len(shape)] += shape
        caused[i] = shape.sum() * DT
        if phase == "train":
            train_net[first : first + len(shape)] += shape
    return net, train_net, caused


def idle_power(
    plan: list[Planned], p: Parameters, count: int, train_net: Floats, rng: np.random.Generator
) -> Floats:
    """Idle power, shape (grid,)."""
    total_s, rest_s = plan[-1][3], p["rest_s"]
    idle = np.full(count, p["idle_w"] + rng.uniform(-0.05, 0.05))
    idle += ar1(count, p["idle_noise"], p["idle_tau"], rng)
    idle += p["idle_drift"] * np.arange(count) * DT / 600.0  # W in 10 min
    if p["idle_flip"]:
        watts, dwell_s = p["idle_flip"]
        at_s, high = 0.0, rng.integers(0, 2)
        while at_s < total_s:
            stays_s = rng.exponential(dwell_s)
            if high:
                idle[int(at_s / DT) : int((at_s + stays_s) / DT)] += watts
            high, at_s = 1 - high, at_s + stays_s
    if p["heat_w"]:
        idle += low_pass(train_net, p["heat_tau"]) * (p["heat_w"] / p["train_w"])
    if p["idle_pulse"]:
        watts, seconds, every_s = p["idle_pulse"]
        if every_s < 0:
            times = rng.uniform(0, total_s, rng.poisson(total_s / -every_s))
        else:
            times = np.arange(rng.uniform(0, every_s), total_s, every_s)
        for at_s in times:
            idle[int(at_s / DT) : int((at_s + seconds) / DT)] += watts
    for phase, _, start_s, end_s in plan:
        if p["rest_w"] and phase != "idle":
            idle[round(start_s / DT) : round(end_s / DT)] += p["rest_w"]
        if p["rest_pulse"] and phase == "rest" and end_s - start_s > 0.6 * rest_s:
            watts, seconds, share = p["rest_pulse"]
            at_s = start_s + share * (end_s - start_s)
            idle[int(at_s / DT) : int((at_s + seconds) / DT)] += watts
    return idle


def _stamped(plan: list[Planned], p: Parameters, rng: np.random.Generator) -> list[Span]:
    """The phases as the agent stamps their borders: late, where it is."""
    borders_s = np.array([start_s for _, _, start_s, _ in plan] + [plan[-1][3]])
    if p["border_late"]:
        borders_s[1:-1] += rng.uniform(*p["border_late"], size=len(borders_s) - 2)
        borders_s = np.maximum.accumulate(borders_s)
    stamps = (BASE_NS + np.round(borders_s * 1e9).astype(np.int64)).tolist()
    return [
        Span(phase, step, start_ns, end_ns)
        for (phase, step, _, _), start_ns, end_ns in zip(plan, stamps[:-1], stamps[1:], strict=True)
    ]
