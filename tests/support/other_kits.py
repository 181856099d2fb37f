"""Kits of boards and meters, drawn from docs/prove.md alone, before the judging was read.

Nothing of roambench but the kit's shape is used. A board has a governor that ramps, background work, a die
that warms up and a clock that may be throttled; a radio that is never quite steady; lines come late by the
host's business; the chip samples current in 16 slots beside 16 of voltage, and its power register is the
product of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from roambench.extras.verify.kit import FORMAT, Kit, Looked, MeterSeries, TimedTransfer

Floats = NDArray[np.float64]

_GRID_S = 0.001
_I_STEP = 0.1526e-3
_V_STEP = 1.25e-3


@dataclass(frozen=True)
class Meter:
    """A Smart Power 2, or what it may turn out to be."""

    period_s: float = 1.0
    jitter_s: float = 0.002  # of the host's stamps, one-sided
    late_share: float = 0.01  # lines that come up to 60 ms late
    lost_share: float = 0.0
    conversion_s: float = 0.01649  # one slot of current and one of volts
    averages: int = 16
    wander_ppm_60s: float = 10.0
    jitter_conversion_s: float = 2e-5
    drift_ppm: float = 0.0  # of the pace over the whole session
    held_s: float = 0.0  # how much older than the last conversion a printed value is
    step_w: float = 3.81687e-3
    watts_gain: float = 1.0
    offset_a: float = 0.001
    burst_every_s: float = 0.0  # the firmware stalls so often, for 3 s, then prints what it missed


@dataclass(frozen=True)
class Board:
    """A Pi 3B+ and its radio."""

    idle_w: float = 1.92
    busy_w: float = 4.9
    noise_w: float = 0.008
    noise_tau_s: float = 3.0
    warmth_w: float = 0.015
    warmth_tau_s: float = 60.0
    ramp_s: float = 0.008
    edge_jitter_s: float = 0.004
    throttled_after_s: float = 0.0
    throttled_to_w: float = 4.3
    background_every_s: float = 0.0
    background_w: float = 0.3
    background_s: float = 2.0
    idle_step_w: float = 0.0  # something begins to draw this in the middle of the session
    download_w: float = 0.55
    upload_w: float = 0.75
    scatter: float = 0.02  # from second to second of a transfer
    thirds: tuple[float, float, float] = (1.0, 1.0, 1.0)
    tail_w: float = 0.0
    tail_s: float = 0.0
    promotion_w: float = 0.25
    promotion_s: float = 0.08


@dataclass(frozen=True)
class World:
    """What is drawn, and which rows of the page should not hold."""

    name: str
    meter: Meter = field(default_factory=Meter)
    board: Board = field(default_factory=Board)
    clock_ppm: float = 8.0
    clock_step_s: float = 0.0
    checks: tuple[Looked, ...] = (
        Looked("OS image", "pass", "Debian 12 or 13, or Ubuntu 24.04, Python 3.11 to 3.14, 64 bit"),
    )
    wrong: frozenset[str] = frozenset()
    #: Rows of which the page does not say what they come to in such a world.
    open: frozenset[str] = frozenset()


def _timeline(
    rng: np.random.Generator, half_s: float, wave_s: float
) -> tuple[list[float], list[tuple[float, float]], list[TimedTransfer], float]:
    at = 5.0
    rests = [(at, at + 60.0)]
    at += 60.5
    edges = [at]
    while edges[-1] < at + wave_s:
        edges.append(edges[-1] + half_s + rng.uniform(0.0, 0.01))
    if len(edges) % 2:
        edges.append(edges[-1] + half_s)
    at = edges[-1] + 1.0
    rests.append((at, at + 60.0))
    at += 61.0
    moved = []
    for direction in ("download", "upload"):
        for _ in range(5):
            first = at + rng.uniform(0.3, 1.5)
            last = first + 12.0 + rng.uniform(-0.3, 0.8)
            moved.append(TimedTransfer(direction, first, last, int(3e6 * (last - first))))
            at = last + 6.0 + rng.uniform(0.0, 1.0)
    return edges, rests, moved, at + 5.0


def _between(from_s: float, until_s: float) -> slice:
    return slice(round(from_s / _GRID_S), round(until_s / _GRID_S))


def _power(
    world: World, edges: list[float], moved: list[TimedTransfer], end_s: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    board = world.board
    at = np.arange(0.0, end_s, _GRID_S)
    busy = np.zeros(len(at))
    for begin, until in zip(edges[::2], edges[1::2], strict=True):
        late_begin = begin + abs(rng.normal(0.0, board.edge_jitter_s))
        late_end = until + rng.normal(0.0, board.edge_jitter_s / 2)
        busy[int(late_begin / _GRID_S) : int(late_end / _GRID_S)] = 1.0
    lag = max(1, int(board.ramp_s / _GRID_S))
    busy = np.convolve(busy, np.ones(lag) / lag)[: len(at)]
    high = np.full(len(at), board.busy_w - board.idle_w)
    if board.throttled_after_s:
        high[at > edges[0] + board.throttled_after_s] = board.throttled_to_w - board.idle_w
    watts = board.idle_w + busy * high
    keep = np.exp(-_GRID_S * 100 / board.warmth_tau_s)
    warm, level = np.zeros(len(at[::100])), 0.0
    for index, work in enumerate(busy[::100]):
        level = keep * level + (1 - keep) * work
        warm[index] = level
    watts += board.warmth_w * 2 * np.interp(at, at[::100], warm)
    keep = np.exp(-0.1 / board.noise_tau_s)
    drawn = rng.normal(0.0, board.noise_w * np.sqrt(1 - keep**2), len(warm))
    level = 0.0
    for index, value in enumerate(drawn):
        level = keep * level + value
        drawn[index] = level
    watts += np.interp(at, at[::100], drawn)
    if board.background_every_s:
        when = rng.exponential(board.background_every_s)
        while when < end_s:
            watts[_between(when, when + board.background_s)] += board.background_w
            when += rng.exponential(board.background_every_s)
    if board.idle_step_w:
        watts[at > end_s / 2] += board.idle_step_w
    for one in moved:
        power = board.download_w if one.direction == "download" else board.upload_w
        long = one.last_s - one.first_s
        for second in np.arange(0.0, long, 0.5):
            here = _between(one.first_s + second, min(one.last_s, one.first_s + second + 0.5))
            third = board.thirds[min(2, int(3 * second / long))]
            watts[here] += power * third * (1 + rng.normal(0.0, board.scatter))
        watts[_between(one.first_s - board.promotion_s, one.first_s)] += board.promotion_w
        watts[_between(one.last_s, one.last_s + board.tail_s)] += board.tail_w
    return at, watts


def _series(meter: Meter, at: Floats, watts: Floats, rng: np.random.Generator) -> MeterSeries:
    supply_v = 5.13
    amps = watts / supply_v
    volts = supply_v - 0.04 * amps
    amps = watts / volts
    sum_a = np.concatenate(([0.0], np.cumsum(amps))) * _GRID_S
    sum_v = np.concatenate(([0.0], np.cumsum(volts))) * _GRID_S
    grid = np.concatenate((at, [at[-1] + _GRID_S]))
    many = int(at[-1] / (meter.conversion_s * meter.averages)) + 2
    pace = rng.normal(
        0.0, meter.wander_ppm_60s * np.sqrt(meter.conversion_s * meter.averages / 60.0), many
    ).cumsum()
    pace += np.linspace(0.0, meter.drift_ppm, many)
    windows = meter.conversion_s * meter.averages * (1 + 1e-6 * pace)
    windows += rng.normal(0.0, meter.jitter_conversion_s, many)
    ends = rng.uniform(0.0, 0.3) + np.cumsum(windows)
    shunt = np.zeros(many)
    bus = np.zeros(many)
    for slot in range(meter.averages):
        begin = ends - windows + windows * slot / meter.averages
        middle = begin + windows / meter.averages / 2
        until = begin + windows / meter.averages
        shunt += (np.interp(middle, grid, sum_a) - np.interp(begin, grid, sum_a)) / (middle - begin)
        bus += (np.interp(until, grid, sum_v) - np.interp(middle, grid, sum_v)) / (until - middle)
    amps_steps = np.round((shunt / meter.averages + meter.offset_a) / _I_STEP)
    volts_steps = np.round(bus / meter.averages / _V_STEP)
    true_w = amps_steps * _I_STEP * volts_steps * _V_STEP * meter.watts_gain
    out: list[tuple[float, float, float, float]] = []
    due = 0.4 + rng.uniform(0.0, 1.0)
    crystal = 1 + rng.uniform(-20e-6, 20e-6)
    stalled_until = 0.0
    next_stall = meter.burst_every_s or float("inf")
    while due < at[-1] - 1.0:
        if due > next_stall:
            stalled_until, next_stall = due + 3.0, due + meter.burst_every_s
        asked = max(due, stalled_until)
        index = int(np.searchsorted(ends, asked - meter.held_s, side="right")) - 1
        if index >= 0 and rng.random() >= meter.lost_share:
            late = 0.004 + abs(rng.normal(0.0, meter.jitter_s))
            if rng.random() < meter.late_share:
                late += rng.uniform(0.0, 0.06)
            shown = round(round(true_w[index] / meter.step_w) * meter.step_w, 3)
            out.append(
                (
                    asked + late,
                    shown,
                    round(volts_steps[index] * _V_STEP, 3),
                    round(amps_steps[index] * _I_STEP, 3),
                )
            )
        due += meter.period_s * crystal
    out.sort()
    times, shown_w, shown_v, shown_a = zip(*out, strict=True)
    return MeterSeries(times, shown_w, shown_v, shown_a)


def kit_of(world: World, seed: int, *, half_s: float = 2.685, wave_s: float = 600.0) -> Kit:
    """One session with such a board and meter."""
    rng = np.random.default_rng(seed)
    edges, rests, moved, end_s = _timeline(rng, half_s, wave_s)
    at, watts = _power(world, edges, moved, end_s, rng)
    series = _series(world.meter, at, watts, rng)
    first = series.at_s[0]
    offsets = []
    for when in np.concatenate((np.linspace(1.0, 4.0, 5), np.linspace(end_s - 4.0, end_s - 1.0, 5))):
        bound = rng.uniform(0.0008, 0.004)
        step = world.clock_step_s if when > end_s / 2 else 0.0
        offsets.append(
            (
                when - first,
                0.013 + step + world.clock_ppm * 1e-6 * when + rng.uniform(-bound, bound) / 2,
                bound,
            )
        )
    return Kit(
        FORMAT,
        "0.2.0",
        "Raspberry Pi 3 Model B Plus Rev 1.3",
        "smartpower2",
        "smartpower2",
        1.0,
        4,
        replace(series, at_s=tuple(float(one - first) for one in series.at_s)),
        tuple(float(one - first) for one in edges),
        tuple((a - first, b - first) for a, b in rests),
        tuple(replace(one, first_s=one.first_s - first, last_s=one.last_s - first) for one in moved),
        tuple((float(a), float(b), float(c)) for a, b, c in offsets),
        world.checks,
    )


LINES = "a line every"
STEPS = "watts in steps"
PRODUCT = "watts are volts times amps"
MEAN = "a value is the mean"
AGE = "at most"
PACE = "conversions keep time"
IDLE = "an idle board draws the same"
BUSY = "a busy board draws the same"
STEADY = "draw constant power"
TAIL = "nothing is drawn after"
CLOCK = "the board's clock"
ASKED = "preflight"


def _world(
    name: str,
    wrong: tuple[str, ...] = (),
    unclear: tuple[str, ...] = (),
    *,
    meter: Callable[[Meter], Meter] = lambda one: one,
    board: Callable[[Board], Board] = lambda one: one,
    **more: object,
) -> World:
    world = World(name, meter(Meter()), board(Board()), wrong=frozenset(wrong), open=frozenset(unclear))
    return replace(world, **more)  # type: ignore[arg-type]


#: Boards and meters of which every row of the page holds.
FAIR: tuple[World, ...] = (
    _world("plain"),
    _world("chip 3 % fast", meter=lambda one: replace(one, conversion_s=0.016)),
    _world("chip 4 % slow", meter=lambda one: replace(one, conversion_s=0.01715)),
    _world("restless board", board=lambda one: replace(one, noise_w=0.02, noise_tau_s=6.0)),
    _world("quiet board", board=lambda one: replace(one, noise_w=0.001)),
    _world("warm die", board=lambda one: replace(one, warmth_w=0.03)),
    _world("timers wake up", board=lambda one: replace(one, background_every_s=90.0, background_s=0.4)),
    _world("stamps 6 ms", meter=lambda one: replace(one, jitter_s=0.006)),
    _world("busy host", meter=lambda one: replace(one, late_share=0.03)),
    _world("slow ramp", board=lambda one: replace(one, ramp_s=0.02, edge_jitter_s=0.008)),
    _world("shunt offset", meter=lambda one: replace(one, offset_a=-0.003)),
    _world("radio scatters", board=lambda one: replace(one, scatter=0.08)),
    _world("small radio", board=lambda one: replace(one, download_w=0.2, upload_w=0.35)),
    _world("one core's worth", board=lambda one: replace(one, busy_w=2.7)),
    _world("clock 35 ppm", clock_ppm=35.0),
)

#: One thing is otherwise.
ODD: tuple[World, ...] = (
    _world("line every 1.03 s", (LINES,), meter=lambda one: replace(one, period_s=1.03)),
    _world("line every 0.97 s", (LINES,), meter=lambda one: replace(one, period_s=0.97)),
    _world("lines 0.2 s late", (LINES,), (AGE, MEAN, PACE), meter=lambda one: replace(one, jitter_s=0.15)),
    _world("1 of 60 lost", (LINES,), meter=lambda one: replace(one, lost_share=1 / 60)),
    _world("stalls", (LINES,), (AGE, PACE, MEAN), meter=lambda one: replace(one, burst_every_s=30.0)),
    _world("steps of 10 mW", (STEPS,), meter=lambda one: replace(one, step_w=0.01)),
    _world("steps of 25 mW", (STEPS,), meter=lambda one: replace(one, step_w=0.025)),
    _world("watts 4 % high", (PRODUCT,), meter=lambda one: replace(one, watts_gain=1.04)),
    _world("watts 4 % low", (PRODUCT,), meter=lambda one: replace(one, watts_gain=0.96)),
    _world("mean of 132 ms", (MEAN,), (AGE, PACE), meter=lambda one: replace(one, averages=8)),
    _world("mean of 528 ms", (MEAN,), (AGE, PACE), meter=lambda one: replace(one, averages=32)),
    _world("mean of 66 ms", (MEAN,), (AGE, PACE), meter=lambda one: replace(one, averages=4)),
    _world("mean of 1055 ms", (MEAN,), (AGE, PACE), meter=lambda one: replace(one, averages=64)),
    _world("values 0.3 s older", (AGE,), (PACE, MEAN), meter=lambda one: replace(one, held_s=0.3)),
    _world("the line before's value", (AGE,), (PACE, MEAN), meter=lambda one: replace(one, held_s=1.0)),
    _world("soft limit", (BUSY,), board=lambda one: replace(one, throttled_after_s=140.0)),
    _world("pace wanders", (PACE,), (AGE,), meter=lambda one: replace(one, wander_ppm_60s=800.0)),
    _world("pace drifts by 1000 ppm", (PACE,), (AGE,), meter=lambda one: replace(one, drift_ppm=1000.0)),
    _world("no pace", (PACE,), (AGE,), meter=lambda one: replace(one, jitter_conversion_s=0.02)),
    _world(
        "idle rises by 120 mW",
        (IDLE,),
        (BUSY,),
        board=lambda one: replace(one, warmth_w=0.2, warmth_tau_s=200.0),
    ),
    _world("a fan begins", (IDLE,), board=lambda one: replace(one, idle_step_w=0.15)),
    _world("first third 15 % more", (STEADY,), board=lambda one: replace(one, thirds=(1.15, 1.0, 1.0))),
    _world("last third 20 % less", (STEADY,), board=lambda one: replace(one, thirds=(1.0, 1.0, 0.8))),
    _world("tail of 2 s", (TAIL,), board=lambda one: replace(one, tail_w=0.3, tail_s=2.0)),
    _world("tail of 4 s", (TAIL,), board=lambda one: replace(one, tail_w=0.15, tail_s=4.0)),
    _world("clock 120 ppm", (CLOCK,), clock_ppm=120.0),
    _world("clock stepped", (CLOCK,), clock_step_s=0.4),
    _world("governor changes", (ASKED,), checks=(Looked("governor", "fail", "ondemand"),)),
)
