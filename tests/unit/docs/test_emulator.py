"""The emulator's page says what the emulator does, and the firmware that it adds runs."""

import re
from dataclasses import fields
from pathlib import Path

from roambench.contract.records import Reading
from roambench.emulation.fault_list import parse_faults
from roambench.emulation.profiles import PROFILES, FirmwareProfile
from roambench.emulation.spec import Fault, FaultKind

TEXT = (Path(__file__).parents[3] / "docs" / "emulator.md").read_text()


def test_every_profile_is_listed_with_the_ways_to_read_it():
    rows = re.findall(r"^\| `((?:smartpower|ina)[^`]+)` \| ([a-z, ]+) \|", TEXT, re.MULTILINE)
    assert rows == [(name, ", ".join(row.transports)) for name, row in PROFILES.own.items()]


def test_every_fault_is_listed_as_it_is_spelled():
    spelled = re.findall(r"`([a-z_]+@[\d:]+)`", TEXT)
    assert {parse_faults(text)[0].kind for text in spelled} == set(FaultKind)


def test_every_field_of_a_profile_is_explained():
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \| ", TEXT, re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert {field.name for field in fields(FirmwareProfile)} <= explained


def test_the_firmware_of_the_page_prints_what_the_driver_of_the_meters_page_reads(tmp_path, monkeypatch):
    meters = (Path(__file__).parents[3] / "docs" / "meters.md").read_text("utf-8")
    blocks = re.findall(r'```python title="(wattbox\w*\.py)"\n(.*?)```', meters + TEXT, re.DOTALL)
    for name, code in blocks:
        (tmp_path / name).write_text(code)
    recorded = tmp_path / "wattbox-1.dist-info"
    recorded.mkdir()
    (recorded / "METADATA").write_text("Metadata-Version: 2.1\nName: wattbox\nVersion: 1\n")
    (recorded / "entry_points.txt").write_text(
        "[roambench.meters]\nwattbox = wattbox:WATTBOX\n"
        "[roambench.traits]\nwattbox = wattbox:WATTBOX_TRAITS\n"
        "[roambench.meter_profiles]\nwattbox = wattbox_firmware:WATTBOX\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from roambench.emulation.virtual import emulate

    run = emulate([], 60.0, seed=3, profile="wattbox", faults=[Fault(FaultKind.NOISE, at_s=10.0)])
    readings = [item for item in run.readings() if isinstance(item, Reading)]
    assert len(readings) in (118, 119, 120)  # two a second for a minute; one is broken in two
    true_w = run.truth.energy_j(0, 60_000_000_000) / 60.0
    assert abs(sum(reading.watts for reading in readings) / len(readings) / true_w - 1.0) < 0.05
