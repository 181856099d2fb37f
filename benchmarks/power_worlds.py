"""Boards of known energy and what their meters print: to prove an estimator of energy against.

A `World` is one piece of physics, a `Meter` one instrument; `simulate(world, meter, seed)` gives a `Run`:
stamped lines, stamped spans and the true joules of each. Power is a sum of straight pieces in continuous
time: all integrals are exact, and nothing is sampled but by the meter. Seed, world and meter fix every draw.

Net energy. Power has four parts, each exact at every instant:
`idle`  what the board would draw had it idled at that moment: its level, background noise, slow wander, drift
        of the room, and daemons that run whatever the board does;
`warm`  what a die that is warm from training draws more than a cold one, and its fan. A board that idled at
        that moment would be just as warm, so this counts as idle as well; `Run.warm_j` gives it apart;
`work`  what the span itself causes while it lasts;
`tail`  what a span causes after its end: a radio that stays awake, threads that spin, a card that tidies up.
`true_net_j` = work + tails of *other* spans that fall into the span: all power above idle, wherever it comes
from. `tail_j` is that foreign part, `tail_of_j` what the span itself left to later ones. So net without tails
is `true_net_j - tail_j`, and net by cause `true_net_j - tail_j + tail_of_j`.
True joules are taken between the true borders; `spans` carry the borders as an agent stamps them.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BASELINE_S = 60.0
MARGIN_S = 5.0  # the board idles this long before and after the run, and the meter prints
TRANSFERS = ("download", "upload")
REGISTER_W = 25 * 0.00512 / (0x08BD * 0.015)  # one step of an INA231's power register at that calibration
PRINTED_W = 3.81687e-3  # what the firmware takes it for
GRAIN_S = 0.066  # the background holds its power so long
GRAIN_W = 0.0235  # gives 12 mW in a window of 264 ms


class Signal:
    """Power over time, in W and s: the sum of straight pieces (start, end, W at start, W at end)."""

    def __init__(self, pieces: Floats) -> None:
        start, end, first, last = pieces.T
        slope = (last - first) / (end - start)
        when = np.concatenate([start, end])
        order = np.argsort(when, kind="stable")
        self._at = when[order]
        gap = np.diff(self._at)
        self._slope = np.cumsum(np.concatenate([slope, -slope])[order])
        self._watts = np.cumsum(np.concatenate([first, -last])[order])
        self._watts[1:] += np.cumsum(self._slope[:-1] * gap)
        area = (self._watts[:-1] + 0.5 * self._slope[:-1] * gap) * gap
        self._joules = np.concatenate([[0.0], np.cumsum(area)])

    def _piece(self, t: Floats) -> tuple[NDArray[np.intp], Floats]:
        i = np.maximum(np.searchsorted(self._at, t, side="right") - 1, 0)
        return i, np.maximum(t - self._at[i], 0.0)

    def watts(self, t: ArrayLike) -> Floats:
        """Power at the instants `t`; a step belongs to what follows it."""
        i, since = self._piece(np.asarray(t, float))
        return self._watts[i] + self._slope[i] * since

    def joules(self, t: ArrayLike) -> Floats:
        """Energy from the first piece's start up to each `t`."""
        i, since = self._piece(np.asarray(t, float))
        return self._joules[i] + (self._watts[i] + 0.5 * self._slope[i] * since) * since


class Drawn(NamedTuple):
    """A span's power in multiples of its level: pieces in seconds since its start, and where bytes flow."""

    seconds: float
    first_byte: float
    last_byte: float
    pieces: list[tuple[float, float, float, float]]


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
    return _stretches(lengths, multiples)


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


class Span(NamedTuple):
    """A phase as the agent stamps it; the baselines have the steps -1 and `World.rounds`."""

    phase: str
    step: int
    start_ns: int
    end_ns: int


class Transfer(NamedTuple):
    """What an honest agent stamps inside a transfer; `span` is the index of its span."""

    span: int
    first_byte_ns: int
    last_byte_ns: int
    bytes: int


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


