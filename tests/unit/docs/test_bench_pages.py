"""docs/prove.md and docs/operate.md name what there is: every check and verdict, and their limits."""

from __future__ import annotations

import re
from pathlib import Path

from roambench.provision.identify import BURN_S, REST_S
from roambench.provision.leases.lease import LEASE_S
from roambench.provision.meter_map import MAX_AGE_DAYS, Proof

PAGES = Path(__file__).parents[3] / "docs"
TEXT = (PAGES / "prove.md").read_text(encoding="utf-8")
OPERATE = (PAGES / "operate.md").read_text(encoding="utf-8")
CHECKS = [
    "SSH", "OS image", "agent", "wheels", "claim", "certificate", "clock", "time sync", "way to controller",
    "ways to boards", "disk", "memory", "governor", "power supply", "Wi-Fi power save", "torch", "meter",
    "autorun", "meter's port", "idle watts",
]  # fmt: skip


def test_every_check_has_its_row() -> None:
    table = TEXT[TEXT.index("| check |") : TEXT.index("**Skip** means")]
    named = [name.strip() for row in table.splitlines()[2:] if row for name in row.split("|")[1].split(",")]
    assert named == CHECKS


def test_every_verdict_of_the_meter_map_is_explained() -> None:
    table = TEXT[TEXT.index("| verdict |") : TEXT.index("A reading belongs")]
    explained = re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)
    assert {*explained, "proven"} == {*(str(verdict) for verdict in Proof), "verdict"}


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"after {MAX_AGE_DAYS:g} days" in TEXT
    assert f"a claim lives {LEASE_S:g} s and is renewed every {LEASE_S / 4:g} s" in OPERATE
    assert f"It takes {BURN_S + REST_S:g} s and a login per board" in TEXT


def test_a_lab_meets_parts_wiring_and_how_meters_come_before_it_orders() -> None:
    build = (PAGES / "build.md").read_text(encoding="utf-8")
    first = (PAGES / "start" / "from-card-to-report.md").read_text(encoding="utf-8")
    assert "](docs/build.md)" in (PAGES.parent / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(([^)]+)\)", first)[0] == "../build.md"
    assert "| part | 1 board | 12 boards | 36 boards |" in build
    assert "As shipped it has 5.00 V and `autorun` off" in build
    sections = set(re.findall(r"^## (.*)$", build, re.MULTILINE))
    assert {"Wiring", "What can go wrong when a port is opened", "Hours", "Accuracy to expect"} <= sections
