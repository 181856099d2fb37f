"""Power meters and their lines: when each value is read, what it is the mean of, when it arrives."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fidelity.physics.power import Floats, Signal, lagged

REGISTER_W = 25 * 0.00512 / (0x08BD * 0.015)  # one step of an INA231's power register at that calibration
PRINTED_W = 3.81687e-3  # what the firmware takes it for


@dataclass(frozen=True)
class Meter:
    """One instrument; `latched` is an INA231 that converts back to back and is read by a timer of its own."""

    name: str
    interval_s: float
    latched: bool
    wire_s: float  # a line's bytes on the wire


@dataclass(frozen=True)
class Link:
    """What a meter and its line do beyond the ordinary."""

    ppm: tuple[float, float] = (0.0, 15.0)  # size of the timer's error; either sign
    interval: tuple[float, float] = (1.0, 1.0)  # times the nominal one
    lateness_s: float = 0.0
    lost: float = 0.0  # share of lines
    doubled: float = 0.0  # share of lines
    outages: int = 0  # of 5 s each
    stalls: int = 0  # of 2-4 s, then all that was due at once
    gain: float = 0.0  # rectangular half-width
    offset_w: float = 0.0  # rectangular half-width
    conversion_ppm: float = 0.0  # drift of the INA231 over the run; a third of it walks in a minute
    other_host_s: float = 0.0  # half-width of the offset between the line's clock and the agent's


LINK = Link()


def ticks(meter: Meter, link: Link, end: float, draw: Generator) -> tuple[Floats, float]:
    """When the meter reads its register, and the factor by which its timer runs slow."""
    slow = 1 + 1e-6 * draw.choice([-1, 1]) * draw.uniform(*link.ppm)
    n = int((end + 6.0) / (meter.interval_s * link.interval[0])) + 2
    steps = meter.interval_s * draw.uniform(*link.interval, n)
    if not meter.latched:  # the display and the log share a processor: steps of 9-45 ms at 10 ms
        steps = steps * draw.uniform(0.92, 1.08, n) + draw.uniform(0.0, 0.035, n) * (draw.random(n) < 0.04)
    due = -3.0 + draw.uniform(0.0, meter.interval_s) + np.cumsum(steps) * slow
    if meter.latched:
        due += draw.uniform(0.0, 0.004, n)  # the firmware's loop
    for start in draw.uniform(0.0, end, link.stalls):
        stalled = (due >= start) & (due < (until := start + draw.uniform(2.0, 4.0)))
        due[stalled] = until + 0.003 * np.arange(np.count_nonzero(stalled))
    due = np.sort(due)
    return due[due < end + 3.0], slow


def arrivals(meter: Meter, link: Link, reads: Floats, end: float, draw: Generator) -> Floats:
    """When the host stamps each line, by the clock that it stamps with."""
    n = len(reads)
    at = (
        reads
        + meter.wire_s
        + 0.0005
        + draw.uniform(0.0, 0.001, n)
        + draw.exponential(0.0015, n)
        + link.lateness_s
    )
    at += draw.uniform(0.0, 0.025, n) * (draw.random(n) < 0.02)  # the host was busy
    if link.other_host_s:  # a new estimate of the offset every 2 min
        offsets = draw.uniform(-link.other_host_s, link.other_host_s, int(end / 120.0) + 2)
        at += offsets[np.clip((reads / 120.0).astype(int), 0, None)]
    order = 1e-6 * np.arange(n)
    return np.asarray(np.maximum.accumulate(at - order) + order)


def latched(signal: Signal, link: Link, reads: Floats, draw: Generator) -> tuple[Floats, Floats]:
    """Power and window (start, end) of an INA231's register at each read.

    16 times a shunt and then a bus conversion of 8.244 ms, back to back; the current is seen in the shunt's
    only, so that what a line says is centred 4 ms before the middle of its window.
    """
    long = 32 * 0.008244 * draw.uniform(0.96, 1.075)
    n = int((reads[-1] - reads[0]) / long * 1.01) + 8
    each = np.full(n, long)
    if link.conversion_ppm:
        wild = 1e-6 * link.conversion_ppm
        kicks = draw.normal(0.0, wild / 3 * np.sqrt(2 * long / 60.0), n)
        each *= (
            1 + wild * np.linspace(-0.5, 0.5, n) + lagged(long, 60.0, kicks) + draw.normal(0.0, wild / 10, n)
        )
    ends = reads[0] - long * (1 + draw.random()) + np.cumsum(each)
    latest, of = np.unique(np.searchsorted(ends, reads, side="right") - 1, return_inverse=True)
    end, window = ends[latest], each[latest]
    edges = signal.joules((end - window)[:, None] + window[:, None] * np.arange(32) / 32)
    watts = (edges[:, 1::2] - edges[:, ::2]).sum(axis=1) / (window / 2) + draw.normal(0.0, 0.004, len(latest))
    return watts[of], np.stack([end - window, end], axis=1)[of]


def averaged(signal: Signal, meter: Meter, reads: Floats, draw: Generator) -> tuple[Floats, Floats]:
    """Power and window of a Smart Power 3: mean of the newest interval_ms / 2 samples, 600-1000 a second."""
    samples = round(meter.interval_s * 500)
    window = samples / draw.uniform(600.0, 1000.0)
    watts = (signal.joules(reads) - signal.joules(reads - window)) / window
    watts += draw.normal(0.0, 0.02 / np.sqrt(samples), len(reads))
    return watts, np.stack([reads - window, reads], axis=1)


def kept(link: Link, arrivals: Floats, end: float, draw: Generator) -> NDArray[np.intp]:
    """Which lines come through, in order, some of them twice."""
    n = len(arrivals)
    kept = draw.random(n) >= link.lost
    for start in draw.uniform(0.0, end - 5.0, link.outages):
        kept &= (arrivals < start) | (arrivals >= start + 5.0)
    return np.repeat(np.arange(n), kept * (1 + (draw.random(n) < link.doubled)))


METERS = {
    meter.name: meter
    for meter in (
        Meter("sp2-1hz", 1.0, True, 0.0026),
        Meter("sp2-100ms", 0.1, True, 0.0026),
        Meter("sp3-5ms", 0.005, False, 0.0009),  # 921600 baud; the others 115200
        Meter("sp3-10ms", 0.01, False, 0.007),
        Meter("sp3-50ms", 0.05, False, 0.007),
        Meter("sp3-100ms", 0.1, False, 0.007),
    )
}