@dataclass(frozen=True)
class Run:
    """One run: n lines, m spans, one transfer record for each download and upload."""

    world: World
    meter: Meter
    seed: int
    ns: Ints  # (n,) arrival of each line, strictly increasing
    watts: Floats  # (n,) as printed
    device_ms: Ints  # (n,) the line's own milliseconds; (0,) where it has none
    spans: list[Span]
    transfers: list[Transfer]
    border_ns: Ints  # (m + 1,) true borders
    true_gross_j: Floats  # (m,)
    true_net_j: Floats  # (m,)
    tail_j: Floats  # (m,) part of true_net_j that other spans caused
    tail_of_j: Floats  # (m,) caused by this span, drawn after its end
    warm_j: Floats  # (m,) part of gross - net that is warmth of training
    true_whole_j: float
    lateness_s: float  # mean time from the register's being read to the line's stamp
    gain: float  # printed over true watts, beside offset and rounding
    read_ns: Ints  # (n,) true instant at which the meter read its register
    window_ns: Ints  # (n, 2) true start and end of what each line is the mean of
    levels_w: dict[str, float]  # nominal net power of download, train and upload, and idle
    start_ns: int  # the signal's second 0
    signal: Signal  # the board's true power over seconds since start_ns


class Scene:
    """A board while it is put together: true spans in seconds since its start, pieces of power by kind."""

    def __init__(self, world: World, draw: Generator) -> None:
        self.world, self.draw = world, draw
        self.spans: list[tuple[str, int, float, float]] = []
        self.bytes: list[tuple[int, float, float]] = []  # span, first and last byte
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
            self.bytes.append((len(self.spans) - 1, start + drawn.first_byte, start + drawn.last_byte))


Effect = Callable[[Scene], None]


def radio_tail(scene: Scene) -> None:
    """0.35 W for 0.2-1 s after each transfer."""
    for i, _, b in scene.of(*TRANSFERS):
        scene.add_tail(i, b, scene.draw.uniform(0.2, 1.0), 0.35, radio=True)


def lte_tail(scene: Scene) -> None:
    """Connected for 0.5-1.5 s at full power, then DRX (40 ms of 320 ms) up to the inactivity timer."""
    awake, timer, watts = (scene.draw.uniform(*w) for w in ((0.5, 1.5), (4.0, 9.0), (0.6, 1.0)))
    for i, _, b in scene.of(*TRANSFERS):
        scene.add_tail(i, b, awake, watts, radio=True)
        scene.add_tail(i, b + np.arange(awake, timer, 0.32), 0.04, watts, radio=True)


def autosuspend(scene: Scene) -> None:
    """USB and radio go to sleep 2-6 s after an upload; until then 0.12 W more."""
    timer = scene.draw.uniform(2.0, 6.0)
    for i, _, b in scene.of("upload"):
        scene.add_tail(i, b, timer, 0.12, radio=True)


def clock_tail(scene: Scene) -> None:
    """The governor holds the high clock 50-300 ms after a transfer: 0.35 W."""
    for i, _, b in scene.of(*TRANSFERS):
        scene.add_tail(i, b, scene.draw.uniform(0.05, 0.3), 0.35)


def spinning(scene: Scene) -> None:
    """OpenMP threads spin on for the board's block time, at the training's power, into the upload."""
    block = scene.draw.uniform(0.1, 0.3)
    for i, _, b in scene.of("train"):
        scene.add_tail(i, b, block + scene.draw.uniform(0.0, 0.01), scene.levels["train"])


def card_tidies(scene: Scene) -> None:
    """The SD card erases blocks for 0.5-2.5 s after the training's checkpoint: 0.25-0.6 W."""
    for i, _, b in scene.of("train"):
        scene.add_tail(i, b, scene.draw.uniform(0.5, 2.5), scene.draw.uniform(0.25, 0.6))


