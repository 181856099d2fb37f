"""The knobs of the synthetic city, and the settings that match MOHAWK's published figures and New York's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from roambench.mobility.walks.walkers import refuse


@dataclass(frozen=True, slots=True)
class CityParameters:
    """A synthetic city. The defaults are the preset `mohawk`: they give the figures of MOHAWK's §3.1, §4.1
    and Table 5 (Austin, May 2020) within the tolerances that `tests/unit/mobility/test_city.py` states.

    Probabilities are per step and were fitted for steps of an hour. Nothing here was taken from people.
    """

    devices: int = 1000
    steps: int = 744
    step_s: float = 3600.0
    aps: int = 100
    places: int = 37_994
    box_m: float = 17_500.0
    presence: Literal["routine", "checkins", "always"] = "routine"  # always: at every step, still moving
    start_utc_s: int = 1_588_291_200  # 2020-05-01T00Z
    utc_offset_h: float = -5.0  # of the local hour that the rhythm follows

    # Where places are.
    hubs: int = 60  # clusters of places; their sizes fall with rank by `hub_zipf`
    hub_zipf: float = 0.8
    hub_reach_m: float = 3900.0  # standard deviation of the hubs around the middle, per axis
    hub_spread_m: float = 1000.0  # standard deviation of a hub's places around it, per axis
    scattered: float = 0.13  # share of the places strewn evenly over the box, in no hub
    scattered_pull: float = 9.0  # how much more popular a scattered place is than one in a hub
    place_zipf: float = 0.6  # popularity of the n-th most popular place: n ** -place_zipf

    # Where devices go.
    favourites: int = 6  # places of a device's routine; the n-th is visited with weight 1 / n
    near_home_m: float = 5000.0  # a place this far from home is 1/e as likely to become a favourite
    linger: float = 0.55  # chance of the same place as in the step before
    at_home: float = 0.15  # chance of being seen at home when choosing again
    explore: float = 0.15  # chance of any place, by popularity alone, when choosing again

    # When devices are seen (presence = "routine"). By day, the chances are:
    outings_per_day: float = 0.767  # mean rate at which a device that is away appears, per 24 h of daytime
    outing_tail: float = 1.4  # Pareto exponent of the rate over the devices (smaller: more unequal)
    stay: float = 0.384  # seen now -> seen in the next step
    pause: float = 0.358  # seen now -> still out, but not seen
    resume: float = 0.425  # out, not seen -> seen again
    keep_pausing: float = 0.383  # out, not seen -> still so

    # When devices are seen (presence = "checkins"): independent of where they were, by hour and device.
    seen_h_per_day: float = 0.82  # hours of a day in which a device is seen, mean over devices, no outage
    seen_shape: float = 1.08  # Weibull shape of that rate over the devices (smaller: more unequal)
    again: float = 0.0  # chance that a device seen now checks in once more in the next step
    outages: int = 0  # runs of steps in which the collector saw no device at all
    outage_steps: int = 0  # ... their steps together

    # The day's rhythm, a factor of all these chances: 0 asleep .. 1 awake.
    rises_h: float = 6.0  # local hour at which half the city is up
    settles_h: float = 26.0  # ... and at which half of it is home again (past midnight: more than 24)
    ramp_h: float = 0.4  # how gradual both are

    def __post_init__(self) -> None:
        problems = list[str]()
        for first, second in (("at_home", "explore"), ("stay", "pause"), ("resume", "keep_pausing")):
            if getattr(self, first) + getattr(self, second) > 1:
                problems.append(f"{first} + {second} is more than 1")
        if not self.outing_tail > 1:
            problems.append(f"outing_tail is {self.outing_tail}, expected more than 1")
        if self.presence not in ("routine", "checkins", "always"):
            problems.append(f"presence is {self.presence!r}, expected routine, checkins or always")
        if (
            not self.outages
            <= self.outage_steps
            <= max(0, self.steps - self.outages - 1) + (not self.outages)
        ):
            problems.append(
                f"outage_steps is {self.outage_steps}, expected at least one for each of {self.outages} "
                f"outages and, with a step between them, less than the {self.steps} steps"
            )
        if self.outages and self.presence != "checkins":
            problems.append(f'outages belong to presence "checkins", not to {self.presence!r}')
        if self.aps > self.places:
            problems.append(f"aps is {self.aps}, but there are only {self.places} places to draw them from")
        refuse(
            self,
            at_least_one=("devices", "steps", "aps", "places", "hubs", "favourites"),
            positive=("step_s", "box_m", "near_home_m", "ramp_h", "seen_shape"),
            not_negative=(
                *("hub_zipf", "hub_reach_m", "hub_spread_m", "place_zipf", "outings_per_day"),
                *("scattered_pull", "seen_h_per_day", "outages"),
            ),
            shares=(
                *("scattered", "linger", "at_home", "explore"),
                *("stay", "pause", "resume", "keep_pausing", "again"),
            ),
            problems=tuple(problems),
        )


#: What each preset changes of the defaults. `checkins`: the hourly presence, distances and changes of access
#: point of Foursquare check-ins in a 17.5 km box of New York (744 h from 2012-04-17T00Z), outages included.
CITY_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "mohawk": {},
    "checkins": {
        "devices": 882,
        "places": 3327,
        "presence": "checkins",
        "start_utc_s": 1_334_620_800,  # 2012-04-17T00Z
        "utc_offset_h": -4.0,
        "hub_zipf": 0.4,
        "hub_reach_m": 2500.0,
        "hub_spread_m": 250.0,
        "scattered": 0.14,
        "scattered_pull": 2.0,
        "place_zipf": 0.4,
        "favourites": 4,
        "near_home_m": 3500.0,
        "at_home": 0.1,
        "explore": 0.1,
        "again": 0.05,
        "seen_h_per_day": 0.83,
        "outages": 15,
        "outage_steps": 149,
    },
}
