"""What a meter makes of a power: its windows, register and clock, and the faults of its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fidelity.signals import DT, Floats, cumulated, drawn, low_pass
from fidelity.world import BASE_NS, LOADS, Readings


@dataclass(frozen=True)
class Board:
    """What a meter stands before: phases (phase, step, start s, end s), power in W and joules until each
    point of the grid, shape (grid + 1,)."""

    plan: Sequence[tuple[str, int, float, float]]
    total_s: float
    idle: Floats
    net: Floats
    train_net: Floats
    joules: Floats


@dataclass(frozen=True)
class Metered:
    """The readings, what the meter's data sheet says of its window, and its true gain and period."""

    readings: Readings
    window_s: float
    latch_s: float
    gain: float
    period_s: float


def metered(board: Board, p: dict[str, Any], rng: np.random.Generator) -> Metered:
    """The readings of a board's meter with the parameters `p`."""
    gain = rng.normal(0, p["gain_u"]) if p["gain"] is None else p["gain"]
    joules = _register_joules(board, p, gain)
    ppm = drawn(p["ppm"], rng)
    extra = drawn(p["period_extra"], rng) if p["meter"] == "sp2" else 0.0
    period_s = p["period"] * (1 + extra) * (1 + ppm * 1e-6)
    tick_s, gaps_s = _ticks(board.total_s, period_s, p, rng)
    if p["meter"] == "sp2":
        watts, window_s, latch_s = _free_running(joules, tick_s, board.total_s, p, rng), 0.264, 0.264
    else:
        watts, window_s, latch_s = (
            _end_to_end(joules, tick_s, gaps_s, period_s, p, rng),
            p["window_s"] or p["period"],
            0.0,
        )
    shown, volts, amps = _registers(watts, p)
    _freeze(tick_s, (shown, volts, amps), board.total_s, p, rng)
    starts_s = np.array([start_s for _, _, start_s, _ in board.plan])
    is_load = np.array([phase in LOADS for phase, *_ in board.plan])
    loaded = is_load[np.clip(np.searchsorted(starts_s, tick_s, side="right") - 1, 0, len(is_load) - 1)]
    arrival_s = _arrivals(board, tick_s, loaded, p, rng)
    chosen, stamp_s = _lost_and_doubled(board.total_s, tick_s, arrival_s, loaded, p, rng)
    stamps = BASE_NS + np.round((stamp_s + p["clock_offset"]) * 1e9).astype(np.int64)
    readings = Readings(stamps, shown[chosen], volts[chosen], amps[chosen])
    return Metered(readings, window_s, latch_s, gain, period_s)


def _register_joules(board: Board, p: dict[str, Any], gain: float) -> Floats:
    """Joules until each point of the grid as the meter's front end sees them, shape (grid + 1,)."""
    count = len(board.net)
    shaped = p["nonlin"] and not p["nonlin_watts_only"]
    if not (p["board_low_pass"] or p["meter_low_pass"] or shaped or p["gain_heat"] or p["gain_drift"]):
        return board.joules * (1 + gain) + p["offset"] * DT * np.arange(count + 1)
    register = board.idle + board.net
    if p["board_low_pass"]:
        register = low_pass(register, p["board_low_pass"])
    gains = np.full(count, 1 + gain)
    if p["gain_heat"]:
        gains += low_pass(board.train_net, 60.0) / p["train_w"] * p["gain_heat"]
    gains += p["gain_drift"] * (np.arange(count) * DT / board.total_s - 0.5)
    register = register * gains + p["offset"]
    if shaped:
        register = np.where(register > 3.0, register * (1 + p["nonlin"]), register)
    if p["meter_low_pass"]:
        register = low_pass(register, p["meter_low_pass"])
    return cumulated(register)


def _mean_w(joules: Floats, from_s: Floats, to_s: Floats) -> Floats:
    def until(at_s: Floats) -> Floats:
        x = np.clip(at_s / DT, 0, len(joules) - 1)
        i = np.minimum(x.astype(np.int64), len(joules) - 2)
        return np.asarray(joules[i] + (x - i) * (joules[i + 1] - joules[i]))

    return np.asarray((until(to_s) - until(from_s)) / (to_s - from_s))


