"""The meter's own conversion clock: when the window of each printed value really ended; pure.

A meter that converts back to back and prints whatever was finished last (an INA231 behind a timer of its own)
shows at t the mean power over [e - W, e] with e = u + W floor((t - late - u) / W). Two numbers, W and u, turn
the unknown age of every line into a known one: a reading across the border of a training is then worth
milliseconds instead of a quarter of a second.

Readings that saw one border between two known powers say where in the period windows end: a periodogram
over W. The best clocks are compared by how likely they make all readings near transfers, whatever shape these
have, and refined by Gauss-Newton. A clock is believed only where it beats unknown ages, and others by far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from roambench.energy.readings.occupancy import Floats
from roambench.energy.readings.power_shape import Borders, KnownPower, NearReadings, Prior

#: How far a chip's period may be from the nominal one: an INA231's is at most 10 % longer by its data sheet,
#: which gives no least one.
PERIOD_SHARE: Final = (0.94, 1.1)
#: Steps of the periodogram, in cycles over the whole time: two clocks so close are one.
_CYCLES: Final = 0.05
#: Clocks of each periodogram that are compared, and those that are refined.
_PEAKS: Final = 30
_REFINED: Final = 12
_AT_ONCE: Final = 64
#: So many are tried again from around their place: other ends, and other periods (s at the end of the time).
_AGAIN: Final = 1
_SHIFTS_S: Final = np.array([-0.03, -0.015, 0.0, 0.015, 0.03])
_TURNS_S: Final = np.array([-0.02, 0.0, 0.02])
#: How uncertain borders and ends of windows are (k = 1), s: at first sight, and pass by pass.
_ROUGH_BLUR_S: Final = 0.02
_BLURS_S: Final = (0.015, 0.01, 0.008, 0.007)
#: A line may show the value before an update or the one after it: so long before, and (lines come late) so
#: long after; how far off it may then be (k = 1), W.
UPDATE_S: Final = (0.008, 0.025)
_UPDATE_W: Final = 0.3
_NEAR_S: Final = 0.012
#: Log likelihood by which every other clock must be worse.
MARGIN: Final = 10.0
#: A clock this much worse than unknown ages is none; steady transfers have been seen to reach -2.
REFUTED: Final = -8.0
#: Degrees of freedom of what readings miss the shape by (Student t): transfers differ, a busy host is late.
_FREEDOM: Final = 3.0
#: Fewer readings near borders find no clock.
MIN_READINGS: Final = 20
#: Borders that tell a clock: fewer of one kind are not asked alone.
_MIN_BORDERS: Final = 4


@dataclass(frozen=True, slots=True)
class ConversionClock:
    """Windows of `window_s` end at `end_s` plus any number of them; a line comes `late_s` after its reading.

    `gain` is the log likelihood by which it beats unknown ages, `margin` that by which it beats every other
    clock, `shaped` that by which transfers with a shape beat constant ones.
    """

    window_s: float
    end_s: float
    late_s: float
    gain: float
    margin: float
    shaped: float

    @property
    def found(self) -> bool:
        """Whether this clock explains the readings better than unknown ages, and clearly better than any
        other."""
        return self.gain > 0.0 and self.margin > MARGIN

    @property
    def refuted(self) -> bool:
        """Whether no clock stands out, and the best explains the readings worse than unknown ages do."""
        return self.gain <= REFUTED and self.margin <= MARGIN

    def ends_s(self, at_s: Floats) -> Floats:
        """When the window of each line ended, same shape."""
        turns = np.floor((at_s - self.late_s - self.end_s) / self.window_s)
        return np.asarray(self.end_s + turns * self.window_s)

    def ambiguous(self, at_s: Floats) -> npt.NDArray[np.bool_]:
        """Lines so close to an update that they may show the value before or after it, same shape."""
        age_s = at_s - self.late_s - self.ends_s(at_s)
        return np.asarray((age_s < UPDATE_S[1]) | (age_s > self.window_s - UPDATE_S[0]))


def find_clock(
    shape: KnownPower,
    priors: Sequence[Prior],
    readings: NearReadings,
    borders: Sequence[Borders],
    nominal_s: float,
    late_s: float,
) -> ConversionClock | None:
    """The likeliest clock; None where too few readings saw a border. Each set of `borders` may tell it.

    `priors` are two: transfers of constant power, and of any shape.
    """
    told = [part for part in borders if len(part.at_s) >= _MIN_BORDERS]
    if len(readings.at_s) < MIN_READINGS or not told:
        return None
    search = _Search(shape, priors, readings, late_s)
    peaks = [_peaks(part, search.middle_s, search.length_s, nominal_s) for part in told]
    window_s, end_s = (np.concatenate(part) for part in zip(*peaks, strict=True))
    rough = [
        search.compared(window_s[i : i + _AT_ONCE], end_s[i : i + _AT_ONCE], _ROUGH_BLUR_S).likelihood
        for i in range(0, len(end_s), _AT_ONCE)
    ]
    best = np.argsort(-np.concatenate(rough))[:_REFINED]
    window_s, end_s = window_s[best], end_s[best]
    window_s, end_s = search.refined(window_s, end_s, _BLURS_S)
    # Close to the truth there are lesser tops: the best are tried again from places around them.
    best = np.argsort(-search.compared(window_s, end_s, _BLURS_S[-1], move=True).likelihood)
    turned = np.outer(window_s[best[:_AGAIN]], 2.0 * _TURNS_S / search.length_s)
    tried = [
        (window_s[best[:_AGAIN], None] + turned)[:, :, None] + 0.0 * _SHIFTS_S,
        end_s[best[:_AGAIN], None, None] + 0.0 * turned[:, :, None] + _SHIFTS_S,
    ]
    again = search.refined(tried[0].ravel(), tried[1].ravel(), _BLURS_S[2:])
    window_s, end_s = (np.concatenate(parts) for parts in ((window_s, again[0]), (end_s, again[1])))
    found = search.compared(window_s, end_s, _BLURS_S[-1], move=True)
    top = int(np.argmax(found.likelihood))
    apart = np.abs(window_s / window_s[top] - 1.0) > 4.0 * _CYCLES * nominal_s / search.length_s
    likelihood = float(found.likelihood[top])
    return ConversionClock(
        float(window_s[top]),
        float(search.middle_s + end_s[top]),
        late_s,
        likelihood - search.of_unknown_ages(nominal_s, _BLURS_S[-1]),
        likelihood - float(found.likelihood[apart].max()) if apart.any() else np.inf,
        float(found.shaped[top]),
    )


def shaped_by(
    shape: KnownPower, priors: Sequence[Prior], readings: NearReadings, clock: ConversionClock
) -> float:
    """Log likelihood by which the best of the later priors beats the first, at one clock."""
    search = _Search(shape, priors, readings, clock.late_s)
    place = np.array([clock.end_s - search.middle_s])
    logs = search.compared(np.array([clock.window_s]), place, _BLURS_S[-1], move=True).by_prior
    return float(logs[1:, 0].max() - logs[0, 0])


def _peaks(borders: Borders, middle_s: float, length_s: float, nominal_s: float) -> tuple[Floats, Floats]:
    """Periods at which the ends of windows that borders tell agree best, and where these end."""
    low, high = PERIOD_SHARE
    # Even in frequency: a cycle more or less over the whole time is another clock.
    step_hz = _CYCLES / length_s
    rates_hz = np.arange(1.0 / (high * nominal_s), 1.0 / (low * nominal_s), step_hz)
    from_middle_s = borders.at_s - middle_s
    sums = (borders.weight / borders.weight.sum())[None, :] * np.exp(
        2j * np.pi * (from_middle_s * rates_hz[0] + borders.behind)
    )
    turn = np.exp(2j * np.pi * from_middle_s * step_hz)
    while len(sums) < len(rates_hz):  # by doubling: few exponentials
        sums, turn = np.concatenate((sums, sums * turn)), turn * turn
    total = sums[: len(rates_hz)].sum(axis=1)
    size = np.abs(total)
    peak = np.flatnonzero((size >= np.roll(size, 1)) & (size >= np.roll(size, -1)))
    chosen = peak[np.argsort(-size[peak])[:_PEAKS]]
    window_s = 1.0 / rates_hz[chosen]
    return window_s, np.angle(total[chosen]) / (2.0 * np.pi) * window_s


class _Compared(NamedTuple):
    """Of clocks, shape (clocks,): log likelihood, and that under each prior, shape (priors, clocks); that by
    which shapes beat none, a Gauss-Newton step."""

    likelihood: Floats
    by_prior: Floats
    shaped: Floats
    end_step_s: Floats
    window_step_s: Floats


class _Search:
    """How likely clocks make the readings; columns, and small steps of the clock, are integrated out."""

    def __init__(
        self, shape: KnownPower, priors: Sequence[Prior], readings: NearReadings, late_s: float
    ) -> None:
        self.middle_s = 0.5 * float(readings.at_s[0] + readings.at_s[-1])
        self.length_s = max(float(readings.at_s[-1] - readings.at_s[0]), 1.0)
        self._shape, self._priors, self._readings, self._late_s = shape, priors, readings, late_s
        self._columns = shape.on.shape[1]
        self._precisions = [np.linalg.inv(prior.covariance_w2) for prior in priors]
        self._volumes = [float(np.linalg.slogdet(precision)[1]) for precision in self._precisions]

    def refined(self, window_s: Floats, end_s: Floats, blurs_s: Sequence[float]) -> tuple[Floats, Floats]:
        """Clocks after a Gauss-Newton step for each blur, shape (clocks,) each."""
        for blur_s in blurs_s:
            found = self.compared(window_s, end_s, blur_s, move=True)
            window_s, end_s = window_s + found.window_step_s, end_s + found.end_step_s
        return window_s, end_s

    def compared(self, window_s: Floats, end_s: Floats, blur_s: float, *, move: bool = False) -> _Compared:
        """Clocks whose windows end `end_s` after the middle, shape (clocks,); `move` lets each step."""
        shape, readings = self._shape, self._readings
        window = np.repeat(window_s[:, None], len(readings.at_s), axis=1)
        since = readings.at_s - self._late_s - self.middle_s - end_s[:, None]
        age = since - np.floor(since / window) * window
        end = readings.at_s - self._late_s - age
        power, share, step_w, step_on = shape.seen(end, window)
        left = readings.watts - power
        update_w2 = np.where(np.minimum(age, window - age) < _NEAR_S, _UPDATE_W**2, 0.0)
        far = (end - self.middle_s) / (0.5 * self.length_s)
        solved = np.zeros((len(window_s), self._columns))
        columns = share
        if move:  # a step of the end, and one of the period: both in seconds
            columns = np.concatenate((share, np.zeros((2, *left.shape))))
        weights = [np.ones_like(left)] * len(self._priors)
        for _ in range(3 if move else 2):
            own = solved[:, None, : self._columns]
            slope = step_w / window + (own @ step_on.swapaxes(0, 1))[:, 0] / window
            base_w2 = readings.noise_w2 + np.square(blur_s * slope) + update_w2
            if move:
                columns[-2], columns[-1] = slope, slope * far
            tried = [
                self._solve(columns, left, base_w2, weights[k], k, blur_s) for k in range(len(self._priors))
            ]
            weights = [weight for _, _, weight in tried]
            logs = np.array([log for log, _, _ in tried])
            best = np.argmax(logs, axis=0)
            solved = np.array([one for _, one, _ in tried])[best, np.arange(len(best))]
        steps = solved[:, self._columns :] if move else np.zeros((len(window_s), 2))
        return _Compared(
            np.logaddexp.reduce(logs),
            logs,
            logs[-1] - logs[0],
            steps[:, 0],
            steps[:, 1] * window_s / (0.5 * self.length_s),
        )

    def of_unknown_ages(self, nominal_s: float, blur_s: float) -> float:
        """Log likelihood of readings of unknown age: the mean over it, and what it adds to their variance."""
        ages_s = (np.arange(24) + 0.5) / 24.0 * nominal_s
        end = self._readings.at_s - self._late_s - ages_s[:, None]
        power, share, step_w, _ = self._shape.seen(end, np.full(end.shape, nominal_s))
        slope = step_w / nominal_s
        base_w2 = self._readings.noise_w2 + power.var(axis=0) + np.square(blur_s * slope).mean(axis=0)
        left, columns = self._readings.watts - power.mean(axis=0), share.mean(axis=1, keepdims=True)
        logs = []
        for k in range(len(self._priors)):
            weight = np.ones((1, len(left)))
            for _ in range(4):
                log, _, weight = self._solve(columns, left[None], base_w2[None], weight, k, blur_s)
            logs.append(float(log[0]))
        return float(np.logaddexp.reduce(logs))

    def _solve(
        self, columns: Floats, left: Floats, base_w2: Floats, weight: Floats, number: int, blur_s: float
    ) -> tuple[Floats, Floats, Floats]:
        """Log likelihood under one prior, shape (clocks,), the columns' powers, and the readings' weights.

        `columns` has shape (columns, clocks, readings); what follows it (clocks, readings).
        """
        prior, count = self._priors[number], len(columns)
        variance = base_w2 + np.square(prior.scatter * self._readings.transfer_w)
        precision = np.eye(count) / blur_s**2
        precision[: self._columns, : self._columns] = self._precisions[number]
        of_clock = columns.swapaxes(0, 1)
        weighted = (columns * (weight / variance)).swapaxes(0, 1)
        normal = weighted @ of_clock.swapaxes(1, 2) + precision
        solved = np.asarray(np.linalg.solve(normal, weighted @ left[..., None])[..., 0], dtype=np.float64)
        square = np.square(left - (solved[:, None] @ of_clock)[:, 0]) / variance
        misfit = (_FREEDOM + 1.0) * np.log1p(square / _FREEDOM) + np.log(variance)
        held = ((solved @ precision) * solved).sum(axis=1)
        sides = np.diagonal(np.linalg.cholesky(normal), axis1=1, axis2=2)
        volume = 2.0 * (np.log(sides).sum(axis=1) + (count - self._columns) * np.log(blur_s))
        likelihood: Floats = -0.5 * (misfit.sum(axis=1) + held + volume - self._volumes[number])
        return likelihood, solved, (_FREEDOM + 1.0) / (_FREEDOM + square)
