"""The knobs of the synthetic city, and the setting that matches MOHAWK's published figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roambench.contract.errors import ConfigError


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
    places: int = 5000  # the paper has 37,994: more changes the map's look, not the figures
    box_m: float = 17_500.0
    presence: Literal["routine", "always"] = "routine"  # always: everyone at every step, still moving
    start_utc_s: int = 1_588_291_200  # 2020-05-01T00Z
    utc_offset_h: float = -5.0  # of the local hour that the rhythm follows

    # Where places are.
    hubs: int = 60  # clusters of places; their sizes fall with rank by `hub_zipf`
    hub_zipf: float = 0.8
    hub_reach_m: float = 3700.0  # standard deviation of the hubs around the middle, per axis
    hub_spread_m: float = 1000.0  # standard deviation of a hub's places around it, per axis
    scattered: float = 0.13  # share of the places strewn evenly over the box, in no hub
    scattered_pull: float = 9.0  # how much more popular a scattered place is than one in a hub
    place_zipf: float = 0.6  # popularity of the n-th most popular place: n ** -place_zipf

    # Where devices go.
    favourites: int = 6  # places of a device's routine; the n-th is visited with weight 1 / n
    near_home_m: float = 5000.0  # a place this far from home is 1/e as likely to become a favourite
    linger: float = 0.55  # chance of the same place as in the step before
    at_home: float = 0.15  # chance of being seen at home when choosing anew
    explore: float = 0.15  # chance of any place, by popularity alone, when choosing anew

    # When devices are seen (presence = "routine"). By day, the chances are:
    outings_per_day: float = 0.767  # mean rate at which a device that is away appears, per 24 h of daytime
    outing_tail: float = 1.4  # Pareto exponent of the rate over the devices (smaller: more unequal)
    stay: float = 0.384  # seen now -> seen in the next step
    pause: float = 0.358  # seen now -> still out, but not seen
    resume: float = 0.425  # out, not seen -> seen again
    keep_pausing: float = 0.383  # out, not seen -> still so

    # The day's rhythm, a factor of all these chances: 0 asleep .. 1 awake.
    rises_h: float = 6.0  # local hour at which half the city is up
    settles_h: float = 26.0  # ... and at which half of it is home again (past midnight: more than 24)
    ramp_h: float = 0.4  # how gradual both are

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)}, expected at least 1"
            for name in ("devices", "steps", "aps", "places", "hubs", "favourites")
            if getattr(self, name) < 1
        ]
        problems += [
            f"{name} is {getattr(self, name)}, expected more than 0"
            for name in ("step_s", "box_m", "near_home_m", "ramp_h")
            if not getattr(self, name) > 0
        ]
        shares = ("scattered", "linger", "at_home", "explore", "stay", "pause", "resume", "keep_pausing")
        problems += [
            f"{name} is {getattr(self, name)}, expected 0 to 1"
            for name in shares
            if not 0 <= getattr(self, name) <= 1
        ]
        problems += [
            f"{name} is {getattr(self, name)}, expected 0 or more"
            for name in (
                "hub_zipf",
                "hub_reach_m",
                "hub_spread_m",
                "place_zipf",
                "outings_per_day",
                "scattered_pull",
            )
            if not getattr(self, name) >= 0
        ]
        for first, second in (("at_home", "explore"), ("stay", "pause"), ("resume", "keep_pausing")):
            if getattr(self, first) + getattr(self, second) > 1:
                problems.append(f"{first} + {second} is more than 1")
        if not self.outing_tail > 1:
            problems.append(f"outing_tail is {self.outing_tail}, expected more than 1")
        if self.presence not in ("routine", "always"):
            problems.append(f"presence is {self.presence!r}, expected routine or always")
        if self.aps > self.places:
            problems.append(f"aps is {self.aps}, but there are only {self.places} places to draw them from")
        if problems:
            raise ConfigError(problems)
