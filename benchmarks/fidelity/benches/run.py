"""All worlds by name, and one run of them as a meter shows it beside its truth."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fidelity.benches import surroundings, work
from fidelity.benches.board import Board, Floats, Phase, Signal
from fidelity.benches.meters import METERS, Ints

PHASES = ("idle", "download", "train", "upload", "wait")


class World(NamedTuple):
    """How a board is put together, and what an estimator may be asked for in it."""

    kind: Literal["fair", "ordinary", "pathological"]
    board: Callable[[Generator], Board]


WORLDS = {
    board.__name__: World(kind, board)
    for kind, boards in (
        ("fair", (work.fair_constant, work.fair_smooth_noise, work.fair_round_scatter)),
        (
            "ordinary",
            (
                work.dvfs_governor,
                surroundings.thermal_soft_limit,
                work.epoch_eval_checkpoint,
                surroundings.daemons_writeback,
                work.wifi_powersave_tail,
                work.kernel_buffers,
                work.tls_think_poll,
                work.unpack_and_hash,
                work.stalls_rate_adapt,
                surroundings.usb_eth_fan,
                surroundings.cable_undervoltage,
                surroundings.ambient_boot_drift,
                surroundings.meter_gain_offset,
                surroundings.busy_agent,
                work.train_tail_prefetch,
                work.power_duration_correlated,
                surroundings.second_process,
                surroundings.typical_bench,
            ),
        ),
        ("pathological", (work.batch_beat, surroundings.locked_rounds, surroundings.conversion_lock)),
    )
    for board in boards
}


#: An agent cannot tell shorter pauses from its own lateness.
LEAST_STALL_S = 0.1


class Span(NamedTuple):
    """A phase as the agent stamps it; the baselines have the steps 0 and rounds + 1."""

    phase: str
    step: int
    start_ns: int
    end_ns: int


class Transfer(NamedTuple):
    """What an agent stamps inside a transfer; `span` is the index of its span. In `stalls_ns` (from and to)
    no byte moved."""

    span: int
    first_byte_ns: int
    last_byte_ns: int
    bytes: int
    stalls_ns: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Run:
    """One run: n lines, m spans, one transfer record for each download and upload."""

    ns: Ints  # (n,) arrival of each line, strictly increasing
    watts: Floats  # (n,) as printed
    device_ms: Ints  # (n,) the line's own milliseconds; (0,) where it has none
    spans: list[Span]
    transfers: list[Transfer]
    border_ns: Ints  # (m + 1,) true borders
    true_gross_j: Floats  # (m,)
    true_net_j: Floats  # (m,)
    start_ns: int  # the signal's second 0
    signal: Signal  # the board's true power over seconds since start_ns


def simulate(world: str, meter: str, seed: int) -> Run:
    """One run of `world` as `meter` shows it."""
    name = zlib.crc32(world.encode())
    board = WORLDS[world].board(np.random.default_rng([name, seed]))
    signal, idle = board.signals()
    draw = np.random.default_rng([name, seed, 1 + list(METERS).index(meter)])
    arrival, watts, device_ms = METERS[meter](board, signal, draw)
    if board.faults.lost:
        kept = draw.random(arrival.size) >= board.faults.lost
        arrival, watts = arrival[kept], watts[kept]
        device_ms = device_ms[kept] if device_ms.size else device_ms

    draw = np.random.default_rng([name, seed, 9])  # stamps are the same whatever the meter
    start_ns = int(draw.integers(10**12, 10**14))
    order = 1000 * np.arange(arrival.size)
    stamped = _ns(np.maximum.accumulate(board.borders + board.stamp_late_s), start_ns)
    steps = [
        ("idle", 0),
        *((phase, step) for step in range(1, board.rounds + 1) for phase in PHASES),
        ("idle", board.rounds + 1),
    ]
    gross_j = np.diff(signal.joules(board.borders))
    return Run(
        ns=np.maximum.accumulate(_ns(arrival, start_ns) - order) + order,
        watts=watts,
        device_ms=device_ms,
        spans=[
            Span(*of, int(start), int(end))
            for of, start, end in zip(steps, stamped, stamped[1:], strict=False)
        ],
        transfers=_transfers(board, stamped, start_ns, draw, np.random.default_rng([name, seed, 10])),
        border_ns=_ns(board.borders, start_ns),
        true_gross_j=gross_j,
        true_net_j=gross_j - np.diff(idle.joules(board.borders)),
        start_ns=start_ns,
        signal=signal,
    )


def _ns(seconds: ArrayLike, start_ns: int) -> Ints:
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64) + start_ns


def _transfers(
    board: Board, stamped: Ints, start_ns: int, draw: Generator, draw_stalls: Generator
) -> list[Transfer]:
    """First and last byte, and stalls, stamped late by the process that stamps the borders, in their order.

    Kinder than an agent's view: its bytes come in chunks, and go by way of a socket's buffer.
    """
    out = []
    for place, moved in ((1, board.download), (3, board.upload)):
        span = 1 + 5 * np.arange(board.rounds) + place
        start, end = stamped[span], stamped[span + 1]
        first, last = (
            _ns(at + draw.exponential(board.byte_late_s, board.rounds), start_ns)
            for at in (moved.first_byte, moved.last_byte)
        )
        first = np.clip(first, start, end)
        last = np.clip(last, first, end)
        columns = (column.tolist() for column in (span, first, last))
        stalls = _stalls(board, moved, first, last, start_ns, draw_stalls)
        out += [Transfer(*of, board.bytes, seen) for *of, seen in zip(*columns, stalls, strict=True)]
    return out


def _stalls(
    board: Board, moved: Phase, first: Ints, last: Ints, start_ns: int, draw: Generator
) -> list[tuple[tuple[int, int], ...]]:
    """Of each transfer what an agent notes of its stall."""
    if moved.stall is None:
        return [()] * board.rounds
    at = _ns(moved.stall + draw.exponential(board.byte_late_s, moved.stall.shape), start_ns)
    at = np.clip(at, first[:, None], last[:, None])
    long = np.diff(at)[:, 0] >= LEAST_STALL_S * 1e9
    return [((begin, end),) if seen else () for (begin, end), seen in zip(at.tolist(), long, strict=True)]
