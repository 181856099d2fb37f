"""A board while it is put together: spans in a row, and what draws power in them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fidelity.physics.meters import LINK, Link
from fidelity.physics.power import Floats
from fidelity.physics.shapes import Shape, steady

BASELINE_S = 60.0
MARGIN_S = 5.0  # the board idles this long before and after the run, and the meter prints
TRANSFERS = ("download", "upload")

GRAIN_S = 0.066  # the background holds its power so long
GRAIN_W = 0.0235  # gives 12 mW in a window of 264 ms


@dataclass(frozen=True)
class World:
    """A board's physics: how a transfer and a training draw power, what else the board does, and its line."""

    name: str
    transfer: Shape = steady
    train: Shape = steady
    effects: tuple["Effect", ...] = ()
    note: str = ""  # what the parts' own sentences do not say
    transfer_s: float = 2.0
    rounds: int = 20
    lock_s: float = 0.0  # rounds start at whole multiples of it in device time; 0: whenever
    stamp_late_s: tuple[float, float] = (0.0, 0.0005)
    link: Link = LINK

    @property
    def physics(self) -> str:
        """Its parts in words: transfers, trainings, all else."""
        named = [(f"Transfers of {self.transfer_s:g} s", self.transfer), ("Training", self.train)]
        parts = [f"{name}: {shape.__doc__}" for name, shape in named]
        parts += [str(getattr(effect, "func", effect).__doc__) for effect in self.effects]
        return " ".join(filter(None, [*parts, self.note]))


class Scene:
    """A board while it is put together: true spans in seconds since its start, pieces of power by kind."""

    def __init__(self, world: World, draw: Generator) -> None:
        self.world, self.draw = world, draw
        self.spans: list[tuple[str, int, float, float]] = []
        #: Span, first and last byte, and from when to when none moved in between.
        self.bytes: list[tuple[int, float, float, Floats]] = []
        self.causes: list[tuple[int, float]] = []  # span, joules it left behind
        self.arrivals: Floats = np.empty(0)
        self.pieces: dict[str, list[Floats]] = {kind: [] for kind in ("idle", "warm", "work", "tail")}
        about = draw.uniform(0.9, 1.1, 3)
        self.levels = {"download": 0.45 * about[0], "train": 2.6 * about[1], "upload": 0.75 * about[2]}
        self.levels["idle"] = 1.9 * draw.uniform(0.95, 1.05)
        self._rounds(train_s=draw.uniform(6.0, 11.0))
        self.end = self.spans[-1][3]
        self.add("idle", -MARGIN_S, self.end + MARGIN_S, self.levels["idle"])
        grain = np.arange(-MARGIN_S, self.end + MARGIN_S, GRAIN_S)
        self.add("idle", grain[:-1], grain[1:], draw.normal(0.0, GRAIN_W, len(grain) - 1))

    def add(
        self, kind: str, start: ArrayLike, end: ArrayLike, watts: ArrayLike, to: ArrayLike | None = None
    ) -> None:
        """Pieces of `watts`, or straight from `watts` to `to`; those without length are left out."""
        columns = np.broadcast_arrays(start, end, watts, watts if to is None else to)
        pieces = np.stack([np.atleast_1d(np.asarray(c, float)) for c in columns], axis=1)
        self.pieces[kind].append(pieces[pieces[:, 1] > pieces[:, 0] + 1e-9])

    def add_tail(
        self, cause: int, start: ArrayLike, seconds: float, watts: float, radio: bool = False
    ) -> None:
        """What span `cause` leaves behind; a radio's tail ends where the next transfer begins."""
        stop = self.end + MARGIN_S
        if radio:
            stop = min((a for i, a, _ in self.of(*TRANSFERS) if i > cause), default=stop)
        begin = np.minimum(np.asarray(start, float), stop)
        end = np.minimum(begin + seconds, stop)
        self.add("tail", begin, end, watts)
        self.causes.append((cause, watts * float(np.sum(end - begin))))

    def of(self, *phases: str) -> Iterator[tuple[int, float, float]]:
        """Index, start and end of the spans of these phases."""
        return ((i, a, b) for i, (phase, _, a, b) in enumerate(self.spans) if phase in phases)

    def replace(self, start: Floats, seconds: Floats, watts: float, *phases: str) -> None:
        """A habit that spans of `phases` suppress: idle as if it went on, and its lack in their work."""
        end = start + seconds
        self.add("idle", start, end, watts)
        for _, a, b in self.of(*phases):
            self.add("work", np.maximum(start, a), np.minimum(end, b), -watts)

    def _rounds(self, train_s: float) -> None:
        world, draw = self.world, self.draw
        spread, rest = (0.01, 0.001) if world.lock_s else (0.15, 0.05)
        self._span("idle", -1, BASELINE_S)
        for step in range(world.rounds):
            if world.lock_s:
                phase, of, start, end = self.spans[-1]
                whole = np.ceil((end - 1e-6) / world.lock_s) * world.lock_s
                self.spans[-1] = (phase, of, start, whole + draw.uniform(0.0005, 0.003))
            down, up = world.transfer_s * draw.uniform(1 - spread, 1 + spread, 2)
            self._work("download", step, world.transfer, down)
            self._work("train", step, world.train, train_s * draw.uniform(1 - rest, 1 + rest))
            self._work("upload", step, world.transfer, up)
            self._span("wait", step, draw.uniform(1.5, 4.0 if world.lock_s else 7.0))
            if draw.random() < 0.12:
                self._span("absent", step, draw.uniform(8.0, 20.0))
            if step < world.rounds - 1:
                self._span("idle", step, 0.5 if world.lock_s else draw.uniform(1.0, 4.0))
        self._span("idle", world.rounds, BASELINE_S)

    def _span(self, phase: str, step: int, seconds: float) -> float:
        start = self.spans[-1][3] if self.spans else 0.0
        self.spans.append((phase, step, start, start + seconds))
        return start

    def _work(self, phase: str, step: int, shape: Shape, seconds: float) -> None:
        drawn = shape(self.draw, phase, step, seconds)
        start = self._span(phase, step, drawn.seconds)
        begin, end, first, last = np.array(drawn.pieces).T
        self.add("work", start + begin, start + end, first * self.levels[phase], last * self.levels[phase])
        if phase in TRANSFERS:
            stalls = start + np.reshape(drawn.stalls, (-1, 2))
            flow = start + drawn.first_byte, start + drawn.last_byte
            self.bytes.append((len(self.spans) - 1, *flow, stalls))


Effect = Callable[[Scene], None]