def writeback(scene: Scene) -> None:
    """The kernel writes a download 30-35 s later, at its timer of 5 s: 0.5 W for 0.3-0.8 s."""
    timer = scene.draw.uniform(0.0, 5.0)
    for i, _, b in scene.of("download"):
        when = np.ceil((b + 30.0 - timer) / 5.0) * 5.0 + timer
        scene.add_tail(i, float(when), scene.draw.uniform(0.3, 0.8), 0.5)


def listening(scene: Scene) -> None:
    """0.15 W above idle while the board waits."""
    for _, a, b in scene.of("wait"):
        scene.add("work", a, b, 0.15)


def searching(scene: Scene) -> None:
    """An absent board scans for 0.8-1.5 s every 5 s at 0.5 W."""
    for _, a, b in scene.of("absent"):
        start = np.arange(a + scene.draw.uniform(0.0, 5.0), b, 5.0)
        scene.add("work", start, np.minimum(start + scene.draw.uniform(0.8, 1.5, len(start)), b), 0.5)


def warming(scene: Scene) -> None:
    """Idle climbs by an exponential of 200-400 s and drifts straight by up to 0.1 W."""
    t = np.arange(-MARGIN_S, scene.end + MARGIN_S + 2.0, 2.0)
    up, tau, drift = (
        scene.draw.uniform(0.05, 0.2),
        scene.draw.uniform(200.0, 400.0),
        scene.draw.uniform(-0.1, 0.1),
    )
    watts = up * (1 - np.exp(-(t + MARGIN_S) / tau)) + drift * t / scene.end
    scene.add("idle", t[:-1], t[1:], watts[:-1], watts[1:])


def _lagged(step: float, tau: float, inputs: Floats) -> Floats:
    """x[k] = a x[k-1] + inputs[k] with a = exp(-step / tau)."""
    decay = np.exp(-step / tau * np.arange(len(inputs)))
    return np.asarray(decay * np.cumsum(inputs / decay))


def _warmth(scene: Scene, tau: float) -> tuple[Floats, Floats]:
    """Temperature over seconds as a share of endless training's, every 0.5 s."""
    t = np.arange(-MARGIN_S, scene.end + MARGIN_S + 0.5, 0.5)
    trained = np.zeros(len(t) - 1)
    for _, a, b in scene.of("train"):
        trained += np.clip(np.minimum(t[1:], b) - np.maximum(t[:-1], a), 0.0, None) / 0.5
    return t, np.concatenate([[0.0], _lagged(0.5, tau, (1 - np.exp(-0.5 / tau)) * trained)])


def self_heating(scene: Scene) -> None:
    """Leakage follows the die's temperature: up to 0.15-0.4 W, tau 60-200 s."""
    t, warmth = _warmth(scene, scene.draw.uniform(60.0, 200.0))
    watts = scene.draw.uniform(0.15, 0.4) * warmth
    scene.add("warm", t[:-1], t[1:], watts[:-1], watts[1:])


def fan(scene: Scene) -> None:
    """A fan of 0.4 W comes on in the training and goes off after the upload, by temperature."""
    t, warmth = _warmth(scene, scene.draw.uniform(12.0, 25.0))
    busy = warmth[int(0.3 * len(t)) : int(0.8 * len(t))]
    low, high = busy.min() + np.array([0.35, 0.65]) * np.ptp(busy)
    on, state = np.zeros(len(t) - 1), False
    for k, value in enumerate(warmth[:-1]):
        state = value > (low if state else high)
        on[k] = state
    scene.add("warm", t[:-1], t[1:], 0.4 * on)


def wander(sd: float, tau: float, scene: Scene) -> None:
    """Idle noise with a memory."""
    t = np.arange(-MARGIN_S, scene.end + MARGIN_S + 0.5, 0.5)
    kicks = scene.draw.normal(0.0, sd, len(t))
    kicks[1:] *= np.sqrt(1 - np.exp(-1.0 / tau))
    watts = _lagged(0.5, tau, kicks)
    scene.add("idle", t[:-1], t[1:], watts[:-1], watts[1:])


