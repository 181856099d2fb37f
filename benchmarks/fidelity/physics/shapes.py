"""How a transfer or a training draws power, in multiples of its level."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike


class Drawn(NamedTuple):
    """A span's power in multiples of its level: pieces in seconds since its start, and where bytes flow, but
    for the stalls in between."""

    seconds: float
    first_byte: float
    last_byte: float
    pieces: list[tuple[float, float, float, float]]
    stalls: tuple[tuple[float, float], ...] = ()


Shape = Callable[[Generator, str, int, float], Drawn]


def _flowing(seconds: float, *pieces: tuple[float, float, float, float]) -> Drawn:
    return Drawn(seconds, 0.0, seconds, list(pieces))


def _stretches(lengths: ArrayLike, multiples: ArrayLike) -> Drawn:
    """One constant stretch after the other."""
    ends = np.cumsum(lengths)
    rows = zip([0.0, *ends[:-1]], ends, np.asarray(multiples), strict=True)
    return _flowing(float(ends[-1]), *((a, b, m, m) for a, b, m in rows))


def _dipping(
    draw: Generator, seconds: float, apart: tuple[float, float], long: tuple[float, float], to: float
) -> Drawn:
    """Level 1, and `to` in dips that are so far apart and so long (s)."""
    n = int(seconds / apart[0]) + 2
    lengths = np.stack([draw.uniform(*apart, n), draw.uniform(*long, n)], axis=1).ravel()
    ends = np.minimum(np.cumsum(lengths), seconds)
    lengths = np.diff(ends, prepend=0.0)
    kept = lengths > 0
    return _stretches(lengths[kept], np.where(np.arange(2 * n) % 2, to, 1.0)[kept])


def steady(_: Generator, __: str, ___: int, seconds: float) -> Drawn:
    """Constant power."""
    return _flowing(seconds, (0.0, seconds, 1.0, 1.0))


def dead(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """Nothing flows for 20-60 ms at the start and 10-30 ms at the end."""
    first, last = draw.uniform(0.02, 0.06), seconds - draw.uniform(0.01, 0.03)
    return Drawn(seconds, first, last, [(first, last, 1.0, 1.0)])


def burst(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """0.4 s at three times the level, then the level."""
    b = min(draw.uniform(0.38, 0.42), 0.9 * seconds)
    return _flowing(seconds, (0.0, b, 3.0, 3.0), (b, seconds, 1.0, 1.0))


def hashed(draw: Generator, phase: str, _: int, seconds: float) -> Drawn:
    """A core hashes and the SD card writes after the last byte of a download, or before an upload's first."""
    b, m = min(draw.uniform(0.15, 0.35), 0.4 * seconds), draw.uniform(2.0, 3.0)
    if phase == "download":
        return Drawn(seconds, 0.0, seconds - b, [(0.0, seconds - b, 1.0, 1.0), (seconds - b, seconds, m, m)])
    return Drawn(seconds, b, seconds, [(0.0, b, m, m), (b, seconds, 1.0, 1.0)])


def pondered(draw: Generator, phase: str, _: int, seconds: float) -> Drawn:
    """The server thinks for 0.15-0.4 s before a download's first byte, or after an upload's last one."""
    b = min(draw.uniform(0.15, 0.4), 0.4 * seconds)
    if phase == "download":
        return Drawn(seconds, b, seconds, [(b, seconds, 1.0, 1.0)])
    return Drawn(seconds, 0.0, seconds - b, [(0.0, seconds - b, 1.0, 1.0)])


