"""The kernel's power sensors: folders as its drivers show them, read through the driver `hwmon`."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag
from roambench.meters.catalogue import open_meter, traits_at
from roambench.meters.chips import chip_traits
from roambench.meters.protocol import MeterItem
from roambench.meters.sources.hwmon import find, rails
from roambench.meters.traits import MeterDescription

INA226 = {
    "name": "ina226",
    "shunt_resistor": 10_000,
    "update_interval": 35,
    "in0_input": 6,
    "in1_input": 5102,
    "curr1_input": 640,
    "power1_input": 3_262_500,
}
#: As a Jetson's kernel has them: current and voltage, no power; a sum and shunt voltages beside.
INA3221 = {
    "name": "ina3221",
    "update_interval": 7,
    **{f"in{n}_label": name for n, name in enumerate(("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), 1)},
    **{f"in{n}_input": mv for n, mv in enumerate((5000, 4992, 5008), 1)},
    **{f"curr{n}_input": ma for n, ma in enumerate((1200, 400, 300), 1)},
    **{f"shunt{n}_resistor": 5000 for n in (1, 2, 3)},
    **{f"in{n}_input": mv for n, mv in enumerate((6, 2, 1), 4)},
    "curr4_input": 1900,
    "in7_label": "sum of shunt voltages",
    "in7_input": 9,
}
FAN = {"name": "pwmfan", "pwm1": 255}


def chip(root: Path, number: int, device: str, attributes: dict[str, object]) -> Path:
    """A chip's folder below `root`, as the kernel makes it."""
    place = root / f"hwmon{number}"
    (root / "devices" / device).mkdir(parents=True, exist_ok=True)
    place.mkdir()
    (place / "device").symlink_to(root / "devices" / device)
    for name, value in attributes.items():
        (place / name).write_text(f"{value}\n")
    return place


def heard(
    port: str, until: Callable[[list[MeterItem]], bool], act: Callable[[int], None] = lambda count: None
) -> list[MeterItem]:
    """What the meter says until enough is said; `act` is called with the number of items so far."""

    async def listen() -> list[MeterItem]:
        meter, items = open_meter("hwmon", port, DeviceClock()), list[MeterItem]()
        try:
            while not until(items):
                items.append(await asyncio.wait_for(anext(meter), 60))
                act(len(items))
        finally:
            await meter.aclose()
        return items

    return asyncio.run(listen())


def readings(items: list[MeterItem]) -> list[Reading]:
    return [item for item in items if isinstance(item, Reading)]


def events(items: list[MeterItem], kind: EventKind) -> list[AgentEvent]:
    return [item for item in items if isinstance(item, AgentEvent) and item.kind == kind]


def test_a_chip_is_found_by_name_by_address_and_a_rail_by_its_label(tmp_path: Path) -> None:
    chip(tmp_path, 0, "cpu_thermal", FAN)
    chip(tmp_path, 1, "1-0040", INA3221)
    chip(tmp_path, 2, "1-0041", INA226)
    assert [str(rail) for rail in rails(tmp_path)] == [
        "1-0040/VDD_IN",
        "1-0040/VDD_CPU_GPU_CV",
        "1-0040/VDD_SOC",
        "1-0041/1",
    ]
    for address in ("ina226", "1-0041", "1-0041/1", "ina226/1"):
        assert [rail.device for rail in find(address, tmp_path)] == ["1-0041"]
    for address in ("VDD_SOC", "ina3221/VDD_SOC", "1-0040/3"):
        assert [rail.number for rail in find(address, tmp_path)] == [3]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (
            "ina3221",
            "'ina3221' means 3 power sensors below .*; there are: ina3221 1-0040/VDD_IN, .*ina226 1-0041/1",
        ),
        ("VDD_GPU", "'VDD_GPU' means no power sensor"),
        ("ina226+1-0041", "'ina226.1-0041' names a sensor twice"),
        ("pwmfan", "'pwmfan' means no power sensor"),
    ],
)
def test_an_address_of_no_sensor_or_of_several_is_refused_with_what_there_is(
    tmp_path: Path, address: str, problem: str
) -> None:
    chip(tmp_path, 0, "cpu_thermal", FAN)
    chip(tmp_path, 1, "1-0040", INA3221)
    chip(tmp_path, 2, "1-0041", INA226)
    with pytest.raises(MeterError, match=problem):
        heard(f"{address}?root={tmp_path}", lambda items: False)


