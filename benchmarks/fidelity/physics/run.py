"""One run of a world as a meter shows it, and its truth."""

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fidelity.physics import meters
from fidelity.physics.board import Scene, World
from fidelity.physics.meters import PRINTED_W, REGISTER_W, Meter
from fidelity.physics.power import Floats, Ints, Signal

#: An agent cannot tell shorter pauses from its own lateness.
LEAST_STALL_S = 0.1


class Span(NamedTuple):
    """A phase as the agent stamps it; the baselines have the steps -1 and `World.rounds`."""

    phase: str
    step: int
    start_ns: int
    end_ns: int


class Transfer(NamedTuple):
    """What an honest agent stamps inside a transfer; `span` is the index of its span. In `stalls_ns` (from
    and to) no byte moved."""

    span: int
    first_byte_ns: int
    last_byte_ns: int
    bytes: int
    stalls_ns: tuple[tuple[int, int], ...] = ()


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


def simulate(world: World, meter: Meter, seed: int) -> Run:
    """One run of `world` as `meter` shows it."""
    names = [zlib.crc32(name.encode()) for name in (world.name, meter.name)]
    draw = np.random.default_rng([seed, *names])
    link = world.link
    scene = Scene(world, draw)
    reads, slow = meters.ticks(meter, link, scene.end, draw)
    scene.arrivals = arrivals = meters.arrivals(meter, link, reads, scene.end, draw)
    for effect in world.effects:
        effect(scene)
    pieces = {kind: np.concatenate([[[0.0, 1.0, 0.0, 0.0]], *parts]) for kind, parts in scene.pieces.items()}
    signal = Signal(np.concatenate(list(pieces.values())))

    gain = 1 + draw.uniform(-link.gain, link.gain)
    offset = draw.uniform(-link.offset_w, link.offset_w)
    if meter.latched:
        seen, window = meters.latched(signal, link, reads, draw)
        register = np.rint((seen * gain + offset) / REGISTER_W)
        watts = np.round(np.where(register < 10, 0.0, register) * PRINTED_W, 3)
        gain *= PRINTED_W / REGISTER_W
    else:
        seen, window = meters.averaged(signal, meter, reads, draw)
        watts = (seen * gain + offset).clip(0.0).round(3)
    kept = meters.kept(link, arrivals, scene.end, draw)
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
        transfers=_transfers(scene, stamped, start_ns, np.random.default_rng([seed, *names, 1])),
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


def _transfers(
    scene: Scene, stamped: Ints, start_ns: int, draw_stalls: np.random.Generator
) -> list[Transfer]:
    """First and last byte, and stalls, stamped within 1 ms by the process that stamps the borders, in their
    order.

    Kinder than an agent's view: its bytes come in chunks, and go by way of a socket's buffer.
    """
    size = int(scene.draw.uniform(0.5e6, 5e6))
    out = []
    for span, first, last, stalls in scene.bytes:
        late = scene.draw.uniform(0.0, 0.001, 2)
        a, b = np.clip(_ns(np.array([first, last]) + late, start_ns), stamped[span], stamped[span + 1])
        paused = np.clip(_ns(stalls + draw_stalls.uniform(0.0, 0.001, stalls.shape), start_ns), a, b)
        seen = paused[np.diff(paused)[:, 0] >= LEAST_STALL_S * 1e9].tolist()
        out.append(Transfer(span, int(a), int(b), size, tuple((begin, end) for begin, end in seen)))
    return out
