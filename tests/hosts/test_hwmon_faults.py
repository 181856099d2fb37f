"""A sensor whose reads fail as its driver's do: EAGAIN, no answer on the bus, half a number, no device."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.lab.needed import need_tools
from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading
from roambench.meters.catalogue import open_meter
from roambench.meters.protocol import Meter

ATTRIBUTES = {
    "name": "ina226",
    "shunt_resistor": 10_000,
    "update_interval": 0,
    "in0_input": 6,
    "in1_input": 5100,
    "curr1_input": 640,
    "power1_input": 3_264_000,
}


class Chip:
    """A chip below `root`; its attributes lie in `folder`."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        (folder / "hwmon0").mkdir(parents=True)
        for name, value in ATTRIBUTES.items():
            (folder / "hwmon0" / name).write_text(f"{value}\n")

    def fail(self, *faults: str) -> None:
        """The next reads give these faults."""
        (self.folder / "draft").write_text("\n".join(faults))
        (self.folder / "draft").replace(self.folder / "faults")

    def is_past(self) -> bool:
        """True once all of them were given."""
        return not (self.folder / "faults").exists()


@pytest.fixture
def chip(tmp_path: Path) -> Iterator[Chip]:
    need_tools()
    (tmp_path / "sys").mkdir()
    chip = Chip(tmp_path / "chip", tmp_path / "sys")
    # Not imported: that wants libfuse, which only hosts' tests have.
    program = Path(__file__).with_name("fuse_sysfs.py")
    words = [sys.executable, str(program), str(chip.folder), str(chip.root)]
    mounted = subprocess.Popen(words)
    try:
        while not os.path.ismount(chip.root):
            assert mounted.poll() is None
            time.sleep(0.05)
        yield chip
    finally:
        subprocess.run(["umount", str(chip.root)], check=True)
        mounted.wait(60)


async def fail(chip: Chip, meter: Meter, *faults: str) -> list[AgentEvent]:
    """Events from the faults to the first reading after them, which is as exact as any other."""
    chip.fail(*faults)
    found = list[AgentEvent]()
    async for item in meter:
        if isinstance(item, AgentEvent):
            found.append(item)
        elif chip.is_past():
            break
        assert not isinstance(item, Reading) or item.watts == 3.264
    return found


def test_a_read_that_fails_is_a_gap_and_a_device_that_is_gone_is_lost_until_it_is_back(chip: Chip) -> None:
    async def run() -> None:
        meter = open_meter("hwmon", f"ina226?root={chip.root}&interval_ms=10", DeviceClock())
        try:
            async with asyncio.timeout(120):
                async for item in meter:
                    if isinstance(item, Reading):
                        break
                for passing in ("EAGAIN", "EIO", "EREMOTEIO", "ETIMEDOUT", "ENXIO", "ENODATA"):
                    assert not await fail(chip, meter, *[passing] * 5)
                assert not await fail(chip, meter, "2", "1", "3")  # bytes of a number
                assert not await fail(chip, meter, "0", "0")  # no number at all
                for faults, why in (
                    (["ENODEV"], "is gone, its driver unbound or the chip off the bus (No such device)"),
                    (["ETIMEDOUT"] * 20, "Connection timed out"),
                ):
                    told = await fail(chip, meter, *faults)
                    assert [event.kind for event in told][:1] == [EventKind.METER_LOST]
                    assert told[0].detail.endswith(why)
                    assert told[-1].kind == EventKind.METER_OK
        finally:
            await meter.aclose()

    asyncio.run(run())
