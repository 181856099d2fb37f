"""What a Smart Power 2 at 1 Hz and a Smart Power 3 at 100 ms print of a board, and when it arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fidelity.benches.board import Board, Signal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REGISTER_W = 3.81463e-3  # one step of a Smart Power 2's power register
PRINTED_W = 3.81687e-3  # what its firmware takes it for
LEAD_S = 5.0  # lines begin so long before the run and end so long after it


@dataclass
class Faults:
    """What a world's meter and line do beyond the ordinary."""

    gain: float = 1.0
    offset_w: float = 0.0
    bend: float = 0.0  # of the scale
    warming: float = 0.0  # what the gain climbs by, with 200 s
    truncates: bool = False  # instead of rounding
    ppm: float | None = None  # half-width of the timer's error; a Smart Power 3 then logs without hiccups
    conversion_s: float | None = None  # of the Smart Power 2's chip, else drawn
    stamp_after_s: float = 0.0  # from the end of a Smart Power 3's window to its stamp
    clock_error: float | None = None  # of a Smart Power 3's stamps, else drawn
    usb_s: float = 0.0  # latency timer of the serial adapter
    late_in_train_s: float = 0.0  # mean time until a busy board reads a line
    lost: float = 0.0  # share of lines
    stalls: bool = False  # once, for 2-3 s


def smart_power_2(board: Board, signal: Signal, draw: Generator) -> tuple[Floats, Floats, Ints]:
    """Arrival and watts of each line; no time of its own.

    The chip converts shunt and bus by turns, 16 times each; the current is seen in every other 8.2 ms.
    """
    faults = board.faults
    ppm = 3e-5 if faults.ppm is None else faults.ppm
    interval_s = 1 + draw.uniform(-ppm, ppm)
    due = np.arange(-LEAD_S + draw.uniform(0, 1), board.end + LEAD_S, interval_s)
    read = due + np.clip(draw.exponential(0.0015, due.size), 0, 0.02)
    if faults.stalls:
        start, until = _stall(board, draw)
        stalled = np.flatnonzero((due >= start) & (due < until))
        read[stalled] = until + 0.004 * np.arange(stalled.size)
    read = np.maximum.accumulate(read)

    conversion_s = 0.2638 * draw.uniform(0.95, 1.06)
    started = draw.uniform(0, 1)
    if faults.conversion_s is not None:
        conversion_s = faults.conversion_s
    end = started + conversion_s * np.floor((read - started) / conversion_s)
    part_s = conversion_s / 32
    shunt = end[:, None] - conversion_s + part_s * np.arange(0, 32, 2)
    watts = ((signal.joules(shunt + part_s) - signal.joules(shunt)) / part_s).mean(1)
    watts = _shown(board, watts, end) + draw.normal(0, 0.0012, watts.size)
    register = np.floor(watts / REGISTER_W) if faults.truncates else np.rint(watts / REGISTER_W)
    register = np.where(register < 10, 0, register)

    lag = np.clip(draw.uniform(0.0025, 0.010) + draw.exponential(0.003, read.size), 0.001, 0.030)
    if faults.usb_s:
        lag = np.clip(lag + draw.uniform(0, faults.usb_s, read.size), 0.001, 0.030)
    arrival = read + lag
    if faults.late_in_train_s:
        late = np.clip(0.005 + draw.exponential(faults.late_in_train_s, read.size), 0, 0.25)
        arrival = arrival + _training(board, read) * late
    return np.maximum.accumulate(arrival), np.round(register * PRINTED_W, 3), np.zeros(0, np.int64)


def smart_power_3(board: Board, signal: Signal, draw: Generator) -> tuple[Floats, Floats, Ints]:
    """Arrival, watts and own milliseconds of each line: volts times amperes, the mean of 50 samples."""
    faults = board.faults
    n = int((board.end + 10) / 0.1) + 50
    steps = (
        0.1
        + draw.choice([0.0, 0.001, 0.002], n, p=[0.75, 0.2, 0.05])
        + (draw.random(n) < 0.03) * draw.uniform(0.004, 0.035, n)
    )
    logged = -LEAD_S + draw.uniform(0, 0.1) + np.cumsum(steps)
    if faults.ppm is not None:
        logged = (
            -LEAD_S
            + draw.uniform(0, 0.1)
            + 0.1 * np.arange(n) * (1 + draw.uniform(-1, 1) * faults.ppm)
            + draw.uniform(0, 0.002, n)
        )
    logged = logged[logged < board.end + LEAD_S]
    window_s = 50 / draw.uniform(600, 1000)
    end = logged - draw.uniform(0, 0.002, logged.size) - faults.stamp_after_s
    watts = _shown(board, (signal.joules(end) - signal.joules(end - window_s)) / window_s, end)
    volts = 5.1 - 0.01 * watts / 5.1 + draw.normal(0, 0.0015, watts.size)
    milliamperes = watts / volts * 1e3 + draw.normal(0, 0.4, watts.size)
    milliamperes = np.floor(milliamperes) if faults.truncates else np.rint(milliamperes)
    printed = np.rint(np.rint(volts * 1e3) * milliamperes / 1e3) / 1e3
    drawn_error = draw.uniform(-4e-5, 4e-5)
    error = drawn_error if faults.clock_error is None else faults.clock_error
    device_s = logged * (1 + error) + draw.uniform(100, 3e6)
    device_ms = np.floor(device_s * 1e3).astype(np.int64)

    arrival = logged + 0.00703 + np.clip(draw.exponential(0.0015, logged.size) + 0.0005, 0, 0.016)
    if faults.usb_s:
        of_usb = draw.uniform(0, faults.usb_s)
        arrival = np.ceil((arrival - of_usb) / faults.usb_s) * faults.usb_s + of_usb
        arrival = arrival + draw.exponential(1e-4, arrival.size)
    if faults.late_in_train_s:  # the reader wakes now and then and stamps whole bunches
        naps = draw.exponential(faults.late_in_train_s, int((board.end + 20) / 0.01))
        wakes = np.cumsum(0.01 + np.clip(naps, 0, 0.25)) - 5.5
        wakes = wakes[: np.searchsorted(wakes, board.end + 10) + 1]
        read = wakes[np.minimum(np.searchsorted(wakes, arrival), wakes.size - 1)] + 2e-5
        arrival = np.where(_training(board, arrival), read, arrival)
    if faults.stalls:  # somebody had opened the panel's menu: nothing is logged
        start, until = _stall(board, draw)
        kept = (logged < start) | (logged >= until)
        arrival, printed, device_ms = arrival[kept], printed[kept], device_ms[kept]
    return np.maximum.accumulate(arrival), printed, device_ms


METERS = {"sp2-1hz": smart_power_2, "sp3-100ms": smart_power_3}


def _shown(board: Board, watts: Floats, t: Floats) -> Floats:
    """What the meter takes `watts` for."""
    faults = board.faults
    gain = faults.gain * (1 + faults.warming * (1 - np.exp(-(t - board.first) / 200.0)))
    return np.asarray(gain * watts + faults.offset_w + faults.bend * watts * np.sin(watts))


def _training(board: Board, t: Floats) -> NDArray[np.bool_]:
    i = np.searchsorted(board.train.start, t, "right") - 1
    return np.asarray((i >= 0) & (t < board.train.end[np.clip(i, 0, None)]))


def _stall(board: Board, draw: Generator) -> tuple[float, float]:
    start = draw.uniform(65, board.end - 65)
    return start, start + draw.uniform(2, 3.2)
