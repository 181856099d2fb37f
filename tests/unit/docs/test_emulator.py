"""The emulator's page says what the emulator does."""

import re
from pathlib import Path

from roambench.meters.emulator.fault_list import parse_faults
from roambench.meters.emulator.profiles import PROFILES
from roambench.meters.emulator.spec import FaultKind

TEXT = (Path(__file__).parents[3] / "docs" / "emulator.md").read_text()


def test_every_profile_is_listed_with_the_ways_to_read_it():
    rows = re.findall(r"^\| `(smartpower[^`]+)` \| ([a-z, ]+) \|", TEXT, re.MULTILINE)
    assert rows == [(name, ", ".join(row.transports)) for name, row in PROFILES.items()]


def test_every_fault_is_listed_as_it_is_spelled():
    spelled = re.findall(r"`([a-z_]+@[\d:]+)`", TEXT)
    assert {parse_faults(text)[0].kind for text in spelled} == set(FaultKind)
