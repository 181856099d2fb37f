"""Meters that the controller reads for a run: what fails is said, and fails for one board alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from odd_meters import odd_meters
from roambench.agent.settings import MeterSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.records import RecordKind
from roambench.experiment.sections import Experiment
from roambench.runner.agents.host_meters import here, is_read_here, meters_read_here
from roambench.runs.folder import RunFolder

pytestmark = [pytest.mark.lengthy, pytest.mark.asyncio]


@pytest.fixture(scope="module")
def _odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with odd_meters(tmp_path_factory.mktemp("package")):
        yield


class Store:
    """The fleet as far as it keeps records: in the run folder, but not the first ones of `refuses`."""

    def __init__(self, folder: RunFolder, refuses: str = "") -> None:
        self.folder, self.refuses = folder, refuses

    async def store(self, name: str, spool_uuid: str, records: Sequence[tuple[int, int, bytes]]) -> int:
        if name == self.refuses:
            self.refuses = ""
            raise ValueError("no such name")
        self.folder.records.insert(name, spool_uuid, records)
        return records[-1][0]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    names = ["pi-01", "pi-02"]
    about = {"run_id": "r", "system": "s", "trace_hash": "", "fleet": "local"}
    with RunFolder.create(
        tmp_path / "run", Experiment(), **about, device_names=names, time_scale=1.0
    ) as made:
        yield made


def replayed(tmp_path: Path) -> MeterSettings:
    """A meter that says ten lines in a second."""
    said = "".join(f"{0.1 * at:.1f}\t5.161,0.662,3.416,0.000\\r\\n\n" for at in range(1, 11))
    (tmp_path / "said.txt").write_text(f"# meter: smartpower2-100ms\n{said}")
    return here(MeterSettings("replay", str(tmp_path / "said.txt")))


def readings(folder: RunFolder, name: str) -> int:
    return folder.records.counts(name).get(RecordKind.READING, 0)


async def said_by(folder: RunFolder, store: Any, meters: dict[str, MeterSettings]) -> list[str]:
    said: list[str] = []
    async with meters_read_here(meters, folder, DeviceClock(), store, said.append):
        async with asyncio.timeout(30):
            while not said or readings(folder, "pi-02") < 10:
                await asyncio.sleep(0.05)
    return said


@pytest.mark.usefixtures("_odd")
async def test_a_driver_that_fails_is_said_and_the_other_meter_is_read(
    folder: RunFolder, tmp_path: Path
) -> None:
    meters = {"pi-01": here(MeterSettings("broken", "/dev/x")), "pi-02": replayed(tmp_path)}
    assert all(is_read_here(meter.port) for meter in meters.values())
    (line,) = await said_by(folder, Store(folder), meters)
    assert line.startswith("pi-01: meter /dev/x?reader=controller: its driver fails: RuntimeError: no device")
    assert readings(folder, "pi-01") == 0


async def test_records_that_cannot_be_kept_are_said(folder: RunFolder, tmp_path: Path) -> None:
    meters = dict.fromkeys(("pi-01", "pi-02"), replayed(tmp_path))
    said = await said_by(folder, Store(folder, refuses="pi-01"), meters)
    (line,) = said
    assert line.startswith("pi-01: its meter is read no more: ValueError: no such name (")
