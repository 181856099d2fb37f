"""Cooling down between two runs, in made-up time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from roambench.study.campaign.cooling import (
    Clock,
    Cooled,
    Cooling,
    cool_down,
    thermometer_of,
    this_machine,
)


@dataclass
class Room:
    """Boards that cool with time; `slept` is all that was waited for."""

    boards: Mapping[str, Callable[[float], float]]
    slept: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def now_s(self) -> float:
        return sum(self.slept)

    def thermometer(self) -> Mapping[str, float]:
        return {name: at(self.now_s()) for name, at in self.boards.items()}

    def cool(self, cooling: Cooling) -> Cooled:
        return cool_down(cooling, self.thermometer, self.told.append, Clock(self.now_s, self.slept.append))


def test_the_warmest_board_is_waited_for() -> None:
    room = Room({"pi-01": lambda s: 40.0, "pi-02": lambda s: 60.0 - 0.2 * s})
    # 60, 57, 54, 51, 48, 45 °C at 0, 15, 30, 45, 60, 75 s.
    assert room.cool(Cooling(45.0)) == Cooled(75.0, 45.0, "pi-02", "")
    assert room.told[0] == "cooling down to 45 °C: pi-02 is at 60.0 °C"
    assert len(room.told) == 5


def test_cool_boards_are_not_waited_for() -> None:
    room = Room({"pi-01": lambda s: 45.0})
    cooled = room.cool(Cooling(45.0))
    assert (cooled.waited_s, cooled.reached, room.slept) == (0.0, True, [])


def test_a_board_that_stays_warm_is_told_and_not_waited_for_for_ever() -> None:
    room = Room({"pi-01": lambda s: 52.0})
    cooled = room.cool(Cooling(45.0, most_s=40.0))
    assert cooled == Cooled(40.0, 52.0, "pi-01", "pi-01 stood at 52.0 °C after 40 s, not at 45 °C")
    assert room.slept == [15.0, 15.0, 10.0]


def test_where_no_temperature_can_be_read_a_pause_is_taken_and_said() -> None:
    room = Room({})
    cooled = room.cool(Cooling(45.0, pause_s=90.0))
    assert cooled == Cooled(90.0, None, "", "no temperature can be read: 90 s of pause, not 45 °C")
    assert room.told == ["pause of 90 s: no temperature can be read here"]


def test_while_one_of_several_boards_is_silent_the_others_do_not_speak_for_it() -> None:
    room = Room({})
    said = iter([{"pi-01": 40.0, "pi-02": 60.0}, {"pi-01": 40.0}, {"pi-01": 40.0, "pi-02": 44.0}])
    clock = Clock(room.now_s, room.slept.append)
    assert cool_down(Cooling(45.0), lambda: next(said), room.told.append, clock) == Cooled(
        30.0, 44.0, "pi-02", ""
    )


def test_without_a_limit_the_pause_is_what_was_asked_for() -> None:
    room = Room({"pi-01": lambda s: 58.0})
    assert room.cool(Cooling(pause_s=30.0)) == Cooled(30.0, 58.0, "pi-01", "")
    assert Room({}).cool(Cooling(pause_s=0.0)) == Cooled(0.0, None, "", "")


def test_a_board_that_falls_silent_while_it_cools_does_not_pass_for_cool() -> None:
    room = Room({"pi-01": lambda s: 60.0})
    gone = iter([{"pi-01": 60.0}, {}, {}])
    cooled = cool_down(
        Cooling(45.0, most_s=20.0), lambda: next(gone), room.told.append, Clock(room.now_s, room.slept.append)
    )
    assert cooled.note == "the bench no longer tells its temperature after 20 s, not at 45 °C"


@pytest.mark.parametrize("fleet", ["simulated", "rehearsal"])
def test_virtual_devices_need_not_cool(fleet: str) -> None:
    assert thermometer_of(fleet) is None


def test_this_machine_tells_a_temperature_or_none() -> None:
    assert thermometer_of("local") is this_machine
    assert all(0.0 < celsius < 150.0 for celsius in this_machine().values())
