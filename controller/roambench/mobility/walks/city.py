"""A synthetic city: people with homes and routines among clustered places, seen by day, hardly at night.

Marked synthetic in its provenance. A device is away, out and seen, or out and unseen; the chances of
passing from one to the other follow the hour of the day; or it is seen wherever it checks in
(`city_checkins`). Seen, it is at a place (or at home), and tends to be there still in the next step.
Every draw is keyed by (seed, purpose, step); a device's draws are the row of its number, so more devices
do not change what the first ones do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.mobility.selection import ap_names, busiest_devices, draw_places, ranking_by
from roambench.mobility.trace import FloatColumn, Trace
from roambench.mobility.walks.city_checkins import checkin_presence, drawn_outages
from roambench.mobility.walks.city_parameters import CITY_PRESETS, CityParameters
from roambench.mobility.walks.generator import Generator

_AWAY, _SEEN, _UNSEEN = 0, 1, 2
_HOME: Final = -1  # stands for the device's home where places are meant by index
_DAY_H: Final = 24.0
_GOLDEN: Final = (5**0.5 - 1) / 2
_MOST_OUTINGS: Final = 60.0  # the busiest device goes out this many times as often as the laziest
_DECIMALS: Final = 2  # positions are whole centimetres: the last bit of another CPU's log() does not show
_MOST_TURNS: Final = 64
_CANDIDATES: Final = 32  # places offered at once to every device that still looks for favourites

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Map:
    """Places with their popularity, shape (places,), summing to 1."""

    x_m: FloatColumn
    y_m: FloatColumn
    popularity: FloatColumn


@dataclass(frozen=True, eq=False)
class _People:
    """Homes, shape (devices,); favourite places, shape (devices, favourites); outing rates per step."""

    home_x_m: FloatColumn
    home_y_m: FloatColumn
    favourites: Indices
    outing_rate: FloatColumn


def city(parameters: CityParameters, seed: int, steps: range | None = None) -> Trace:
    """The city of `seed`, with `steps` the fixes of these alone. A device's index is its rank by steps
    present, as MOHAWK ranks; its name tells the number it was drawn with. Raises ConfigError for impossible
    parameters.
    """
    places = _map(parameters, seed)
    people = _people(parameters, places, seed)
    fixes = _live(parameters, places, people, seed, range(parameters.steps) if steps is None else steps)
    chosen = draw_places(parameters.places, parameters.aps, seed)
    trace = Trace(
        steps=parameters.steps,
        step_s=float(parameters.step_s),
        start_utc_s=parameters.start_utc_s,
        device_names=tuple(f"d{number:04d}" for number in range(parameters.devices)),
        step=fixes.step,
        device=fixes.device,
        x_m=fixes.x_m,
        y_m=fixes.y_m,
        ap_names=ap_names(parameters.aps),
        ap_x_m=places.x_m[chosen],
        ap_y_m=places.y_m[chosen],
        place_x_m=places.x_m,
        place_y_m=places.y_m,
        provenance={
            "made_by": "generator city (synthetic)",
            "seed": seed,
            "recipe": asdict(parameters),
            "utc_offset_h": parameters.utc_offset_h,
            **({"outages": drawn_outages(parameters, seed)} if parameters.outages else {}),
        },
    )
    return busiest_devices(trace, parameters.devices, fixes.ranking)


CITY: Final = Generator(
    "city",
    "synthetic city: hubs, homes, routines, day and night; presets mohawk (its paper's trace) and checkins",
    CityParameters,
    city,
    CITY_PRESETS,
    city,
)


def awake(parameters: CityParameters) -> FloatColumn:
    """The day's rhythm at the middle of every step: 0 asleep .. 1 awake, shape (steps,)."""
    middle_s = parameters.start_utc_s + (np.arange(parameters.steps) + 0.5) * parameters.step_s
    hour = (middle_s / 3600.0 + parameters.utc_offset_h) % _DAY_H
    turn = (parameters.rises_h + parameters.settles_h - _DAY_H) / 2  # the deepest hour of the night
    hour = (hour - turn) % _DAY_H + turn
    rise = 1.0 / (1.0 + np.exp((parameters.rises_h - hour) / parameters.ramp_h))
    settle = 1.0 / (1.0 + np.exp((hour - parameters.settles_h) / parameters.ramp_h))
    return np.asarray(rise * settle, np.float64)