def test_power_is_the_chips_own_or_current_times_voltage_and_rails_add_up(tmp_path: Path) -> None:
    chip(tmp_path, 0, "1-0040", INA3221)
    chip(tmp_path, 1, "1-0041", INA226)
    expected = {
        "ina226": (5.102, 0.640, 3.2625),
        "VDD_IN": (5.0, 1.2, 6.0),
        "VDD_CPU_GPU_CV+VDD_SOC": (pytest.approx(float("nan"), nan_ok=True),) * 2 + (1.9968 + 1.5024,),
    }
    for address, values in expected.items():
        items = heard(f"{address}?root={tmp_path}", lambda items: bool(readings(items)))
        (reading,) = readings(items)
        assert (reading.volts, reading.amps, reading.watts) == pytest.approx(values, nan_ok=True)
        assert reading.flags == ReadingFlag.NONE


def test_a_value_that_the_chip_has_not_renewed_is_no_new_reading(tmp_path: Path) -> None:
    place = chip(tmp_path, 0, "1-0040", INA226 | {"update_interval": 60_000})

    def renew(count: int) -> None:
        if count == 3:  # described, ok, one reading
            (place / "draft").write_text("3300000\n")
            (place / "draft").replace(place / "power1_input")

    items = heard(f"ina226?root={tmp_path}&interval_ms=5", lambda items: len(readings(items)) == 2, renew)
    assert [reading.watts for reading in readings(items)] == [3.2625, 3.3]


def test_a_value_that_stays_counts_again_after_each_update_of_the_chip(tmp_path: Path) -> None:
    chip(tmp_path, 0, "1-0040", INA226)
    items = heard(f"ina226?root={tmp_path}&interval_ms=5", lambda items: len(readings(items)) == 4)
    stamps = [reading.monotonic_ns for reading in readings(items)]
    assert all(later - before >= 30_000_000 for before, later in itertools.pairwise(stamps))


def test_the_description_has_the_traits_of_this_chip_with_its_shunt(tmp_path: Path) -> None:
    chip(tmp_path, 0, "1-0040", INA226 | {"shunt_resistor": 100_000, "update_interval": 141})
    items = heard(f"ina226?root={tmp_path}&site=CPU rail&serial=A7", lambda items: bool(items))
    assert isinstance(items[0], AgentEvent)
    described = MeterDescription.from_event(items[0])
    assert (described.unit, described.site, described.serial) == ("ina226 1-0040/1", "CPU rail", "A7")
    assert 0.0 < described.look_cpu_s < 0.1
    assert described.settings == "shunt 100000 uohm, a value each 141 ms"
    assert described.nominal_s == described.row.nominal_s == pytest.approx(0.141)
    assert described.row.window_s == pytest.approx(0.141)
    assert described.row.step_w == pytest.approx(25 * 25e-6)  # 25 steps of 1 / (400,000 x 0.1 ohm) A
    assert 0.005 < described.row.u_gain < 0.007  # a shunt of 1 %, rectangular
    assert traits_at("hwmon", "ina226?interval_ms=50").nominal_s == 0.05


def test_another_shunt_than_the_kernels_is_named_before_anything_is_measured(tmp_path: Path) -> None:
    chip(tmp_path, 0, "1-0040", INA226)
    with pytest.raises(MeterError, match=r"shunt of 10000 uohm, the port says 100000: .* 10 times"):
        heard(f"ina226?root={tmp_path}&shunt_uohm=100000", lambda items: False)
    assert heard(f"ina226?root={tmp_path}&shunt_uohm=10000", bool)


def test_values_at_the_end_of_the_range_are_unusable_and_an_alarm_says_so_once(tmp_path: Path) -> None:
    chip(
        tmp_path,
        0,
        "1-0040",
        {"name": "ina219", "in0_input": 320, "in1_input": 4900}
        | {"curr1_input": 3200, "power1_input": 15_680_000, "shunt_resistor": 100_000},
    )
    items = heard(f"ina219?root={tmp_path}&interval_ms=5", lambda items: len(readings(items)) == 3)
    (alarm,) = events(items, EventKind.METER_ALARM)
    assert alarm.detail == "1-0040/1: the shunt's voltage is at the end of the chip's range"
    assert all(reading.flags & ReadingFlag.SATURATED for reading in readings(items))


def test_watts_that_are_not_volts_times_amperes_are_inconsistent(tmp_path: Path) -> None:
    chip(tmp_path, 0, "1-0040", INA226 | {"power1_input": 326_250})  # a driver that scales by another shunt
    (reading,) = readings(heard(f"ina226?root={tmp_path}", lambda items: bool(readings(items))))
    assert reading.flags == ReadingFlag.INCONSISTENT


