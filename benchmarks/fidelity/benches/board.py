"""A board while it is put together: when its phases are, and rectangles of power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.signal import lfilter

from fidelity.benches.meters import Faults

Floats = NDArray[np.float64]

BASELINE_S = 60.0
PAD_S = 6.0  # before and after the run
GRID_S = 0.02
#: Power of the idle board, of a background process, of training, of the radio and its CPU, of all else that
#: phases cause; and where training leaves a background process no core (1, not watts).
KINDS = ("idle", "background", "train", "transfer", "other", "contention")
#: A decay as stairs: their edges in time constants.
STAIRS = np.array([0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.4, 1.9, 2.5, 3.3, 4.5, 6.0])


class Signal:
    """Power that is constant between edges."""

    def __init__(self, edges_s: Floats, watts: Floats) -> None:
        self._edges_s, self._watts = edges_s, watts
        self._joules = np.concatenate([[0.0], np.cumsum(watts * np.diff(edges_s))])

    def joules(self, t: Floats) -> Floats:
        """Energy from the first edge up to each `t`."""
        i = np.clip(np.searchsorted(self._edges_s, t, "right") - 1, 0, self._watts.size - 1)
        return np.asarray(self._joules[i] + self._watts[i] * (t - self._edges_s[i]))


@dataclass
class Phase:
    """One phase, an element per round: its true borders and net power; where bytes flow in a transfer, and
    from when to when they stop in between (from and to are one where they do not)."""

    seconds: Floats
    start: Floats
    end: Floats
    first_byte: Floats
    last_byte: Floats
    watts: float | Floats = 0.0
    stall: Floats | None = None  # (rounds, 2)


class Board:
    """Rounds of drawn length between two baselines, and what is drawn in them; worlds add the power."""

    def __init__(
        self,
        draw: Generator,
        rounds: int | None = None,
        idle_s: Floats | None = None,
        download_s: Floats | None = None,
        train_s: Floats | None = None,
        upload_s: Floats | None = None,
        wait_s: Floats | None = None,
    ) -> None:
        self.draw = draw
        self.rounds = int(draw.integers(6, 31)) if rounds is None else rounds
        seconds = [
            draw.uniform(2, 8, self.rounds) if idle_s is None else idle_s,
            self._about(draw.uniform(0.6, 2.7), 0.15, 0.5, 3.0) if download_s is None else download_s,
            self._about(draw.uniform(3.5, 14), 0.10, 3.0, 15.0) if train_s is None else train_s,
            self._about(draw.uniform(0.6, 2.7), 0.15, 0.5, 3.0) if upload_s is None else upload_s,
            draw.uniform(2, 10, self.rounds) if wait_s is None else wait_s,
        ]
        each = np.concatenate([[BASELINE_S], np.stack(seconds, 1).ravel(), [BASELINE_S]])
        self.borders = np.concatenate([[0.0], np.cumsum(each)])
        self.download, self.train, self.upload, self.wait = (
            self._phase(j, seconds[j]) for j in range(1, len(seconds))
        )
        self.end = self.borders[-1]
        self.first = -PAD_S
        cells = int(np.ceil((self.end + 2 * PAD_S) / GRID_S))
        self.last = self.first + cells * GRID_S
        self.grid = self.first + GRID_S * (np.arange(cells) + 0.5)

        self.idle_watts = draw.uniform(2.0, 3.5)
        self.download.watts, self.upload.watts = draw.uniform(0.3, 1.5, 2)
        self.train.watts = draw.uniform(1.5, 5.0)
        self.bytes = int(np.mean(self.download.seconds) * draw.uniform(1.5e6, 6e6))
        self.rectangles: dict[str, list[tuple[Floats, Floats, Floats]]] = {kind: [] for kind in KINDS}
        #: On the grid: slow terms of idle power, W, and what the power of work is multiplied by.
        self.slow = np.zeros(cells)
        self.train_factor = np.ones(cells)
        self.transfer_factor = np.ones(cells)
        self.at_terminals: Callable[[Floats], Floats] | None = None  # the board's power -> what is metered
        self.lost_to_training = 0.0  # share of a background process
        self.stamp_late_s = np.zeros(self.borders.size)
        self.byte_late_s = 3e-4
        self.faults = Faults()

    def _about(self, middle: float, sd: float, least: float, most: float) -> Floats:
        return np.clip(middle * np.exp(self.draw.normal(0, sd, self.rounds)), least, most)

    def _phase(self, place: int, seconds: Floats) -> Phase:
        before = 1 + 5 * np.arange(self.rounds) + place
        start, end = self.borders[before], self.borders[before + 1]
        return Phase(seconds, start, end, start + 0.001, end - 0.001)

    # Pieces of power

    def add(self, kind: str, start: ArrayLike, end: ArrayLike, watts: ArrayLike) -> None:
        """Rectangles; those without length are left out."""
        columns = np.broadcast_arrays(*(np.asarray(column, float) for column in (start, end, watts)))
        start, end, watts = (np.ravel(column) for column in columns)
        start, end = np.clip(start, self.first, self.last), np.clip(end, self.first, self.last)
        kept = end > start
        self.rectangles[kind].append((start[kept], end[kept], watts[kept]))

    def decaying(self, kind: str, start: Floats, watts: float, tau_s: Floats) -> None:
        """From `watts` down exponentially, in stairs of the same joules."""
        low, high = STAIRS[:-1], STAIRS[1:]
        level = (np.exp(-low) - np.exp(-high)) / (high - low)
        begin, tau = start[:, None], tau_s[:, None]
        self.add(kind, begin + tau * low, begin + tau * high, watts * level)

    def periodic(
        self,
        kind: str,
        period_s: float,
        long: tuple[float, float],
        watts: float | tuple[float, float],
        jitter_s: float = 0.0,
    ) -> None:
        """Again and again whatever the board does, from a drawn start."""
        start = np.arange(self.first + self.draw.uniform(0, period_s), self.last, period_s)
        if jitter_s:
            start = start + self.draw.uniform(0, jitter_s, start.size)
        seconds = self.draw.uniform(*long, start.size)
        each = self.draw.uniform(*watts, start.size) if isinstance(watts, tuple) else watts
        self.add(kind, start, start + seconds, each)

    def at_random(
        self, kind: str, per_s: float, long: tuple[float, float], watts: tuple[float, float]
    ) -> None:
        """At times of a Poisson process."""
        n = self.draw.poisson(per_s * (self.last - self.first))
        start = np.sort(self.draw.uniform(self.first, self.last, n))
        self.add(kind, start, start + self.draw.uniform(*long, n), self.draw.uniform(*watts, n))

    def telegraph(
        self,
        kind: str,
        start: ArrayLike,
        end: ArrayLike,
        dwell_s: tuple[float, float],
        watts: tuple[float, float],
    ) -> None:
        """Two powers by turns inside each [start, end), for exponential times of these means."""
        for a, b in zip(np.atleast_1d(start), np.atleast_1d(end), strict=True):
            n = int((b - a) / (dwell_s[0] + dwell_s[1]) * 2 + 12)
            dwells = np.stack([self.draw.exponential(mean, n) for mean in dwell_s], 1).ravel()
            at = np.minimum(a + np.concatenate([[0.0], np.cumsum(dwells)]), b)
            self.add(kind, at[:-1:2], at[1::2], watts[0])
            if watts[1]:
                self.add(kind, at[1:-1:2], at[2::2], watts[1])

    def pieces(
        self, kind: str, start: Floats, end: Floats, long: tuple[float, float], watts: float, sd: float
    ) -> None:
        """Inside each [start, end) pieces that are so long, of log-normal power."""
        for a, b in zip(start, end, strict=True):
            if b <= a:
                continue
            n = int((b - a) / long[0]) + 2
            at = np.minimum(a + np.concatenate([[0.0], np.cumsum(self.draw.uniform(*long, n))]), b)
            self.add(kind, at[:-1], at[1:], watts * np.exp(self.draw.normal(0, sd, n) - sd * sd / 2))

    def noise(self, sd: float, tau_s: float) -> Floats:
        """An Ornstein-Uhlenbeck process on the grid."""
        kept = np.exp(-GRID_S / tau_s)
        kicks = self.draw.standard_normal(self.grid.size)
        before = [kept * self.draw.standard_normal()]
        return np.asarray(sd * lfilter([np.sqrt(1 - kept * kept)], [1, -kept], kicks, zi=before)[0])

    # What most worlds share

    def dead_ends(self, before: tuple[float, float], after: tuple[float, float]) -> None:
        """Seconds from a transfer's start to its first byte, and from its last one to its end."""
        for moved in (self.download, self.upload):
            moved.first_byte = moved.start + self.draw.uniform(*before, self.rounds)
            moved.last_byte = moved.end - self.draw.uniform(*after, self.rounds)

    def radio(self) -> None:
        """Transfers: constant power from just before the first byte to just after the last."""
        for moved in (self.download, self.upload):
            self.add("transfer", moved.first_byte - 0.003, moved.last_byte + 0.004, moved.watts)

    def training(self) -> None:
        """Trainings: constant power."""
        self.add("train", self.train.start, self.train.end, self.train.watts)

    def stamped(self, late_s: float, more: ArrayLike = 0.0) -> None:
        """The agent stamps late by an exponential time, and borders by `more` besides."""
        self.stamp_late_s = self.draw.exponential(late_s, self.borders.size) + more
        self.byte_late_s = late_s

    def ordinary(self) -> None:
        """Noise, small dead times, late stamps, rare daemons, in half of the runs a wait above idle."""
        draw = self.draw
        self.slow += self.noise(draw.uniform(0.01, 0.03), draw.uniform(0.05, 0.5))
        self.slow += self.noise(0.006, 20.0)
        sd = draw.uniform(0.01, 0.04)
        self.train_factor = 1 + self.noise(sd, draw.uniform(0.1, 1.0))
        self.transfer_factor = 1 + self.noise(2 * sd, draw.uniform(0.05, 0.3))
        self.dead_ends((0.01, 0.05), (0.005, 0.03))
        self.stamped(draw.uniform(2e-4, 1.5e-3))
        self.at_random("idle", 1 / 60, (0.02, 0.2), (0.2, 0.8))
        if draw.random() < 0.5:  # event loop, open connection, a clock that stays up
            self.add("other", self.wait.start, self.wait.end, draw.uniform(0.02, 0.2))

    def signals(self) -> tuple[Signal, Signal]:
        """Power as metered, and what the idle board would have drawn at the same time."""
        grid_edges = self.first + GRID_S * np.arange(self.grid.size + 1)
        at, change, of = [grid_edges], [np.zeros(grid_edges.size)], [np.full(grid_edges.size, -1)]
        for place, kind in enumerate(KINDS):
            for start, end, watts in self.rectangles[kind]:
                at += [start, end]
                change += [watts, -watts]
                of.append(np.full(2 * start.size, place))
        edges = np.concatenate(at)
        order = np.argsort(edges, kind="stable")
        edges, changes, kinds = edges[order], np.concatenate(change)[order], np.concatenate(of)[order]
        power = {
            kind: np.cumsum(np.where(kinds == place, changes, 0.0))[:-1] for place, kind in enumerate(KINDS)
        }
        middle = edges[:-1] + 0.5 * np.diff(edges)
        cell = np.clip(((middle - self.first) / GRID_S).astype(np.int64), 0, self.grid.size - 1)
        idle = self.idle_watts + self.slow[cell] + power["idle"] + power["background"]
        gross = (
            idle
            + power["train"] * self.train_factor[cell]
            + power["transfer"] * self.transfer_factor[cell]
            + power["other"]
        )
        gross = gross - self.lost_to_training * power["background"] * np.minimum(power["contention"], 1.0)
        if self.at_terminals:
            gross, idle = self.at_terminals(gross), self.at_terminals(idle)
        return Signal(edges, gross), Signal(edges, idle)
