"""Check-ins of the devices of a synthetic city, by hour and device, with holes for a collector's outages."""

from __future__ import annotations

from math import gamma
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.mobility.trace import FloatColumn
from roambench.mobility.walks.city_parameters import CityParameters

#: Devices seen by local hour, relative to each other: the day of people who check in on their way to work, at
#: lunch and at night. Rounded from the mean day of New York's check-ins.
BY_HOUR: Final[FloatColumn] = np.array(
    [
        *(13.2, 9.6, 6.8, 3.8, 4.2, 4.4, 11.5, 23.0, 41.0, 48.0, 34.0, 25.0),
        *(31.0, 34.0, 33.6, 27.5, 24.0, 33.5, 41.5, 37.0, 34.5, 24.4, 19.3, 17.0),
    ]
)
_GOLDEN: Final = (5**0.5 - 1) / 2
_FIRST: Final = 0.53
_PLACEMENTS: Final = 64


def checkin_presence(parameters: CityParameters, seed: int) -> npt.NDArray[np.bool_]:
    """Presence of devices, shape (steps, devices). Everybody is seen at least once, none in an outage.

    A device's chance in a step is its own rate (Weibull over the devices) times the hour's share of the day;
    one seen in the step before has the chance `again` on top.
    """
    steps, count = parameters.steps, parameters.devices
    hour = _hour_factors(parameters)
    down = np.zeros(steps, np.bool_)
    for first, length in drawn_outages(parameters, seed):
        down[first : first + length] = True
    rates = _rates(parameters) * (1.0 - parameters.again)
    seen = np.zeros((steps, count), np.bool_)
    nearest = np.full(count, np.inf)  # how close a device came to being seen, and when
    nearest_step = np.zeros(count, np.int64)
    before = np.zeros(count, np.bool_)
    for step in np.flatnonzero(~down):
        draws = generator(seed, "city check-ins", step=int(step)).random((count, 2))
        chance = np.minimum(rates * hour[step], 1.0)
        repeats = before & (draws[:, 1] < parameters.again) if step and not down[step - 1] else False
        seen[step] = before = (draws[:, 0] < chance) | repeats
        missed = draws[:, 0] / np.maximum(chance, 1e-300)
        closer = missed < nearest
        nearest[closer], nearest_step[closer] = missed[closer], step
    never = np.flatnonzero(~seen.any(axis=0))
    seen[nearest_step[never], never] = True
    return seen


def drawn_outages(parameters: CityParameters, seed: int) -> list[list[int]]:
    """[first step, steps] of every outage, in time order: a stick broken at random, never touching.

    Of some random placements the one is taken that loses every hour of the day most equally often: the mean
    day then shows the rhythm and not where a few long outages happened to fall.
    """
    runs, together = parameters.outages, parameters.outage_steps
    if not runs:
        return []
    draw = generator(seed, "city outages")
    hour = _local_hours(parameters)
    best: list[list[int]] = []
    least = np.inf
    for _ in range(_PLACEMENTS):
        cuts = np.sort(draw.choice(together - 1, runs - 1, replace=False)) + 1
        lengths = np.diff([0, *cuts.tolist(), together])
        # Of the steps without an outage, choose those that one comes before: distinct, so no two touch.
        before = np.sort(draw.choice(parameters.steps - together, runs, replace=False))
        firsts = before + np.cumsum(lengths) - lengths
        down = np.zeros(parameters.steps)
        for first, length in zip(firsts, lengths, strict=True):
            down[first : first + length] = 1.0
        uneven = float(np.bincount(hour, weights=down, minlength=24).var())
        if uneven < least:
            least = uneven
            best = [[int(first), int(length)] for first, length in zip(firsts, lengths, strict=True)]
    return best


def _hour_factors(parameters: CityParameters) -> FloatColumn:
    """The hour's weight in every step, mean 1 over a day: shape (steps,)."""
    return np.asarray(BY_HOUR[_local_hours(parameters)] / BY_HOUR.mean(), np.float64)


def _local_hours(parameters: CityParameters) -> npt.NDArray[np.int64]:
    """The local hour at the middle of every step, 0 .. 23."""
    middle_s = parameters.start_utc_s + (np.arange(parameters.steps) + 0.5) * parameters.step_s
    return ((middle_s / 3600.0 + parameters.utc_offset_h) % 24.0).astype(np.int64)


def _rates(parameters: CityParameters) -> FloatColumn:
    """Each device's mean chance per step, shape (devices,): evenly spread quantiles of a Weibull.

    The same for every seed: how much the busiest device is seen would otherwise hang on one draw.
    """
    even = (_FIRST + np.arange(parameters.devices) * _GOLDEN) % 1.0
    shape = parameters.seen_shape
    relative = (-np.log1p(-even)) ** (1.0 / shape) / gamma(1.0 + 1.0 / shape)
    per_step = parameters.seen_h_per_day / 24.0 * parameters.step_s / 3600.0
    return np.asarray(per_step * relative, np.float64)