def _map(parameters: CityParameters, seed: int) -> _Map:
    draw = generator(seed, "city map")
    middle_m, count = parameters.box_m / 2, parameters.places
    hubs_m = middle_m + parameters.hub_reach_m * draw.standard_normal((parameters.hubs, 2))
    sizes = np.arange(1, parameters.hubs + 1) ** -parameters.hub_zipf
    hub = draw.choice(parameters.hubs, count, p=sizes / sizes.sum())
    clustered_m = hubs_m[hub] + parameters.hub_spread_m * draw.standard_normal((count, 2))
    strewn_m = draw.uniform(0.0, parameters.box_m, (count, 2))
    outside = ((clustered_m < 0.0) | (clustered_m > parameters.box_m)).any(axis=1)
    alone = (draw.random(count) < parameters.scattered) | outside
    points_m: FloatColumn = np.where(alone[:, None], strewn_m, clustered_m).round(_DECIMALS)
    rank = draw.permutation(count) + 1
    popularity = rank**-parameters.place_zipf * np.where(alone, parameters.scattered_pull, 1.0)
    return _Map(points_m[:, 0], points_m[:, 1], popularity / popularity.sum())


def _people(parameters: CityParameters, places: _Map, seed: int) -> _People:
    count = parameters.devices
    draws = generator(seed, "city homes").random((count, 3))
    near = np.minimum((draws[:, 0] * parameters.places).astype(np.int64), parameters.places - 1)
    # Homes are a few streets from a place, visited or not.
    home_x_m = np.clip(places.x_m[near] + 600.0 * (draws[:, 1] - 0.5), 0.0, parameters.box_m)
    home_y_m = np.clip(places.y_m[near] + 600.0 * (draws[:, 2] - 0.5), 0.0, parameters.box_m)
    home_x_m, home_y_m = np.round(home_x_m, _DECIMALS), np.round(home_y_m, _DECIMALS)
    favourites = _favourites(parameters, places, home_x_m, home_y_m, seed)
    # Multiples of the golden ratio fill 0..1 evenly however many are taken: the city's mean rate does not
    # hang on a few lucky draws (independent draws moved the mean presence by +-7 % between seeds).
    even = (generator(seed, "city rates").random() + np.arange(count) * _GOLDEN) % 1.0
    tail = parameters.outing_tail
    rates = np.minimum((1.0 - even) ** (-1.0 / tail), _MOST_OUTINGS) * (tail - 1.0) / tail
    per_step = parameters.outings_per_day / 86_400.0 * parameters.step_s
    return _People(home_x_m, home_y_m, favourites, per_step * rates)


def _favourites(
    parameters: CityParameters, places: _Map, home_x_m: FloatColumn, home_y_m: FloatColumn, seed: int
) -> Indices:
    """Places drawn by popularity * exp(-distance from home / near_home_m): shape (devices, favourites).

    By rejection: places offered by popularity are accepted by distance, so the cost does not grow with the
    number of places. Of the last round everything is accepted, lest a home at the end of the world loops.
    """
    count, wanted = len(home_x_m), parameters.favourites
    popular = np.cumsum(places.popularity)
    favourites = np.zeros((count, wanted), np.int64)
    found = np.zeros(count, np.int64)
    for turn in range(_MOST_TURNS):
        draws = generator(seed, "city favourites", step=turn).random((count, _CANDIDATES, 2))
        looking = np.flatnonzero(found < wanted)
        if not len(looking):
            break
        offered = np.minimum(np.searchsorted(popular, draws[looking, :, 0], side="right"), len(popular) - 1)
        apart_m = np.hypot(
            home_x_m[looking, None] - places.x_m[offered], home_y_m[looking, None] - places.y_m[offered]
        )
        accepted = draws[looking, :, 1] < np.exp(-apart_m / parameters.near_home_m)
        accepted |= turn == _MOST_TURNS - 1
        # Which favourite an accepted one becomes.
        rank = found[looking, None] + np.cumsum(accepted, axis=1) - 1
        row, column = np.nonzero(accepted & (rank < wanted))
        favourites[looking[row], rank[row, column]] = offered[row, column]
        found[looking] = np.minimum(found[looking] + accepted.sum(axis=1), wanted)
    return favourites


