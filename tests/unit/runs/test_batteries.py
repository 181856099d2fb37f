"""Batteries of virtual devices and of agents, step by step, beside sums by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from roambench.energy.energy_value import Energy
from roambench.experiment.battery_section import BatterySection
from roambench.rounds.records import BatteriesSeen
from roambench.runs.batteries import MeasuredBatteries, ModelledBatteries, RecordedBatteries
from roambench.runs.folder import RunFolder
from roambench.systems.system import SpentEnergy
from small_runs import simulated

pytestmark = pytest.mark.asyncio

#: 100 J; a device that is on and idle draws 2 W, 20 J in a step.
SECTION = BatterySection(
    capacity_wh=100.0 / 3600.0, start=0.9, cut_off=0.31, back_at=0.8, charging="at_access_point", charge_w=3.0
)
STEP_S = 10.0


class Given:
    """Gross joules and their seconds since the run began, as a test sets them."""

    def __init__(self) -> None:
        self.spent = {0: (0.0, 0.0), 1: (0.0, 0.0)}

    async def of(self, devices: Sequence[int]) -> Mapping[int, SpentEnergy]:
        return {
            device: SpentEnergy(Energy(joules=joules, covered_s=seconds))
            for device, (joules, seconds) in self.spent.items()
            if device in devices
        }


async def test_a_device_goes_off_at_its_cut_off_and_is_back_when_it_is_charged(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    energy = Given()
    with RunFolder.open(tmp_path / "run") as folder:
        batteries = ModelledBatteries(SECTION, energy, folder, STEP_S)
        seen = [await batteries.seen(0, ())]
        energy.spent = {0: (50.0, 5.0), 1: (0.0, 0.0)}  # device 0: 50 J in 5 s, and 5 s of 2 W
        seen.append(await batteries.seen(1, (0,)))
        seen.append(await batteries.seen(2, (0,)))  # off: 30 J in, nothing out
        seen.append(await batteries.seen(3, (0,)))
    assert [one.charges for one in seen] == [
        pytest.approx((0.9, 0.9)),
        pytest.approx((0.3, 0.7)),
        pytest.approx((0.6, 0.5)),
        pytest.approx((0.9, 0.3)),
    ]
    assert [one.off for one in seen] == [(), (0,), (0,), (1,)]
    assert [one.charging for one in seen] == [(), (0,), (0,), (0,)]
    assert (seen[1].spent_j, seen[1].worked_s) == ((50.0, 0.0), (5.0, 0.0))


@pytest.mark.parametrize(
    ("charging", "plugged"),
    [("never", ()), ("always", (0, 1)), ("at_access_point", (1,)), ("away", (0,)), ("hours", (0, 1))],
)
async def test_who_is_charged(tmp_path: Path, charging: str, plugged: tuple[int, ...]) -> None:
    simulated(tmp_path / "run")
    section = BatterySection(capacity_wh=1.0, charging=charging, charge_w=3.0, start_spread=0.5)  # type: ignore[arg-type]
    with RunFolder.open(tmp_path / "run") as folder:
        batteries = ModelledBatteries(section, Given(), folder, STEP_S)
        seen = await batteries.seen(0, (1,))
        again = await ModelledBatteries(section, Given(), folder, STEP_S).seen(0, (1,))
    assert seen == again  # what a device begins with is fixed by the seed
    assert seen.charging == plugged
    assert all(0.5 <= charge <= 1.0 for charge in seen.charges)


async def test_a_replay_has_the_batteries_of_its_log() -> None:
    record = BatteriesSeen(4, (0.5,), (1.0,), (2.0,), (), (0,))
    assert await RecordedBatteries([record]).seen(4, ()) is record


async def test_charging_by_the_clock_goes_over_midnight(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    hour_s, start_utc_s = 3600.0, 86_400 * 20_000 + 3600 * 20
    section = BatterySection(
        capacity_wh=100.0, charging="hours", charge_w=3.0, charge_from_h=22.0, charge_until_h=6.0
    )
    by_day = section.model_copy(update={"charge_from_h": 9.0, "charge_until_h": 11.0})
    with RunFolder.open(tmp_path / "run") as folder:
        night = ModelledBatteries(section, Given(), folder, hour_s, start_utc_s)
        day = ModelledBatteries(by_day, Given(), folder, hour_s, start_utc_s)
        charged = [[(await one.seen(step, ())).charging for step in range(24)] for one in (night, day)]
    assert [step for step, who in enumerate(charged[0]) if who == (0, 1)] == list(range(2, 10))
    assert [step for step, who in enumerate(charged[1]) if who] == [13, 14]


@pytest.mark.parametrize(("cut", "after"), [("power", 0.25), ("absent", 0.3)])
async def test_what_a_meter_saw_leaves_the_battery_of_a_board(tmp_path: Path, cut: str, after: float) -> None:
    """A step lasts as long as it did; joules that are drained late count late; a board that is absent only
    draws on, but not from its battery."""
    simulated(tmp_path / "run")
    section = SECTION.model_copy(update={"charging": "never", "cut": cut})
    energy, now_s = Given(), 0.0
    with RunFolder.open(tmp_path / "run") as folder:
        batteries = MeasuredBatteries(section, energy, folder, STEP_S, now_ns=lambda: round(now_s * 1e9))
        seen = [await batteries.seen(0, ())]
        energy.spent, now_s = {0: (60.0, 5.0), 1: (10.0, 5.0)}, 25.0
        seen.append(await batteries.seen(1, ()))
        energy.spent, now_s = {0: (65.0, 5.0), 1: (0.0, 0.0)}, 30.0  # the records of 1 are in doubt for once
        seen.append(await batteries.seen(2, ()))
    assert [one.charges for one in seen[:2]] == [pytest.approx((0.9, 0.9)), pytest.approx((0.3, 0.8))]
    assert seen[2].charges == pytest.approx((after, 0.8))
    assert seen[2].spent_j == (65.0, 10.0)
    assert [one.at_s for one in seen] == [0.0, 25.0, 30.0]
    assert seen[1].off == seen[2].off == (0,)


async def test_a_board_is_charged_for_as_long_as_a_step_lasted(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    now_s = 0.0
    section = SECTION.model_copy(update={"start": 0.5, "charging": "always"})
    with RunFolder.open(tmp_path / "run") as folder:
        batteries = MeasuredBatteries(section, Given(), folder, STEP_S, now_ns=lambda: round(now_s * 1e9))
        await batteries.seen(0, ())
        now_s = 4.0
        assert (await batteries.seen(1, ())).charges == pytest.approx((0.62, 0.62))