def telegraph(scene: Scene) -> None:
    """A daemon switches 0.06-0.15 W on and off, 3-30 s each on average."""
    n = int(scene.end)
    dwell = scene.draw.exponential(1.0, (n, 2)) * scene.draw.uniform(3.0, 30.0, 2)
    t = np.cumsum(dwell.ravel()) - MARGIN_S
    t = t[: np.searchsorted(t, scene.end) // 2 * 2]
    scene.add("idle", t[::2], t[1::2], scene.draw.uniform(0.06, 0.15))


def beacons(scene: Scene) -> None:
    """A dozing radio wakes every 1.024 s (DTIM 10) for 60-100 ms at 0.7 W; in transfers it is awake."""
    start = np.arange(-MARGIN_S + scene.draw.uniform(0.0, 1.024), scene.end + MARGIN_S - 0.1, 1.024)
    scene.replace(start, scene.draw.uniform(0.06, 0.1, len(start)), 0.7, *TRANSFERS)


def polling(scene: Scene) -> None:
    """A monitor takes 80 ms at 0.8 W every second of device time; beside a training it finds no free core."""
    start = np.arange(-MARGIN_S, scene.end + MARGIN_S - 1.0, 1.0) + scene.draw.uniform(0.0, 0.9)
    scene.replace(start, scene.draw.uniform(0.07, 0.09, len(start)), 0.8, "train")


def observing(scene: Scene) -> None:
    """The agent parses and syncs what came, every 0.5 s at most, beside no training: 15-30 ms at 0.7 W."""
    at = scene.arrivals
    slot = np.floor(at / 0.5)
    start = at[np.flatnonzero(np.diff(slot, prepend=-np.inf) > 0)] + 0.002
    scene.replace(start, scene.draw.uniform(0.015, 0.03, len(start)), 0.7, "train")


def _ticks(meter: Meter, link: Link, end: float, draw: Generator) -> tuple[Floats, float]:
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


def _arrivals(meter: Meter, link: Link, reads: Floats, end: float, draw: Generator) -> Floats:
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


def _latched(signal: Signal, link: Link, reads: Floats, draw: Generator) -> tuple[Floats, Floats]:
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
            1 + wild * np.linspace(-0.5, 0.5, n) + _lagged(long, 60.0, kicks) + draw.normal(0.0, wild / 10, n)
        )
    ends = reads[0] - long * (1 + draw.random()) + np.cumsum(each)
    latest, of = np.unique(np.searchsorted(ends, reads, side="right") - 1, return_inverse=True)
    end, window = ends[latest], each[latest]
    edges = signal.joules((end - window)[:, None] + window[:, None] * np.arange(32) / 32)
    watts = (edges[:, 1::2] - edges[:, ::2]).sum(axis=1) / (window / 2) + draw.normal(0.0, 0.004, len(latest))
    return watts[of], np.stack([end - window, end], axis=1)[of]


def _averaged(signal: Signal, meter: Meter, reads: Floats, draw: Generator) -> tuple[Floats, Floats]:
    """Power and window of a Smart Power 3: mean of the newest interval_ms / 2 samples, 600-1000 a second."""
    samples = round(meter.interval_s * 500)
    window = samples / draw.uniform(600.0, 1000.0)
    watts = (signal.joules(reads) - signal.joules(reads - window)) / window
    watts += draw.normal(0.0, 0.02 / np.sqrt(samples), len(reads))
    return watts, np.stack([reads - window, reads], axis=1)


def _kept(link: Link, arrivals: Floats, end: float, draw: Generator) -> NDArray[np.intp]:
    """Which lines come through, in order, some of them twice."""
    n = len(arrivals)
    kept = draw.random(n) >= link.lost
    for start in draw.uniform(0.0, end - 5.0, link.outages):
        kept &= (arrivals < start) | (arrivals >= start + 5.0)
    return np.repeat(np.arange(n), kept * (1 + (draw.random(n) < link.doubled)))


