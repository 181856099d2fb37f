"""Between two runs the boards cool down: to a set temperature where one can be read, else for a set time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import psutil

from roambench.runner.places.table import fleet_of

#: Temperatures by board or sensor, in degrees Celsius; empty where none can be read.
Thermometer = Callable[[], Mapping[str, float]]

_LOOK_S: Final = 15.0
#: A bare Pi 3B+ cools from 60 to 45 °C in some minutes; one that has not in half an hour will not.
MOST_S: Final = 1800.0
PAUSE_S: Final = 120.0
#: As the drivers of processors call themselves: a Pi's, Intel's, AMD's.
_PROCESSORS: Final = ("cpu_thermal", "cpu-thermal", "coretemp", "k10temp", "zenpower")


@dataclass(frozen=True, slots=True)
class Cooling:
    """A wait between runs until boards are cool. `limit_c` None: only for `pause_s`."""

    limit_c: float | None = None
    pause_s: float = PAUSE_S
    most_s: float = MOST_S


@dataclass(frozen=True, slots=True)
class Cooled:
    """The wait for a run's start: `highest_c` is None where nothing can be read."""

    waited_s: float
    highest_c: float | None
    where: str
    note: str

    @property
    def reached(self) -> bool:
        """True if all boards came down to their temperature."""
        return not self.note


@dataclass(slots=True)
class Clock:
    """Time as it passes; a test brings its own."""

    now_s: Callable[[], float] = field(default=time.monotonic)
    sleep: Callable[[float], None] = field(default=time.sleep)


def cool_down(
    cooling: Cooling,
    thermometer: Thermometer,
    report: Callable[[str], None],
    clock: Clock | None = None,
) -> Cooled:
    """Wait until every board is at most as warm as asked. Where no temperature can be read, or none was
    asked for, wait for the pause and say so; a board that does not get there in time is named in the note."""
    clock = clock or Clock()
    began_s = clock.now_s()
    found = dict(thermometer())
    if cooling.limit_c is None or not found:
        where, highest = _highest(found)
        if cooling.pause_s > 0.0:
            report(f"pause of {cooling.pause_s:g} s" + ("" if found else ": no temperature can be read here"))
            clock.sleep(cooling.pause_s)
        note = ""
        if cooling.limit_c is not None:
            note = f"no temperature can be read: {cooling.pause_s:g} s of pause, not {cooling.limit_c:g} °C"
        return Cooled(clock.now_s() - began_s, highest, where, note)
    known = set(found)
    while True:
        where, highest = _highest(found)
        if found and (silent := sorted(known - found.keys())):  # it may be the warmest of all
            where, highest = silent[0], None
        if highest is not None and highest <= cooling.limit_c:
            return Cooled(clock.now_s() - began_s, highest, where, "")
        waited_s = clock.now_s() - began_s
        if waited_s >= cooling.most_s:
            stood = "no longer tells its temperature" if highest is None else f"stood at {highest:.1f} °C"
            note = f"{where or 'the bench'} {stood} after {waited_s:.0f} s, not at {cooling.limit_c:g} °C"
            return Cooled(waited_s, highest, where, note)
        if highest is not None:
            report(f"cooling down to {cooling.limit_c:g} °C: {where} is at {highest:.1f} °C")
        clock.sleep(min(_LOOK_S, cooling.most_s - waited_s))
        found = dict(thermometer())
        known |= found.keys()


def _highest(found: Mapping[str, float]) -> tuple[str, float | None]:
    if not found:
        return "", None
    where = max(found, key=lambda name: found[name])
    return where, found[where]


def thermometer_of(fleet: str) -> Thermometer | None:
    """Return where the temperatures of a fleet can be read; None for one whose energy is not measured: it
    need not cool. Boards of a bench are asked by their campaign, which knows who takes part."""
    return this_machine if fleet_of(fleet)[0].has_agents else None


def this_machine() -> Mapping[str, float]:
    """The warmest core of this machine; empty in a container that shows none."""
    try:
        sensors = psutil.sensors_temperatures()
    except (AttributeError, OSError, ValueError):  # a system that has no such thing, or a broken sensor
        return {}
    cores = [entry.current for name in _PROCESSORS for entry in sensors.get(name, ()) if entry.current]
    return {"this machine": max(cores)} if cores else {}
