"""The kernel's own driver of a chip that i2c-stub plays.

`sudo .venv/bin/pytest -m hardware tests/unit/meters` wants the modules i2c-stub and ina2xx, and i2c-tools.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag
from roambench.meters.catalogue import open_meter
from roambench.meters.sources.hwmon import ROOT
from roambench.meters.traits import MeterDescription

pytestmark = [pytest.mark.hardware, pytest.mark.timeout(120)]
ADDRESS = 0x40
#: Registers by the data sheets: voltage of the shunt, of the bus, power, current.
SHUNT, BUS, POWER, CURRENT = 1, 2, 3, 4


class Stub:
    """The bus of i2c-stub, with one chip's registers."""

    def __init__(self) -> None:
        for words in (["i2c-dev"], ["i2c-stub", f"chip_addr={ADDRESS}"], ["ina2xx"]):
            tool = shutil.which("modprobe", path="/usr/sbin:/sbin")
            loaded = tool and subprocess.run([tool, *words], capture_output=True, text=True, check=False)
            if not loaded or loaded.returncode:
                pytest.skip(f"modprobe {words[0]}: {loaded.stderr.strip() if loaded else 'not installed'}")
        (self.place,) = (
            place
            for place in Path("/sys/bus/i2c/devices").glob("i2c-*")
            if (place / "name").read_text().startswith("SMBus stub")
        )
        self.bus = self.place.name.removeprefix("i2c-")
        self.device = f"{self.bus}-{ADDRESS:04x}"

    def set(self, register: int, value: int) -> None:
        """A register's value; the chips send their high byte first."""
        swapped = int.from_bytes(value.to_bytes(2), "little")
        tool = shutil.which("i2cset", path="/usr/sbin:/usr/bin")
        if tool is None:
            pytest.skip("i2c-tools are not installed")
        words = [tool, "-f", "-y", self.bus, hex(ADDRESS), hex(register), hex(swapped), "w"]
        subprocess.run(words, check=True)

    def bind(self, chip: str) -> None:
        """The kernel's driver finds the chip."""
        (self.place / "new_device").write_text(f"{chip} {ADDRESS:#x}\n")

    def unbind(self) -> None:
        """It is gone."""
        (self.place / "delete_device").write_text(f"{ADDRESS:#x}\n")

    def write(self, name: str, value: int) -> None:
        """One of the driver's attributes."""
        (place,) = Path(f"/sys/bus/i2c/devices/{self.device}/hwmon").iterdir()
        (place / name).write_text(str(value))


@pytest.fixture
def stub() -> Iterator[Stub]:
    stub = Stub()
    yield stub
    if (stub.place / stub.device).exists():
        stub.unbind()
    subprocess.run(["/sbin/modprobe", "-r", "i2c-stub"], check=True)


def test_an_ina226_is_read_set_lost_and_found_again(stub: Stub) -> None:
    for register, value in ((SHUNT, 2560), (BUS, 4080), (POWER, 522), (CURRENT, 2560)):
        stub.set(register, value)  # 6.4 mV, 5.1 V, 3.2625 W, 640 mA behind 10 mOhm
    stub.bind("ina226")
    stub.write("update_interval", 35)

    async def listen() -> None:
        meter = open_meter("hwmon", f"{stub.device}?shunt_uohm=10000&interval_ms=20", DeviceClock())
        try:
            async with asyncio.timeout(60):
                described = await anext(meter)
                assert isinstance(described, AgentEvent)
                found = MeterDescription.from_event(described)
                assert found.unit == f"ina226 {stub.device}/1"
                assert found.settings.startswith("shunt 10000 uohm, a value each 3")
                seen = list[float]()
                async for item in meter:
                    if isinstance(item, Reading):
                        assert (item.volts, item.amps) == (5.1, 0.64)
                        assert item.flags == ReadingFlag.NONE
                        seen.append(item.watts)
                        if len(seen) == 3:
                            assert seen == [3.2625] * 3
                            stub.unbind()
                    if isinstance(item, AgentEvent) and item.kind == EventKind.METER_LOST:
                        assert "the sensor is gone" in item.detail
                        stub.bind("ina226")
                    if len(seen) > 5:
                        break
        finally:
            await meter.aclose()

    asyncio.run(listen())
    stub.write("shunt_resistor", 100_000)
    with pytest.raises(MeterError, match="a shunt of 100000 uohm, the port says 10000"):
        asyncio.run(open_meter("hwmon", f"{stub.device}?shunt_uohm=10000", DeviceClock()).open())


def test_an_ina219_at_its_ranges_end_is_saturated(stub: Stub) -> None:
    for register, value in ((SHUNT, 32_000), (BUS, 1225 << 3), (POWER, 784), (CURRENT, 3200)):
        stub.set(register, value)  # 320 mV, 4.9 V, and 3.2 A behind 100 mOhm
    stub.bind("ina219")
    stub.write("shunt_resistor", 100_000)

    async def listen() -> Reading:
        meter = open_meter("hwmon", f"ina219?root={ROOT}", DeviceClock())
        try:
            async with asyncio.timeout(60):
                async for item in meter:
                    if isinstance(item, Reading):
                        return item
            raise AssertionError
        finally:
            await meter.aclose()

    assert asyncio.run(listen()).flags & ReadingFlag.SATURATED