def _ticks(
    total_s: float, period_s: float, p: dict[str, Any], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """When the meter prints, and the time between, s."""
    count = int(total_s / period_s) + 2
    if p["period_jitter"]:
        gaps_s = rng.uniform(*p["period_jitter"], size=count) * period_s
    elif p["skew"]:  # (share, how much longer)
        gaps_s = period_s * np.where(rng.random(count) < p["skew"][0], p["skew"][1], 1.0)
    else:
        gaps_s = np.full(count, period_s)
    tick_s = rng.uniform(0.0, p["period"]) + np.concatenate([[0.0], np.cumsum(gaps_s)])
    return tick_s[(tick_s > 0.0) & (tick_s < total_s - 0.005)], gaps_s


def _free_running(
    joules: Floats, tick_s: Floats, total_s: float, p: dict[str, Any], rng: np.random.Generator
) -> Floats:
    """A Smart Power 2: conversions run freely, a line shows the last that ended."""
    conversion_s = p["conv_s"] * (1 + p["conv_tol"] * float(np.clip(rng.normal(), -2, 2)))
    count = int(total_s / conversion_s * 1.05) + 20
    lengths_s = np.full(count, conversion_s)
    if p["conv_jitter"]:
        lengths_s = conversion_s * (1 + p["conv_jitter"] * rng.normal(size=count))
    ends_s = rng.uniform(-conversion_s, 0) + np.cumsum(lengths_s)
    last = np.maximum(np.searchsorted(ends_s, tick_s, side="right") - 1, 0)
    end_s = np.where(ends_s[last] <= tick_s, ends_s[last], tick_s)
    window_s = p["window_s"] or lengths_s[last]
    watts = _mean_w(joules, np.maximum(end_s - window_s, 0.0), np.maximum(end_s, 0.002))
    return watts + rng.normal(0, p["meter_noise"], count)[last]


def _end_to_end(
    joules: Floats,
    tick_s: Floats,
    gaps_s: Floats,
    period_s: float,
    p: dict[str, Any],
    rng: np.random.Generator,
) -> Floats:
    """A meter that averages until it prints: the time since its last line (Smart Power 3), or a fixed one."""
    if p["window_s"]:
        window_s: Any = p["window_s"]
    elif p["meter"] == "sp3":
        window_s = np.diff(np.concatenate([[tick_s[0] - period_s], tick_s]))
    else:
        window_s = p["period"]
    watts = _mean_w(joules, np.maximum(tick_s - window_s, 0.0), np.maximum(tick_s, 0.002))
    return watts + rng.normal(0, p["meter_noise"], len(tick_s))


def _registers(watts: Floats, p: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    """Watts, volts and amperes as they are printed."""
    shown = watts
    if p["nonlin"] and p["nonlin_watts_only"]:
        shown = np.where(watts > 3.0, watts * (1 + p["nonlin"]), watts)
    volts = 5.1 - 0.02 * watts
    amps = watts / volts
    step_w = p["lsb"] if p["lsb"] is not None else (0.00381687 if p["meter"] == "sp2" else 0.001)
    return (
        np.round(np.round(shown / step_w) * step_w, p["decimals"]),
        np.round(np.round(volts / 0.00125) * 0.00125, 3),
        np.round(np.round(amps / 0.0001526) * 0.0001526, 3),
    )


def _freeze(
    tick_s: Floats, columns: Sequence[Floats], total_s: float, p: dict[str, Any], rng: np.random.Generator
) -> None:
    """Repeat the last values for a while, in place."""
    if not p["frozen"]:
        return
    times, (low_s, high_s) = p["frozen"]
    for _ in range(times):
        start_s = rng.uniform(60.0, max(61.0, total_s - 60.0 - high_s))
        stuck = np.nonzero((tick_s >= start_s) & (tick_s < start_s + rng.uniform(low_s, high_s)))[0]
        for column in columns:
            column[stuck] = column[stuck[0]]


def _arrivals(
    board: Board, tick_s: Floats, loaded: Floats, p: dict[str, Any], rng: np.random.Generator
) -> Floats:
    """When lines arrive, s: late, held back by a starved reader, or caught up by the meter."""
    delay_s = p["latency"] + rng.exponential(0.001, len(tick_s)) + drawn(p["late"], rng)
    if p["late_load"]:
        delay_s = delay_s + np.where(loaded, rng.uniform(*p["late_load"], size=len(tick_s)), 0.0)
    arrival_s = tick_s + delay_s
    if p["hold"]:  # the host reads nothing for a while: (share of loads, s)
        share, most_s = p["hold"]
        for phase, _, start_s, end_s in board.plan:
            if phase in LOADS and rng.random() < share:
                from_s = rng.uniform(start_s, end_s)
                to_s = from_s + rng.uniform(0.5 * most_s, most_s)
                held = (arrival_s >= from_s) & (arrival_s < to_s)
                arrival_s[held] = to_s + np.arange(held.sum()) * 0.002
    if p["catch_up"]:  # the meter's own loop stalls and catches up
        k = 0
        while k < len(arrival_s) - 5:
            if rng.random() < p["catch_up"]:
                lines = int(rng.integers(2, 4))
                arrival_s[k : k + lines] = arrival_s[k + lines - 1] + np.arange(lines) * 0.004
                k += lines
            k += 1
    return np.asarray(np.maximum.accumulate(arrival_s) + np.arange(len(arrival_s)) * 1e-9)


def _lost_and_doubled(
    total_s: float,
    tick_s: Floats,
    arrival_s: Floats,
    loaded: Floats,
    p: dict[str, Any],
    rng: np.random.Generator,
) -> tuple[Any, Floats]:
    """Which lines arrive, some of them twice, and when."""
    kept = np.ones(len(tick_s), bool)
    if p["lost"]:
        kept &= rng.random(len(tick_s)) >= p["lost"]
    if p["lost_load"]:
        kept &= ~(loaded & (rng.random(len(tick_s)) < p["lost_load"]))
    if p["gap"]:
        times, seconds = p["gap"]
        for _ in range(times):
            start_s = rng.uniform(60.0, total_s - 60.0)
            kept &= ~((tick_s >= start_s) & (tick_s < start_s + seconds))
    chosen = np.nonzero(kept)[0]
    if not p["doubled"]:
        return chosen, arrival_s[chosen]
    again = chosen[rng.random(len(chosen)) < p["doubled"]]
    stamp_s = np.concatenate([arrival_s[chosen], arrival_s[again] + rng.uniform(0.005, 0.08, len(again))])
    order = np.argsort(stamp_s, kind="stable")
    return np.concatenate([chosen, again])[order], stamp_s[order]
