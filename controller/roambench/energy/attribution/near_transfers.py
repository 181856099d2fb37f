"""The model that readings near transfers are compared with: fitted powers, and pieces that may differ;
pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribution.design import Design
from roambench.energy.attribution.least_squares import Fit
from roambench.energy.attribution.pieces import TRANSFERS
from roambench.energy.attribution.span_powers import SpanPowers
from roambench.energy.readings.occupancy import Columns, Floats
from roambench.energy.readings.power_shape import Borders, KnownPower, NearReadings, Prior

#: Borders of the pieces in which a shape is looked for, s from start and from end (at most half the span).
_EDGES_S: Final = {
    **dict.fromkeys(TRANSFERS, ((0.06, 0.14, 0.25, 0.42, 0.7), (0.06, 0.14, 0.25, 0.42, 0.7))),
    Phase.TRAIN: ((0.1, 0.5), (0.1,)),
    Phase.WAIT: ((0.25, 0.5), ()),
}
_OUTERMOST_S: Final = 0.14
_ALIKE_S: Final = 0.2
_LEVEL_W: Final = 3.0
#: Transfers may draw so many times what the fit says where they begin and end.
_SCALES: Final = (1.0, 0.5, 2.0, 3.0)
#: A border between powers closer than this tells no time, W; shares so close to 0 and 1 neither.
_STEP_W: Final = 0.25
_SHARES: Final = (0.05, 0.95)
#: What a line takes from the meter to its stamp, s.
LINE_S: Final = 0.005
#: A fit of unknown ages knows lateness that well; from here on lines are taken to be as late as it says, s.
LATE_S: Final = 0.035
#: Noise that readings have beyond what their neighbours tell, W.
_NOISE_W: Final = 0.01
#: So many readings near transfers, some 60 rounds, find the clock and tell a shape; more only cost time.
MAX_READINGS: Final = 400


class Belief(NamedTuple):
    """Prior deviations (k = 1), as shares of what the phase draws above idle; `tail_w` in W.

    How transfers scatter, and what may be beside their power: any piece, the outermost ones, one that waits
    for bytes; pieces of a training; and what comes after the work.
    """

    scatter: float
    piece: float
    outermost: float
    waiting: float
    training: float
    tail_w: float


STEADY: Final = Belief(0.05, 0.03, 0.05, 0.3, 0.02, 0.02)
EDGED: Final = Belief(0.05, 0.03, 0.7, 0.3, 0.1, 0.02)
BENT: Final = Belief(0.05, 0.3, 0.7, 0.3, 0.1, 0.1)
SHAPED: Final = Belief(0.08, 0.8, 0.7, 1.5, 0.3, 0.2)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit of constant powers: its readings, and of each fitted piece phase and whether it is a
    part that draws otherwise than the rest of its span: it waits for bytes, or a training begins. A tail is
    none. `amid`: nothing begins there, a transfer stalls or moves on.

    `at_s` are the arrivals of the readings used, `late_s` is how late the fit takes them to be.
    """

    design: Design
    fit: Fit
    powers: SpanPowers
    watts: Floats
    pieces: Sequence[PhaseSpan]
    waits: Sequence[bool]
    names: tuple[str, ...]
    step_w: float
    at_s: Floats
    late_s: float
    amid: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Near:
    """The data by which a clock is found: power with columns, two priors (transfers steady, and of any
    shape), those of single shapes after the steady one, readings, borders, and how late lines are taken to
    be.

    `whole`: all readings near transfers are in it.
    """

    shape: KnownPower
    priors: tuple[Prior, Prior]
    shapes: tuple[Prior, ...]
    readings: NearReadings
    borders: tuple[Borders, ...]
    late_s: float
    whole: bool


def near_transfers(fitted: Fitted, window_s: float) -> Near:
    """The readings near transfers, and power there: fitted powers, with pieces that may differ from them."""
    above_w = _above_idle(fitted)
    shape, columns = _shape(fitted)
    late_s = fitted.late_s if fitted.late_s > LATE_S else LINE_S
    near = _near(fitted, shape, columns, window_s, late_s)
    chosen = near[:MAX_READINGS]
    design, transfer_w = fitted.design, np.zeros(len(chosen))
    for level, (phase, waits) in _levels(fitted).items():
        if phase in TRANSFERS and not waits:
            transfer_w += above_w[phase] * design.matrix[chosen, level]
    noise_w2 = (design.matrix @ fitted.fit.noise_w2)[chosen] + _NOISE_W**2
    readings = NearReadings(fitted.at_s[chosen], fitted.watts[chosen], noise_w2, transfer_w)
    steady = _prior(columns, above_w, STEADY)
    single = [
        _prior(columns, above_w, belief, phases)
        for belief in (EDGED, BENT, SHAPED)
        for phases in ((Phase.DOWNLOAD,), (Phase.UPLOAD,), (Phase.TRAIN, Phase.WAIT), tuple(_EDGES_S))
    ]
    return Near(
        shape,
        (steady, single[-1]),
        (steady, *single),
        readings,
        _borders(fitted, readings, window_s, late_s),
        late_s,
        len(chosen) == len(near),
    )