def simulate(world: World, meter: Meter, seed: int) -> Run:
    """One run of `world` as `meter` shows it."""
    names = (zlib.crc32(name.encode()) for name in (world.name, meter.name))
    draw = np.random.default_rng([seed, *names])
    link = world.link
    scene = Scene(world, draw)
    reads, slow = _ticks(meter, link, scene.end, draw)
    scene.arrivals = arrivals = _arrivals(meter, link, reads, scene.end, draw)
    for effect in world.effects:
        effect(scene)
    pieces = {kind: np.concatenate([[[0.0, 1.0, 0.0, 0.0]], *parts]) for kind, parts in scene.pieces.items()}
    signal = Signal(np.concatenate(list(pieces.values())))

    gain = 1 + draw.uniform(-link.gain, link.gain)
    offset = draw.uniform(-link.offset_w, link.offset_w)
    if meter.latched:
        seen, window = _latched(signal, link, reads, draw)
        register = np.rint((seen * gain + offset) / REGISTER_W)
        watts = np.round(np.where(register < 10, 0.0, register) * PRINTED_W, 3)
        gain *= PRINTED_W / REGISTER_W
    else:
        seen, window = _averaged(signal, meter, reads, draw)
        watts = (seen * gain + offset).clip(0.0).round(3)
    kept = _kept(link, arrivals, scene.end, draw)
    again = 2e-4 * (np.diff(kept, prepend=-1) == 0)

    device_ms = (reads[kept] + 100.0) / slow * 1e3

    start_ns = 1_790_000_000_000_000_000 + int(draw.integers(10**15))
    border = np.array([0.0, *(end for *_, end in scene.spans)])
    stamped = _ns(border + draw.uniform(*world.stamp_late_s, len(border)), start_ns)
    joules = {kind: np.diff(Signal(part).joules(border)) for kind, part in pieces.items()}
    whole = signal.joules(border)
    tail_of = np.zeros(len(border) - 1)
    for span, left in scene.causes:
        tail_of[span] += left
    return Run(
        world=world,
        meter=meter,
        seed=seed,
        ns=_ns(arrivals[kept] + again, start_ns),
        watts=watts[kept],
        device_ms=(device_ms[:0] if meter.latched else device_ms).astype(np.int64),
        spans=[
            Span(phase, step, int(a), int(b))
            for (phase, step, _, _), a, b in zip(scene.spans, stamped, stamped[1:], strict=False)
        ],
        transfers=_transfers(scene, stamped, start_ns),
        border_ns=_ns(border, start_ns),
        true_gross_j=np.diff(whole),
        true_net_j=joules["work"] + joules["tail"],
        tail_j=joules["tail"],
        tail_of_j=tail_of,
        warm_j=joules["warm"],
        true_whole_j=float(whole[-1] - whole[0]),
        lateness_s=float(np.mean(arrivals - reads)),
        gain=gain,
        read_ns=_ns(reads[kept], start_ns),
        window_ns=_ns(window[kept], start_ns),
        levels_w=scene.levels,
        start_ns=start_ns,
        signal=signal,
    )


def _ns(seconds: ArrayLike, start_ns: int) -> Ints:
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64) + start_ns


def _transfers(scene: Scene, stamped: Ints, start_ns: int) -> list[Transfer]:
    """First and last byte, stamped within 1 ms by the process that stamps the borders, in their order."""
    size = int(scene.draw.uniform(0.5e6, 5e6))
    out = []
    for span, first, last in scene.bytes:
        late = scene.draw.uniform(0.0, 0.001, 2)
        a, b = np.clip(_ns(np.array([first, last]) + late, start_ns), stamped[span], stamped[span + 1])
        out.append(Transfer(span, int(a), int(b), size))
    return out


METERS = {
    meter.name: meter
    for meter in (
        Meter("sp2-1hz", 1.0, True, 0.0026),
        Meter("sp2-100ms", 0.1, True, 0.0026),
        Meter("sp3-5ms", 0.005, False, 0.0009),  # 921600 baud; the others 115200
        Meter("sp3-20ms", 0.02, False, 0.007),
        Meter("sp3-100ms", 0.1, False, 0.007),
    )
}

