"""Worlds of how trainings and transfers draw power."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from fidelity.benches.board import Board, Floats


def _square(board: Board) -> None:
    """Each transfer and training at its power from border to border."""
    for moved in (board.download, board.upload):
        board.add("transfer", moved.start, moved.end, moved.watts)
    board.training()


def fair_constant(draw: Generator) -> Board:
    """One constant power per phase with square edges at the stamps, white-ish noise of 10-20 mW.

    Measurable.
    """
    board = Board(draw)
    board.slow += board.noise(draw.uniform(0.01, 0.02), 0.03)
    _square(board)
    board.stamped(5e-5)
    return board


def fair_smooth_noise(draw: Generator) -> Board:
    """Constant power per phase under smooth noise of 30-60 mW (0.2-0.6 s), idle drifts straight by < 1 %.

    Measurable.
    """
    board = Board(draw)
    noise = board.noise(draw.uniform(0.03, 0.06), draw.uniform(0.2, 0.6))
    board.slow += noise + draw.uniform(-0.02, 0.02) * board.grid / board.end
    _square(board)
    board.stamped(1e-4)
    return board


def fair_round_scatter(draw: Generator) -> Board:
    """Constant power inside each span; it scatters by 3 % (training), 6 % (transfers) from round to round.

    Measurable.
    """
    board = Board(draw)
    board.slow += board.noise(draw.uniform(0.01, 0.03), 0.1)
    for phase, sd in ((board.download, 0.06), (board.upload, 0.06), (board.train, 0.03)):
        phase.watts = phase.watts * (1 + draw.normal(0, sd, board.rounds))
    _square(board)
    board.stamped(1e-4)
    return board


def dvfs_governor(draw: Generator) -> Board:
    """An ondemand or schedutil governor: training ramps for 20-150 ms, the clock stays high for 50-200 ms
    after it (into the upload), transfers hop between two operating points, idle shows short clock bumps.

    Measurable; transfers with a percent or two of error by their shape at 1 Hz.
    """
    board = Board(draw)
    board.ordinary()
    download, train, upload = board.download, board.train, board.upload
    ramped = train.start + draw.uniform(0.02, 0.15, board.rounds)
    board.add("train", train.start, ramped, 0.45 * train.watts)
    board.add("train", ramped, train.end, train.watts)
    for phase in (train, download, upload):
        until = phase.end + draw.uniform(0.05, 0.2, board.rounds)
        board.add("other", phase.end, until, draw.uniform(0.12, 0.35))
    dwell_s = tuple(draw.uniform(0.03, 0.25, 2))
    high, low = draw.uniform(1.15, 1.5), draw.uniform(0.45, 0.8)
    for moved in (download, upload):
        points = (high * moved.watts, low * moved.watts)
        board.telegraph("transfer", moved.first_byte, moved.last_byte, dwell_s, points)
    board.at_random("idle", draw.uniform(0.5, 3), (0.01, 0.04), (0.2, 0.5))
    return board


def epoch_eval_checkpoint(draw: Generator) -> Board:
    """One to five local epochs: loader warm-up, batches with short gaps (0.15-0.6 s), evaluation at about
    60 %, and a checkpoint written to the SD card at 15 % at each epoch's end.

    Training is measurable; the low checkpoint just before it biases the upload at 1 Hz by a few percent.
    """
    board = Board(draw)
    board.ordinary()
    board.radio()
    watts = board.train.watts
    epochs = int(draw.integers(1, 6))
    warm_up, evaluation = draw.uniform(0.04, 0.15), draw.uniform(0.1, 0.25)
    batch_s, duty, gap = draw.uniform(0.15, 0.6), draw.uniform(0.8, 0.95), draw.uniform(0.4, 0.75)
    evaluating, checkpoint_s = draw.uniform(0.5, 0.7), draw.uniform(0.1, 0.4)
    for start, end in zip(board.train.start, board.train.end, strict=True):
        epoch_s = (end - start) / epochs
        written_s = min(checkpoint_s, 0.15 * epoch_s)
        for epoch in range(epochs):
            begin = start + epoch * epoch_s
            loaded = begin + warm_up * epoch_s
            trained = begin + (1 - evaluation) * epoch_s - written_s
            evaluated = begin + epoch_s - written_s
            board.add("train", begin, loaded, 0.5 * watts)
            batch = np.arange(loaded, trained, batch_s * draw.uniform(0.97, 1.03))
            batch_end = np.minimum(batch + batch_s * duty, trained)
            board.add("train", batch, batch_end, watts)
            board.add("train", batch_end, np.minimum(np.append(batch[1:], trained), trained), gap * watts)
            board.add("train", trained, evaluated, evaluating * watts)
            board.add("train", evaluated, begin + epoch_s, 0.15 * watts)
            board.add("other", evaluated, begin + epoch_s, 0.25)
    return board


def wifi_powersave_tail(draw: Generator) -> Board:
    """802.11 power save: idle wakes for 3-8 ms every 102.4 ms x DTIM; after each transfer the radio stays
    awake for 0.1-0.4 s or 1-2 s at 0.1-0.35 W (a download's tail into training, an upload's into the wait).

    Transfers are measurable to some percent; a tail of 0.1-0.4 s is not at 1 Hz, where the window's own
    uncertainty is as long.
    """
    board = Board(draw)
    board.ordinary()
    board.dead_ends((0.02, 0.12), (0.005, 0.03))
    board.radio()
    board.training()
    board.periodic("idle", 0.1024 * int(draw.integers(1, 4)), (0.003, 0.008), draw.uniform(0.25, 0.5))
    watts = draw.uniform(0.1, 0.35)
    long = (0.1, 0.4) if draw.random() < 0.6 else (1.0, 2.0)
    for moved in (board.download, board.upload):
        asleep = moved.last_byte + 0.004
        board.add("other", asleep, asleep + draw.uniform(*long, board.rounds), watts)
    return board


def kernel_buffers(draw: Generator) -> Board:
    """An upload's last byte is handed to the socket 0.15-0.7 s before the radio is done (half of the runs
    end the span there, half wait for the answer); in downloads the radio runs ahead, and the application
    sees first and last byte late.

    Measurable as the sum of upload and wait; where the span ends with the last byte that was handed over,
    the radio is in the wait, and stamps of bytes mislead at any rate.
    """
    board = Board(draw)
    board.ordinary()
    board.training()
    n, download, upload = board.rounds, board.download, board.upload
    buffered_s = np.minimum(draw.uniform(0.15, 0.7, n), 0.6 * upload.seconds)
    upload.first_byte = upload.start + draw.uniform(0.003, 0.02, n)
    if draw.random() < 0.5:
        upload.last_byte = upload.end - draw.uniform(0.002, 0.01, n)
        sent = upload.last_byte + buffered_s
    else:
        sent = upload.end - draw.uniform(0.01, 0.04, n)
        upload.last_byte = sent - buffered_s
    board.add("transfer", upload.first_byte + 0.002, sent, upload.watts)
    board.add("other", upload.first_byte, upload.first_byte + 0.05, 0.4)  # copied into the socket's buffer
    begun = download.start + draw.uniform(0.01, 0.03, n)
    seen = begun + draw.uniform(0.05, 0.3, n)
    download.first_byte = np.minimum(seen, download.start + 0.5 * download.seconds)
    download.last_byte = download.end - draw.uniform(0.005, 0.02, n)
    received = np.maximum(download.last_byte - draw.uniform(0.05, 0.25, n), download.first_byte + 0.1)
    board.add("transfer", begun, received, download.watts)
    board.add("other", received, download.last_byte, draw.uniform(0.2, 0.6))
    return board


def _handshake(board: Board, start: Floats, seconds: Floats) -> None:
    """Two bursts of the CPU."""
    watts = board.draw.uniform(0.8, 1.6)
    board.add("other", start + 0.1 * seconds, start + 0.45 * seconds, watts)
    board.add("other", start + 0.6 * seconds, start + seconds, watts)


def tls_think_poll(draw: Generator) -> Board:
    """Dial and TLS handshake on new connections, a server that thinks for 0.1-1 s at almost idle power
    before the first byte, an answer 50-500 ms after the last; while waiting the client polls every 0.5, 1 or
    2 s, counted from the wait's start.

    Measurable where stamps of bytes are used; polls of 20-60 ms every second are not at 1 Hz in short runs.
    """
    board = Board(draw)
    board.ordinary()
    board.training()
    n, download, upload = board.rounds, board.download, board.upload
    new = draw.random(n) < draw.uniform(0.2, 1.0)
    handshake_s = np.where(new, draw.uniform(0.03, 0.12, n), 0.0)

    thinking_s = np.clip(np.exp(draw.normal(np.log(0.3), 0.6, n)), 0.1, 1.0)
    _handshake(board, download.start, handshake_s)
    asked = download.start + handshake_s
    answered = asked + np.minimum(thinking_s, 0.5 * download.seconds)
    board.add("other", asked, answered, 0.03)
    download.first_byte = np.minimum(answered, download.end - 0.2)

    taken_s = draw.uniform(0.01, 0.05, n)
    if draw.random() < 0.5:
        _handshake(board, upload.start, handshake_s)
    asked = upload.start + handshake_s
    answered = asked + taken_s
    board.add("other", asked, answered, 0.03)
    upload.first_byte = np.minimum(answered, upload.end - 0.3)
    upload.last_byte = np.maximum(upload.end - draw.uniform(0.05, 0.5, n), upload.first_byte + 0.15)

    board.radio()
    period_s = float(draw.choice([0.5, 1.0, 2.0]))
    watts, poll_s = draw.uniform(0.4, 0.9), draw.uniform(0.02, 0.06)
    for start, end in zip(board.wait.start, board.wait.end, strict=True):
        poll = np.arange(start + 0.01, end - poll_s, period_s)
        board.add("other", poll, poll + poll_s, watts)
    return board


def unpack_and_hash(draw: Generator) -> Board:
    """A download ends with 0.1-0.7 s of unpacking on one core, an upload starts with 0.1-0.6 s of
    serialising, compressing and hashing before its first byte.

    Measurable if the stamps of bytes open a level of their own; else off by 5-20 % at 1 Hz.
    """
    board = Board(draw)
    board.ordinary()
    board.training()
    n, download, upload = board.rounds, board.download, board.upload
    unpacking, hashing = draw.uniform(0.7, 1.6, 2)
    unpack_s = draw.uniform(0.1, 0.7) * np.exp(draw.normal(0, 0.1, n))
    hash_s = draw.uniform(0.1, 0.6) * np.exp(draw.normal(0, 0.1, n))
    download.last_byte = download.end - np.minimum(unpack_s, 0.45 * download.seconds)
    upload.first_byte = upload.start + np.minimum(hash_s, 0.45 * upload.seconds)
    board.radio()
    board.add("other", download.last_byte + 0.002, download.end, unpacking)
    board.add("other", upload.start, upload.first_byte - 0.004, hashing)
    return board


def stalls_rate_adapt(draw: Generator) -> Board:
    """A crowded channel: the radio's power scatters in pieces of 30-150 ms with the rate chosen; in some
    transfers retransmissions stall it for 200-800 ms at nearly idle power; a neighbour disturbs idle.

    Not measurable at 1 Hz below about 12 rounds, where three windows have a stall or none; then it is.
    """
    board = Board(draw)
    board.ordinary()
    board.training()
    n = board.rounds
    board.at_random("idle", draw.uniform(0.3, 1.5), (0.005, 0.06), (0.1, 0.3))
    stalling = draw.uniform(0.1, 0.5)
    for moved in (board.download, board.upload):
        first, last = moved.first_byte, moved.last_byte
        stall_s = draw.choice([0.2, 0.4, 0.8], n, p=[0.6, 0.3, 0.1]) * (draw.random(n) < stalling)
        stall_s = np.minimum(stall_s, 0.4 * (last - first))
        stall = first + draw.uniform(0.1, 0.8, n) * (last - first - stall_s)
        board.pieces("transfer", first, stall, (0.03, 0.15), moved.watts, 0.35)
        board.pieces("transfer", stall + stall_s, last, (0.03, 0.15), moved.watts, 0.35)
        board.add("other", stall, stall + stall_s, 0.06)
        moved.stall = np.stack([stall, stall + stall_s], 1)
    return board


def train_tail_prefetch(draw: Generator) -> Board:
    """Work crosses borders: loaders start 0.1-0.4 s before training does (in the download), the first
    0.3-1 s run at half power, and tearing down goes on for 0.1-0.5 s into the upload.

    Training is measurable; transfers are not at 1 Hz, where the overlap cannot be told from the edges.
    """
    board = Board(draw)
    board.ordinary()
    board.radio()
    n, train = board.rounds, board.train
    ahead_s, half_s = draw.uniform(0.1, 0.4, n), draw.uniform(0.3, 1.0)
    teardown_s = draw.uniform(0.1, 0.5) * np.exp(draw.normal(0, 0.2, n))
    loading = train.start - np.minimum(ahead_s, 0.5 * board.download.seconds)
    board.add("other", loading, train.start, draw.uniform(0.15, 0.35) * train.watts)
    board.add("train", train.start, train.start + half_s, 0.5 * train.watts)
    board.add("train", train.start + half_s, train.end, train.watts)
    board.decaying("other", train.end, 0.55 * train.watts, teardown_s / 2)
    return board


def power_duration_correlated(draw: Generator) -> Board:
    """Slow rounds draw less: the link's rate (sd 35 %) sets both power and duration of transfers, a limited
    clock both of training; energy per byte hardly varies, power does.

    Measurable as energy per round; one power per phase times duration is off by up to 5 %.
    """
    n = int(draw.integers(6, 31))
    down, up = np.exp(draw.normal(0, 0.35, (2, n)))
    clock = np.exp(draw.normal(0, 0.25, n))
    board = Board(
        draw,
        rounds=n,
        download_s=np.clip(draw.uniform(0.9, 1.8) / down, 0.5, 3),
        upload_s=np.clip(draw.uniform(0.9, 1.8) / up, 0.5, 3),
        train_s=np.clip(draw.uniform(5, 9) / clock, 3, 15),
    )
    board.ordinary()
    board.download.watts = board.download.watts * down**0.8
    board.upload.watts = board.upload.watts * up**0.8
    board.train.watts = board.train.watts * clock
    board.radio()
    board.training()
    return board


def batch_beat(draw: Generator) -> Board:
    """Training beats with the meters: steps of 1.000 s +- 1.5 % with 25-40 % of them at a quarter of the
    power, inside them batches of 100 ms +- 1.5 % at 50-70 % duty; both start anew with each round.

    Not measurable at 1 Hz in few rounds: all windows of a span look at the same part of the step.
    """
    board = Board(draw)
    board.ordinary()
    board.radio()
    train = board.train
    step_s, batch_s = draw.uniform(0.985, 1.015), 0.1 * draw.uniform(0.985, 1.015)
    low, duty = draw.uniform(0.25, 0.4), draw.uniform(0.5, 0.7)
    board.add("train", train.start, train.end, 0.25 * train.watts)
    for start, end in zip(train.start, train.end, strict=True):
        batch = start + batch_s * np.arange(int((end - start) / batch_s) + 1)
        batch = batch[((batch - start) % step_s) < (1 - low) * step_s]
        batch_end = np.minimum(batch + duty * batch_s, end)
        board.add("train", batch, batch_end, 0.75 * train.watts / duty * 0.75)
    return board