def _levels(fitted: Fitted) -> dict[int, tuple[Phase, bool]]:
    """Of each level its phase, and whether transfers wait in it."""
    rows = zip(fitted.design.level_of_fitted.tolist(), fitted.pieces, fitted.waits, strict=True)
    return {level: (piece.phase, waits) for level, piece, waits in rows}


def _above_idle(fitted: Fitted) -> dict[Phase, float]:
    """Power of moving and training above idle, W, at least something."""
    found: dict[Phase, list[float]] = {}
    for level, (phase, waits) in _levels(fitted).items():
        if not waits:
            found.setdefault(phase, []).append(float(fitted.powers.level_watts[level]))
    idle_w = float(fitted.powers.level_watts[0])
    return {phase: max(abs(float(np.mean(watts)) - idle_w), 0.05) for phase, watts in found.items()}


Column = tuple[Phase, str, float]


def _shape(fitted: Fitted) -> tuple[KnownPower, list[Column]]:
    """Fitted powers as anchors, and columns (phase, which end, middle of the piece in s) on top of them."""
    design, powers = fitted.design, fitted.powers
    index: dict[Column, int] = {}
    knots: list[float] = []
    watts: list[float] = []
    on: list[tuple[int, ...]] = []

    def add(at_s: float, power_w: float, *columns: Column) -> None:
        knots.append(at_s)
        watts.append(power_w)
        on.append(tuple(index.setdefault(column, len(index)) for column in columns))

    last_s, before, begun = -np.inf, Phase.IDLE, False
    unit_of = design.unit_of_fitted.tolist()
    last_of = {unit: i for i, unit in enumerate(unit_of)}
    for i, (piece, waits) in enumerate(zip(fitted.pieces, fitted.waits, strict=True)):
        start_s, end_s = float(design.starts_s[i]), float(design.ends_s[i])
        power_w, phase = float(powers.watts[i]), piece.phase
        if knots and start_s > last_s + 1e-6:
            add(last_s, watts[-1])
        if waits:
            place = "amid" if fitted.amid[i] else "last" if before is phase else "first"
            add(start_s, power_w, (phase, f"waits {place}", 0.0))
        else:
            moves = phase in TRANSFERS
            level = ((phase, "level", 0.0),) if moves else ()
            if moves:
                power_w = float(powers.level_watts[design.level_of_fitted[i]])
            after = fitted.pieces[i + 1].phase if i + 1 < len(fitted.pieces) else None
            if moves:
                first, last = not fitted.amid[i], last_of[unit_of[i]] == i
            else:
                first, last = begun or before is not phase, after is not phase
            heads, tails = _EDGES_S.get(phase, ((), ()))
            # A tail is the beginning of what follows the transfer: what comes after it has none of its own.
            limit_s = (0.5 if first and last else 1.0) * (end_s - start_s)
            if not moves and end_s - start_s < 0.75:
                heads, tails = (), ()
            head = [0.0, *(edge for edge in heads if first if edge < limit_s)]
            tail = [0.0, *(edge for edge in tails if last if edge < limit_s)]
            for begin, until in pairwise(head):
                add(start_s + begin, power_w, *level, (phase, "first", 0.5 * (begin + until)))
            add(start_s + head[-1], power_w, *level)
            for begin, until in zip(tail[-2::-1], tail[:0:-1], strict=True):
                add(end_s - until, power_w, *level, (phase, "last", 0.5 * (begin + until)))
        last_s, before, begun = end_s, phase, waits
    table = np.zeros((len(watts), len(index)))
    for row, columns in enumerate(on):
        table[row, list(columns)] = 1.0
    return KnownPower(np.array([*knots, last_s]), np.array(watts), table), list(index)


