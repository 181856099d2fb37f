"""Worlds of what a board does beside its work, its warmth and supply, its meter's line and clock."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from fidelity.benches.board import GRID_S, Board, Floats


def _warmed(
    board: Board,
    limit: tuple[float, float, float] = (np.inf, 0.0, 1.0),
    fan: tuple[float, float] = (np.inf, 0.0),
) -> tuple[Floats, Floats, Floats]:
    """Die and board as two stages: kelvins above idle's temperature, the clock's factor, the fan's state.

    `limit`: kelvins at which training slows down, how much below it speeds up again, the slow factor.
    `fan`: kelvins at which it starts and stops.
    """
    draw, step = board.draw, 0.1
    board_kelvin, die_kelvin = draw.uniform(5, 9), draw.uniform(1.5, 3.0)  # per watt
    board_share, die_share = step / draw.uniform(30, 90), step / draw.uniform(0.8, 2.5)  # of its way, a step
    n = int(np.ceil((board.last - board.first) / step)) + 1
    at = board.first + step * (np.arange(n) + 0.5)
    i = np.searchsorted(board.train.start, at, "right") - 1
    training = (i >= 0) & (at < board.train.end[np.clip(i, 0, None)])
    kelvins, factor, blowing = np.empty(n), np.ones(n), np.zeros(n)
    slow = fast = 0.0
    clock, fanned = 1.0, 0.0
    for k, busy in enumerate(training.tolist()):
        watts = board.train.watts * clock if busy else 0.0
        slow += board_share * (
            board_kelvin * (0.45 if fanned else 1.0) * watts - slow * (1.6 if fanned else 1.0)
        )
        fast += die_share * (die_kelvin * watts - fast)
        warm = slow + fast
        if warm > limit[0]:
            clock = limit[2]
        elif warm < limit[0] - limit[1]:
            clock = 1.0
        if warm > fan[0]:
            fanned = 1.0
        elif warm < fan[1]:
            fanned = 0.0
        kelvins[k], factor[k], blowing[k] = warm, clock, fanned
    cell = np.clip(((board.grid - board.first) / step).astype(int), 0, n - 1)
    return np.interp(board.grid, at, kelvins), factor[cell], blowing[cell]


def _plain(draw: Generator) -> Board:
    """Constant power per phase in ordinary surroundings."""
    board = Board(draw)
    board.ordinary()
    board.training()
    board.radio()
    return board


def thermal_soft_limit(draw: Generator) -> Board:
    """A Pi without a heatsink: in some rounds it gets too warm, and training's clock hunts; 4-10 mW/K of
    leakage stay for a minute after training (and count as idle).

    Measurable in gross; net of idle, wait and transfers is not off a cold baseline at any rate: what the
    warm die draws more is of the size of the wait's net.
    """
    board = Board(draw)
    board.ordinary()
    board.train.watts = draw.uniform(2.5, 5)
    limit = (draw.uniform(8, 22), draw.uniform(0.4, 1.5), draw.uniform(0.65, 0.82))
    kelvins, factor, _ = _warmed(board, limit)
    board.train_factor = board.train_factor * factor
    board.slow += draw.uniform(0.004, 0.010) * kelvins
    board.training()
    board.radio()
    return board


def daemons_writeback(draw: Generator) -> Board:
    """cron each minute, an exporter of metrics each 5 or 10 s, rare jobs of 1-4 s; Python's garbage
    collection dips while training; the checkpoint's dirty pages are written 5-30 s after training.

    Measurable with wide bounds; no meter alone can tell whose the late writing is (net of wait or idle).
    """
    board = Board(draw)
    board.ordinary()
    board.radio()
    train = board.train
    board.periodic("idle", 60.0, (0.4, 1.5), (0.6, 1.1), jitter_s=0.3)
    board.periodic("idle", float(draw.choice([5.0, 10.0])), (0.06, 0.15), (0.5, 1.0))
    board.at_random("idle", 1 / 90, (1, 4), (0.4, 1.0))
    board.training()
    for start, end in zip(train.start, train.end, strict=True):
        dip = start + np.cumsum(draw.uniform(0.7, 2.0, 20))
        dip = dip[dip < end - 0.1]
        board.add("train", dip, dip + draw.uniform(0.03, 0.08, dip.size), -0.6 * train.watts)
    written = train.end + draw.uniform(5, 30, board.rounds)
    seconds = draw.uniform(0.2, 0.8, board.rounds)
    board.add("other", written, written + seconds, draw.uniform(0.25, 0.5, board.rounds))
    return board


def usb_eth_fan(draw: Generator) -> Board:
    """USB Ethernet (transfers of 0.12-0.4 W only), a fan on a software PWM of 25-33 Hz that a hot die keeps
    running for tens of seconds past training (and counts as idle), a heartbeat LED.

    Measurable in gross; net of transfers and wait is not at any rate: the fan (0.3-0.8 W) outlives training
    and is in no baseline.
    """
    board = Board(draw)
    board.ordinary()
    board.download.watts, board.upload.watts = draw.uniform(0.12, 0.4, 2)
    hot = draw.uniform(6, 14)
    kelvins, _, blowing = _warmed(board, fan=(hot, hot - draw.uniform(3, 6)))
    board.slow += 0.004 * kelvins
    switched = np.diff(np.concatenate([[0], blowing > 0.5, [0]]).astype(int))
    starts, stops = (board.first + GRID_S * np.flatnonzero(switched == way) for way in (1, -1))
    watts, hertz, duty = draw.uniform(0.5, 1.1), draw.uniform(25, 33), draw.uniform(0.5, 0.8)
    for start, stop in zip(starts, stops, strict=True):
        pulse = np.arange(start, stop, 1 / hertz)
        board.add("idle", pulse, np.minimum(pulse + duty / hertz, stop), watts)
        board.add("idle", start, min(start + 0.3, stop), 0.8 * watts)
    beat = np.arange(board.first + draw.uniform(0, 1), board.last, 1.26)
    for after in (0.0, 0.14):
        board.add("idle", beat + after, beat + after + 0.07, 0.012)
    board.training()
    board.radio()
    return board


def cable_undervoltage(draw: Generator) -> Board:
    """A thin cable of 0.12-0.3 ohm whose loss is metered: power grows faster than load; under-voltage while
    training caps the clock for 1-2.5 s at a time, a sawtooth of 2-5 s.

    Measurable; u of training must come from its scatter within spans, not from noise of 264 ms.
    """
    board = Board(draw)
    board.ordinary()
    board.radio()
    ohms, volts = draw.uniform(0.12, 0.30), draw.choice([5.0, 5.1, 5.2])

    def at_terminals(watts: Floats) -> Floats:
        taken = np.minimum(watts, 0.24 * volts * volts / ohms)
        return np.asarray(volts * (volts - np.sqrt(volts * volts - 4 * ohms * taken)) / (2 * ohms))

    board.at_terminals = at_terminals
    board.train.watts = watts = draw.uniform(2.0, 4.5)
    capped = draw.uniform(0.4, 0.65)
    for start, end in zip(board.train.start, board.train.end, strict=True):
        seconds = np.stack([draw.uniform(0.3, 2.0, 12), draw.uniform(1.0, 2.5, 12)], 1).ravel()
        at = np.minimum(start + np.concatenate([[0.0], np.cumsum(seconds)]), end)
        board.add("train", at[:-1:2], at[1::2], watts)
        board.add("train", at[1:-1:2], at[2::2], capped * watts)
    return board


def ambient_boot_drift(draw: Generator) -> Board:
    """The run starts soon after boot (services decay over 15-45 s inside the opening baseline); air
    conditioning swings idle with 400-1200 s; a USB device or a screen goes to sleep somewhere (30-100 mW).

    Training and transfers are measurable; net of wait and idle is not at any rate: the baseline is not a
    line between its ends.
    """
    board = _plain(draw)
    grid, end = board.grid, board.end
    board.slow += draw.uniform(0.1, 0.5) * np.exp(-np.clip(grid, 0, None) / draw.uniform(15, 45))
    board.slow += draw.uniform(0.01, 0.05) * np.sin(
        2 * np.pi * (grid / draw.uniform(400, 1200) + draw.random())
    )
    board.slow += draw.uniform(-0.06, 0.06) * grid / end
    board.slow += (grid > draw.uniform(60, end - 60)) * draw.choice([-1, 1]) * draw.uniform(0.03, 0.1)
    return board


def second_process(draw: Generator) -> Board:
    """A camera or home automation runs for 1-6 s at a time at 0.5-1.2 W whatever the board does; while
    training has all cores it adds little, so that training's net is lowered.

    Training is measurable to some percent; transfers are not at 1 Hz in short runs, where each is a part of
    one burst.
    """
    board = _plain(draw)
    dwell_s = (draw.uniform(1.5, 5), draw.uniform(8, 20))
    board.telegraph("background", board.first, board.last, dwell_s, (draw.uniform(0.5, 1.2), 0.0))
    board.add("contention", board.train.start, board.train.end, 1.0)
    board.lost_to_training = draw.uniform(0.4, 0.8)
    return board


def typical_bench(draw: Generator) -> Board:
    """What most benches may have, all of it mild: governor ramp, handshake and think time, unpacking, epochs
    with evaluation, radio tail of 0.1-0.3 s, an exporter each 10 s, leakage of a warm die, a USB latency
    timer of 16 ms, stamps 1-3 ms late.

    Training and gross are measurable; transfers to 5-10 % at 1 Hz, to 2 % at 100 ms.
    """
    board = Board(draw)
    board.ordinary()
    n, download, train, upload = board.rounds, board.download, board.train, board.upload
    kelvins, _, _ = _warmed(board)
    board.slow += draw.uniform(0.002, 0.006) * kelvins
    board.periodic("idle", 10.0, (0.05, 0.12), (0.5, 0.9))
    board.periodic("idle", 60.0, (0.3, 0.8), (0.5, 0.9))

    new = draw.random(n) < 0.5
    handshake_s = np.where(new, draw.uniform(0.03, 0.08, n), 0.0)
    thinking_s = np.clip(np.exp(draw.normal(np.log(0.08), 0.6, n)), 0.02, 0.3)
    asked = download.start + handshake_s
    board.add("other", download.start, asked, draw.uniform(0.5, 1.2))
    download.first_byte = asked + np.minimum(thinking_s, 0.3 * download.seconds)
    unpack_s = draw.uniform(0.04, 0.15) * np.exp(draw.normal(0, 0.1, n))
    download.last_byte = download.end - np.minimum(unpack_s, 0.3 * download.seconds)
    board.add("other", download.last_byte, download.end, draw.uniform(0.5, 1.2))
    hash_s = draw.uniform(0.03, 0.15) * np.exp(draw.normal(0, 0.1, n))
    upload.first_byte = upload.start + np.minimum(hash_s, 0.3 * upload.seconds)
    board.add("other", upload.start, upload.first_byte, draw.uniform(0.5, 1.2))
    upload.last_byte = upload.end - draw.uniform(0.02, 0.1, n)
    for moved in (download, upload):
        board.pieces("transfer", moved.first_byte - 0.003, moved.last_byte, (0.05, 0.2), moved.watts, 0.2)
    tail_watts, tail_s = draw.uniform(0.08, 0.25), draw.uniform(0.1, 0.3)
    for moved in (download, upload):
        board.add("other", moved.last_byte, moved.last_byte + tail_s, tail_watts)

    epochs, evaluation, ramp_s = int(draw.integers(1, 4)), draw.uniform(0.08, 0.2), draw.uniform(0.02, 0.08)
    epoch_s = train.seconds / epochs
    for epoch in range(epochs):
        begin = train.start + epoch * epoch_s + (ramp_s if epoch == 0 else 0)
        evaluated = train.start + (epoch + 1 - evaluation) * epoch_s
        board.add("train", begin, evaluated, train.watts)
        board.add("train", evaluated, train.start + (epoch + 1) * epoch_s, 0.65 * train.watts)
    board.add("train", train.start, train.start + ramp_s, 0.5 * train.watts)
    board.stamped(0.0015)
    board.faults.usb_s = 0.016
    return board


def meter_gain_offset(draw: Generator) -> Board:
    """A meter off the shelf: gain (sd 0.8 %, at most 2 %), offset up to 17 mW, a slight bend of the scale, a
    gain that warms up by 0.1 %, a quantiser that truncates; the board itself behaves.

    Measurable within the meter's stated accuracy; a gain does not average out.
    """
    board = _plain(draw)
    faults = board.faults
    faults.gain = 1 + float(np.clip(draw.normal(0, 0.008), -0.02, 0.02))
    faults.offset_w = draw.uniform(-0.017, 0.017)
    faults.bend = draw.uniform(-0.0015, 0.0015)
    faults.warming = draw.uniform(-0.001, 0.001)
    faults.truncates = True
    return board


def busy_agent(draw: Generator) -> Board:
    """The agent runs on the busy board and reads its own meter: while training lines are read 5-250 ms late
    and in bunches, 1 % are lost, the meter stalls once for 2-3 s, ends of training are stamped 2-60 ms late.

    Measurable; how late lines are depends on the phase, so that one lateness for all is wrong in transfers.
    """
    board = _plain(draw)
    n, late_s = board.rounds, np.zeros(board.borders.size)
    trained = 1 + 5 * np.arange(n) + 3
    late_s[trained] = draw.uniform(0.002, 0.06, n)
    late_s[trained - 1] = draw.exponential(0.003, n)
    late_s[trained + 1] = draw.exponential(0.003, n)
    board.stamped(0.001, late_s)
    board.faults.late_in_train_s = draw.uniform(0.03, 0.12)
    board.faults.lost = 0.01
    board.faults.stalls = True
    return board


def locked_rounds(draw: Generator) -> Board:
    """Rounds locked to the meter's second: every phase takes whole seconds (scatter below 4 ms), transfers 1
    or 2 s with three times the power in their first 0.3 s, crystals within 3 ppm.

    Not measurable at 1 Hz: every round is seen at the same offsets, only the free conversion moves.
    """
    n = int(draw.integers(6, 31))
    whole = [np.full(n, float(draw.integers(a, b + 1))) for a, b in ((2, 8), (1, 2), (3, 14), (1, 2), (2, 9))]
    off = np.stack([draw.uniform(0, 0.004, n) for _ in whole], 1)
    off[:, 4] -= off.sum(1)  # rounds end with a whole second
    board = Board(draw, n, *(np.stack(whole, 1) + off).T)
    board.ordinary()
    board.dead_ends((0.03, 0.06), (0.01, 0.03))
    board.training()
    for moved in (board.download, board.upload):
        burst_end = moved.first_byte + 0.3
        board.add("transfer", moved.first_byte, burst_end, 1.8 * moved.watts)
        board.add("transfer", burst_end, moved.last_byte, 0.6 * moved.watts)
    board.faults.ppm = 3e-6
    return board


def conversion_lock(draw: Generator) -> Board:
    """A chip whose conversion takes 250.0 ms +- 0.01 %: what is latched has one age all run long (Smart
    Power 3: stamps 40-90 ms after the window's end, a clock off by 100-200 ppm); a radio tail of 0.3 s.

    Not measurable at 1 Hz in transfers of 0.5-1 s, unless that age (0-250 ms) is fitted.
    """
    board = _plain(draw)
    for moved in (board.download, board.upload):
        board.add("other", moved.last_byte, moved.last_byte + 0.3, 0.2)
    board.faults.conversion_s = 0.25 * (1 + draw.uniform(-1e-4, 1e-4))
    board.faults.stamp_after_s = draw.uniform(0.04, 0.09)
    board.faults.clock_error = draw.choice([-1, 1]) * draw.uniform(1e-4, 2e-4)
    return board