_LOCKED = "Rounds start at clock:20."

WORLDS = {
    world.name: world
    for world in (
        *(World(f"clean-{s:g}s", transfer_s=s) for s in (2.0, 1.0, 0.5)),
        *(World(f"dead-{s:g}s", dead, transfer_s=s) for s in (2.0, 1.0, 0.5)),
        *(World(f"burst-{s:g}s", burst, transfer_s=s) for s in (2.0, 1.0, 0.6, 0.5)),
        *(World(f"end-burst-{s:g}s", hashed, transfer_s=s) for s in (2.0, 1.0)),
        *(World(f"slow-start-{s:g}s", slow_start, transfer_s=s) for s in (2.0, 1.0)),
        World("fading", fading),
        World("retransmissions", paused),
        World("bandwidth", at_rate),
        World("train-ramp", train=ramp),
        World("train-dips", train=dips),
        World("train-throttled", train=throttled),
        World("train-undervolted", train=undervolted),
        World("train-batches", train=batches),
        World("radio-tail", effects=(radio_tail,)),
        World("autosuspend", effects=(autosuspend,)),
        World("train-spins-on", effects=(spinning,)),
        World("card-tidies", effects=(card_tidies,)),
        World("writeback", effects=(writeback,)),
        World("lte", promoted, effects=(lte_tail,)),
        World("stepped-clock", stepped_clock, late_clock, (clock_tail,)),
        World("wait-above-idle", effects=(listening,)),
        World("absent-searching", effects=(searching,)),
        World("idle-warming", effects=(warming,)),
        World("idle-correlated", effects=(partial(wander, 0.08, 20.0),), note="AR(1) of 80 mW, 20 s."),
        World("idle-telegraph", effects=(telegraph,)),
        World("self-heating", effects=(self_heating,)),
        World("fan", effects=(fan,)),
        World("beacons", effects=(beacons,)),
        World("polling", effects=(polling,)),
        World("observing", effects=(observing,)),
        World("locked", note=_LOCKED, lock_s=20.0),
        World("locked-dead", dead, note=_LOCKED, transfer_s=1.0, lock_s=20.0),
        World("locked-burst", burst, note=_LOCKED, lock_s=20.0),
        World("locked-lte", promoted, late_clock, (lte_tail,), note=_LOCKED, lock_s=20.0),
        World("late-borders", note="Borders stamped 5-30 ms late.", stamp_late_s=(0.005, 0.03)),
        World("clock-50ppm", note="The meter's timer is off by 50 ppm.", link=Link(ppm=(50, 50))),
        World("line-jitter", note="Lines 0.9-1.3 s apart.", link=Link(interval=(0.9, 1.3))),
        World("late-100ms", note="Lines come 100 ms late.", link=Link(lateness_s=0.1)),
        World("lost-and-doubled", note="5 % of lines lost, 3 % double.", link=Link(lost=0.05, doubled=0.03)),
        World("outages", note="Four times no line for 5 s.", link=Link(outages=4)),
        World("stalls", note="Six times no line for 2-4 s, then all at once.", link=Link(stalls=6)),
        World("gain", note="Gain off by 2 %, zero by 17 mW at most.", link=Link(gain=0.02, offset_w=0.017)),
        World("conversion-wander", note="The chip's clock drifts 1000 ppm.", link=Link(conversion_ppm=1000)),
        World("other-host", note="Stamps off by up to 20 ms, new every 2 min.", link=Link(other_host_s=0.02)),
        World(
            "everything",
            messy,
            ramp,
            (radio_tail, listening, warming, partial(wander, 0.03, 20.0)),
            note="Idle wanders by 30 mW; lines jitter, are late, lost or double; borders are late.",
            stamp_late_s=(0.005, 0.03),
            link=Link((30, 50), (0.95, 1.1), lateness_s=0.03, lost=0.02, doubled=0.02, outages=1),
        ),
    )
}