def _prior(
    columns: Sequence[Column],
    above_w: dict[Phase, float],
    belief: Belief,
    only: Sequence[Phase] = tuple(_EDGES_S),
) -> Prior:
    """Independent columns, but for neighbouring pieces of transfers; phases not in `only` are steady."""
    covariance = np.zeros((len(columns), len(columns)))
    middles_s = np.array([middle_s for _, _, middle_s in columns])
    sides = {
        column[:2]: [i for i, other in enumerate(columns) if other[:2] == column[:2]] for column in columns
    }
    for i, (phase, end, middle_s) in enumerate(columns):
        size_w, own = above_w.get(phase, 0.05), belief if phase in only else STEADY
        if end == "level":
            covariance[i, i] = _LEVEL_W**2
        elif end.startswith("waits"):
            covariance[i, i] = (own.waiting * size_w) ** 2
        elif phase is Phase.TRAIN:
            covariance[i, i] = (own.training * size_w) ** 2
        elif phase is Phase.WAIT:
            covariance[i, i] = own.tail_w**2
        else:
            edge = own.outermost if middle_s < _OUTERMOST_S else 0.0
            covariance[i, i] = (0.4 * own.piece**2 + edge**2) * size_w**2
            side = sides[phase, end]
            alike = 0.6 * np.exp(-np.abs(middles_s[side] - middle_s) / _ALIKE_S)
            covariance[i, side] += (own.piece * size_w) ** 2 * alike
    return Prior(covariance, belief.scatter)


def _near(
    fitted: Fitted, shape: KnownPower, columns: Sequence[Column], window_s: float, late_s: float
) -> Columns:
    """Readings that may have seen a column of a transfer or a training."""
    at_s = fitted.at_s - late_s
    works = np.array([phase is not Phase.WAIT for phase, _, _ in columns])
    on_s = np.concatenate(([0.0], np.cumsum(np.diff(shape.knots_s) * shape.on[:, works].any(axis=1))))
    until, since = (
        np.interp(when, shape.knots_s, on_s) for when in (at_s + 0.02, at_s - 2.2 * window_s - 0.02)
    )
    return np.flatnonzero(until - since > 1e-9)


def _borders(fitted: Fitted, readings: NearReadings, window_s: float, late_s: float) -> tuple[Borders, ...]:
    """Borders that one reading may have seen alone, under several guesses of what transfers draw there."""
    design, idle_w = fitted.design, float(fitted.powers.level_watts[0])
    # What waits for bytes is short: transfers border on what comes before and after that. A training begins
    # where its beginning does, even if that has a power of its own. A stall may be long: both its ends are
    # borders, which tell nothing, as they passed through buffers.
    part = np.array(fitted.waits, dtype=np.bool_) & ~fitted.amid
    whole = np.flatnonzero(~part)
    moves = np.array([fitted.pieces[i].phase in TRANSFERS for i in whole.tolist()])
    begun = np.maximum(whole - 1, 0)
    starting = part[begun] & np.array([fitted.pieces[i].phase is Phase.TRAIN for i in begun.tolist()])
    first = np.where(starting, begun, whole)
    at_s = np.where(moves[:-1], design.starts_s[first[1:]], design.ends_s[whole[:-1]])
    kinks = np.where(starting, design.starts_s[whole] - design.starts_s[first], 0.0) / window_s
    seen_s = readings.at_s - late_s
    low = np.searchsorted(at_s, seen_s - 2.15 * window_s - 0.02, "right")
    high = np.searchsorted(at_s, seen_s + 0.02, "left")
    alone = np.flatnonzero(high - low == 1)
    before = low[alone]
    watts = fitted.powers.watts[whole]

    def told(scale: float, kind: npt.NDArray[np.bool_] | None = None) -> Borders:
        power_w = np.where(moves, idle_w + scale * (watts - idle_w), watts)
        step_w, risen_w = power_w[before + 1] - power_w[before], readings.watts[alone] - power_w[before]
        # The share behind the border up to which a window sees nothing but the beginning, and what it sees.
        kink, first_w = kinks[before + 1], fitted.powers.watts[first[before + 1]] - power_w[before]
        begins = risen_w * np.sign(step_w) < kink * first_w * np.sign(step_w)
        risen_w = risen_w - np.where(begins, 0.0, kink * first_w)
        slope_w = np.where(begins, first_w * (first_w * step_w > 0.0), step_w)
        large = np.abs(slope_w) > _STEP_W
        behind = risen_w / np.where(large, slope_w, 1.0) + np.where(begins, 0.0, kink)
        good = large & (behind > _SHARES[0]) & (behind < _SHARES[1]) & ~fitted.amid[whole[before + 1]]
        if kind is not None:
            good &= kind
        weight = 1.0 / (np.square(0.02 / np.maximum(np.abs(slope_w), 1e-3)) + 0.04**2)
        return Borders(at_s[before[good]], behind[good], weight[good])

    ends, begins = moves[before], moves[before + 1]
    return (*(told(scale) for scale in _SCALES), told(1.0, ends & ~begins), told(1.0, begins & ~ends))