def test_a_chip_that_is_slower_than_the_port_asks_says_so(tmp_path: Path) -> None:
    chip(tmp_path, 0, "1-0040", INA226 | {"update_interval": 141})
    asked = heard(f"ina226?root={tmp_path}&interval_ms=20", lambda items: bool(readings(items)))
    (slow,) = events(asked, EventKind.METER_ALARM)
    assert slow.detail == (
        "ina226 1-0040/1: new values come every 141 ms (update_interval), the port asks for 20 ms"
    )
    usual = heard(f"ina226?root={tmp_path}", lambda items: bool(readings(items)))
    assert not events(usual, EventKind.METER_ALARM)


def test_a_sensor_without_a_value_is_refused_with_its_name_and_why(tmp_path: Path) -> None:
    place = chip(tmp_path, 0, "1-0040", INA226)
    (place / "power1_input").write_text("lots\n")
    with pytest.raises(MeterError, match=r"1-0040/1: invalid literal .*lots"):
        heard(f"ina226?root={tmp_path}", lambda items: False)


def test_rails_of_one_sum_share_the_gain_and_add_their_offsets_in_squares(tmp_path: Path) -> None:
    chip(tmp_path, 0, "1-0040", INA3221)
    one, two = (
        MeterDescription.from_event(item).row
        for address in ("VDD_SOC", "VDD_CPU_GPU_CV+VDD_SOC")
        for item in heard(f"{address}?root={tmp_path}", bool)[:1]
        if isinstance(item, AgentEvent)
    )
    assert two.u_gain == one.u_gain
    assert two.u_offset_w == pytest.approx(2**0.5 * one.u_offset_w)
    assert two.step_w == pytest.approx(2**0.5 * one.step_w)


def disturbed(place: Path) -> None:
    place.symlink_to("/proc/self/mem")  # EIO at 0


def busy(place: Path) -> None:
    os.mkfifo(place)
    os.open(place, os.O_RDWR | os.O_NONBLOCK)  # a pipe that has a writer and is empty: EAGAIN


def unanswered(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(place))  # ENXIO when it is opened


def empty(place: Path) -> None:
    place.touch()


@pytest.mark.parametrize("fault", [disturbed, busy, unanswered, empty])
def test_a_look_that_fails_is_a_gap_and_a_chip_that_is_gone_is_lost_until_it_is_back(
    tmp_path: Path, fault: Callable[[Path], None]
) -> None:
    place = chip(tmp_path, 0, "1-0040", INA226 | {"update_interval": 0})
    fault(tmp_path / "fault")

    async def listen() -> list[MeterItem]:
        meter, items = (
            open_meter("hwmon", f"ina226?root={tmp_path}&interval_ms=20", DeviceClock()),
            list[MeterItem](),
        )
        try:
            while len(items) < 4:
                items.append(await asyncio.wait_for(anext(meter), 60))
            (tmp_path / "fault").replace(place / "power1_input")
            await asyncio.sleep(0.1)
            (place / "draft").write_text("3300000\n")
            (place / "draft").replace(place / "power1_input")
            while items[-1:] == [] or not (isinstance(items[-1], Reading) and items[-1].watts == 3.3):
                items.append(await asyncio.wait_for(anext(meter), 60))
            assert not events(items, EventKind.METER_LOST)
            shutil.rmtree(place)
            while not events(items, EventKind.METER_LOST):
                items.append(await asyncio.wait_for(anext(meter), 60))
            (tmp_path / "devices" / "1-0040").rmdir()
            chip(tmp_path, 3, "1-0040", INA226 | {"power1_input": 4_000_000})
            while not (isinstance(items[-1], Reading) and items[-1].watts == 4.0):
                items.append(await asyncio.wait_for(anext(meter), 60))
        finally:
            await meter.aclose()
        return items

    items = asyncio.run(listen())
    (lost,) = events(items, EventKind.METER_LOST)
    assert lost.detail == (
        "ina226 1-0040/1: the sensor is gone, its driver unbound or the chip off the bus "
        "(No such file or directory)"
    )


@pytest.mark.parametrize(
    ("chip", "limits", "step_w"),
    [
        ("ina219", (0.01, 0.01), 20 * 10e-6 / 0.01),  # over temperature, of grade A
        ("ina226", (0.00275, 0.00275, 7.5e-3 / 5.1), 25 * 2.5e-6 / 0.01),
        ("ina231", (0.00675, 0.00675, 30e-3 / 5.1), 25 * 2.5e-6 / 0.01),
        ("ina3221", (0.00425, 0.00425, 16e-3 / 5.1), 5.1 * 40e-6 / 0.01),
    ],
)
def test_a_chips_traits_are_the_limits_of_its_data_sheet(
    chip: str, limits: tuple[float, ...], step_w: float
) -> None:
    row = chip_traits(chip, 0.01, 0.1, power=chip != "ina3221")
    assert row.u_gain == pytest.approx(math.hypot(*limits, 0.01, 0.02) / math.sqrt(3))
    assert row.step_w == pytest.approx(step_w)