@dataclass(frozen=True, eq=False)
class _Fixes:
    step: npt.NDArray[np.int32]
    device: npt.NDArray[np.int32]
    x_m: FloatColumn
    y_m: FloatColumn
    ranking: Indices  # by all steps


def _live(parameters: CityParameters, places: _Map, people: _People, seed: int, steps: range) -> _Fixes:
    """Walk the city through all its steps, and keep the fixes of `steps`."""
    count = parameters.devices
    state = np.full(count, _AWAY)
    place = np.full(count, _HOME, np.int64)
    popular = np.cumsum(places.popularity)
    routine = np.cumsum(1.0 / np.arange(1, parameters.favourites + 1))
    routine /= routine[-1]
    hours, first = np.zeros(count, np.int64), np.full(count, parameters.steps)
    kept: list[int] = []
    devices, xs_m, ys_m = [np.empty(0, np.int32)], [np.empty(0)], [np.empty(0)]
    checkins = checkin_presence(parameters, seed) if parameters.presence == "checkins" else None
    for step, rhythm in enumerate(awake(parameters)):
        draws = generator(seed, "city step", step=step).random((count, 4))
        before = state
        if checkins is not None:
            state = np.where(checkins[step], _SEEN, _AWAY)
            asleep = np.zeros(count, np.bool_)
        elif parameters.presence == "always":
            state = np.full(count, _SEEN)
            asleep = draws[:, 0] >= rhythm
        else:
            state = _next_state(parameters, state, people.outing_rate, float(rhythm), draws[:, 0])
            asleep = np.zeros(count, np.bool_)
        chosen = _choose(parameters, people, popular, routine, draws)
        stays = (before == _SEEN) & (draws[:, 1] < parameters.linger)
        seen = state == _SEEN
        place = np.where(seen, np.where(asleep, _HOME, np.where(stays, place, chosen)), place)
        present = np.flatnonzero(seen)
        hours[present] += 1
        first[present] = np.minimum(first[present], step)
        if step not in steps:
            continue
        kept.append(step)
        at = place[present]
        devices.append(present.astype(np.int32))
        xs_m.append(np.where(at == _HOME, people.home_x_m[present], places.x_m[at]))
        ys_m.append(np.where(at == _HOME, people.home_y_m[present], places.y_m[at]))
    of_step = np.repeat(np.array(kept, np.int32), [len(part) for part in devices[1:]])
    x_m, y_m = np.concatenate(xs_m), np.concatenate(ys_m)
    return _Fixes(of_step, np.concatenate(devices), x_m, y_m, ranking_by(hours, first))


def _next_state(
    parameters: CityParameters, state: Indices, outing_rate: FloatColumn, rhythm: float, draw: FloatColumn
) -> Indices:
    """Away, seen or unseen in the next step; all chances but that of going home shrink with the rhythm."""
    p_seen = np.select(
        [state == _SEEN, state == _UNSEEN],
        [parameters.stay * rhythm, parameters.resume * rhythm],
        1.0 - np.exp(-outing_rate * rhythm),
    )
    p_unseen = np.select(
        [state == _SEEN, state == _UNSEEN], [parameters.pause * rhythm, parameters.keep_pausing * rhythm], 0.0
    )
    return np.where(draw < p_seen, _SEEN, np.where(draw < p_seen + p_unseen, _UNSEEN, _AWAY))


def _choose(
    parameters: CityParameters,
    people: _People,
    popular: FloatColumn,
    routine: FloatColumn,
    draws: FloatColumn,
) -> Indices:
    """Destinations of all devices if they chose again: home, anywhere popular, or a favourite."""
    kind, which = draws[:, 2], draws[:, 3]
    anywhere = np.minimum(np.searchsorted(popular, which, side="right"), len(popular) - 1)
    favourite = people.favourites[
        np.arange(len(which)), np.minimum(np.searchsorted(routine, which, side="right"), len(routine) - 1)
    ]
    chosen = np.where(kind < parameters.at_home + parameters.explore, anywhere, favourite)
    return np.where(kind < parameters.at_home, _HOME, chosen).astype(np.int64)