def fading(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """The power falls from start to end as the link gets slower."""
    f = draw.uniform(0.2, 0.6)
    return _flowing(seconds, (0.0, seconds, 1.0 + f, 1.0 - f))


def paused(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """Losses stop two transfers of five for retransmission timeouts of 0.2 s, each double the one before."""
    count = int(draw.integers(1, 4)) if draw.random() < 0.4 else 0
    cuts = np.diff(np.sort(draw.uniform(0.1, 0.95, count)) * seconds, prepend=0.0, append=seconds)
    waits = 0.2 * 2.0 ** np.arange(count) + draw.uniform(0.01, 0.05, count)
    lengths, multiples = np.empty(2 * count + 1), np.ones(2 * count + 1)
    lengths[::2], lengths[1::2], multiples[1::2] = cuts, waits, 0.15
    drawn = _stretches(lengths, multiples)
    return drawn._replace(stalls=tuple((begin, end) for begin, end, _, _ in drawn.pieces[1::2]))


def slow_start(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """After a request of one round trip the window doubles with each, from 1/32 of the link's rate."""
    rtt = min(draw.uniform(0.03, 0.09), seconds / 10)
    steps = 0.3 + 0.7 * 2.0 ** np.arange(-5.0, 0.0)
    drawn = _stretches([rtt] * 6 + [seconds - 6 * rtt], [0.3, *steps, 1.0])
    return drawn._replace(first_byte=rtt)


def stepped_clock(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """Interrupts drive the governor between two clocks; each transfer starts at the low one."""
    n = int(seconds / 0.03) + 2
    ends = np.minimum(np.cumsum(draw.uniform(0.03, 0.25, n)), seconds)
    lengths = np.diff(ends, prepend=0.0)
    kept = lengths > 0
    return _stretches(lengths[kept], np.where(np.arange(n) % 2, 1.6, 0.5)[kept])


def promoted(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """An LTE stick signals for 0.1-0.4 s at 1.5 times the level before the first byte."""
    p = min(draw.uniform(0.1, 0.4), 0.5 * seconds)
    return Drawn(seconds, p, seconds, [(0.0, p, 1.5, 1.5), (p, seconds, 1.0, 1.0)])


def at_rate(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """The same bytes at a rate that moves with the board; power = constant + slope x rate, as radios do."""
    rate = float(np.exp(draw.normal(0.0, 0.45)))
    m = 0.4 + 0.6 * rate
    return _flowing(seconds / rate, (0.0, seconds / rate, m, m))


def hopping(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """Rate control hops between 0.5 and 1.4 times the power every 0.1-0.4 s."""
    n = int(seconds / 0.1) + 2
    ends = np.minimum(np.cumsum(draw.uniform(0.1, 0.4, n)), seconds)
    lengths = np.diff(ends, prepend=0.0)
    kept = lengths > 0
    return _stretches(lengths[kept], np.where(np.arange(n) % 2, 0.5, 1.4)[kept])


def messy(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """Dead time, a burst of 0.1-0.5 s at 1.5-3 times the level, then fading."""
    first, last = draw.uniform(0.02, 0.06), seconds - draw.uniform(0.01, 0.03)
    b, m, f = (
        first + min(draw.uniform(0.1, 0.5), 0.5 * seconds),
        draw.uniform(1.5, 3.0),
        draw.uniform(0.0, 0.3),
    )
    return Drawn(seconds, first, last, [(first, b, m, m), (b, last, 1.0 + f, 1.0 - f)])


def ramp(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """Loading for 0.5-2.5 s at 60-85 %, then a slope; levels differ by round."""
    load, low, level = draw.uniform(0.5, 2.5), draw.uniform(0.6, 0.85), draw.normal(1.0, 0.05)
    slope = draw.uniform(-0.08, 0.08)
    return _flowing(
        seconds, (0.0, load, low * level, level), (load, seconds, level * (1 - slope), level * (1 + slope))
    )


def dips(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """The governor drops to a low clock between batches."""
    return _dipping(draw, seconds, (0.8, 3.0), (0.1, 0.4), 0.55)


def throttled(draw: Generator, _: str, step: int, seconds: float) -> Drawn:
    """At 60 degrees the clock falls by a step and hunts; the limit comes sooner in later rounds."""
    until = min((1.0 + 6.0 * np.exp(-step / 5)) * draw.uniform(0.8, 1.2), 0.9 * seconds)
    hunt = _dipping(draw, seconds - until, (0.3, 1.0), (0.8, 3.0), 0.78)
    return _flowing(
        seconds, (0.0, until, 1.0, 1.0), *((a + until, b + until, *m) for a, b, *m in hunt.pieces)
    )


def undervolted(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """The cable sags below 4.63 V and the firmware takes the clock down for 0.2-1 s, again and again."""
    return _dipping(draw, seconds, (0.1, 1.5), (0.2, 1.0), 0.5)


def batches(draw: Generator, _: str, step: int, seconds: float) -> Drawn:
    """Batches of about 1 s with 0.25 s of loading at 45 %: a beat with a meter of 1 Hz."""
    period = 1.0 + draw.normal(0.0, 0.01)
    return _dipping(draw, seconds, (period - 0.27, period - 0.25), (0.25, 0.27), 0.45)


def late_clock(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """The governor needs 50-200 ms to raise the clock."""
    late = draw.uniform(0.05, 0.2)
    return _flowing(seconds, (0.0, late, 0.5, 0.5), (late, seconds, 1.0, 1.0))


def loading(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """0.8-1.8 s at 40 % until the first batch is there."""
    first = draw.uniform(0.8, 1.8)
    return _stretches([first, seconds - first], [0.4, 1.0])


def checkpointed(draw: Generator, _: str, __: int, seconds: float) -> Drawn:
    """The model is written to the card at the end: 0.4-1.2 s at 30 %."""
    last = draw.uniform(0.4, 1.2)
    return _stretches([seconds - last, last], [1.0, 0.3])


def epochs(_: Generator, __: str, ___: int, seconds: float) -> Drawn:
    """Epochs of about 2 s, after each of which the loader begins anew: 0.2 s at half power."""
    n = max(int(seconds / 2.0), 1)
    lengths = np.tile([1.0, 0.12], n)
    return _stretches(lengths * seconds / lengths.sum(), np.tile([1.0, 0.5], n))
