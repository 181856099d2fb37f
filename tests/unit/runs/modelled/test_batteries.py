"""Batteries of virtual devices, step by step, beside sums by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from roambench.energy.energy_value import Energy
from roambench.experiment.battery_section import BatterySection
from roambench.rounds.records import BatteriesSeen
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.batteries import ModelledBatteries, RecordedBatteries
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


@pytest.mark.parametrize(("charging", "plugged"), [("never", ()), ("always", (0, 1))])
async def test_charging_is_for_all_or_none(tmp_path: Path, charging: str, plugged: tuple[int, ...]) -> None:
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
