"""docs/evidence/threat-model.md: every claim names a test, and every test it names is there."""

import ast
import re
from dataclasses import asdict
from pathlib import Path

from roambench.fleet.limits import AgentLimits
from roambench.provision.subjects import service

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "evidence" / "threat-model.md").read_text(encoding="utf-8")


def test_every_claim_names_a_test_that_exists() -> None:
    protected = PAGE.partition("## Protected")[2].partition("## Not protected")[0]
    rows = [line for line in protected.splitlines() if line.startswith("| ") and "shown by" not in line]
    assert len(rows) > 30
    for row in rows:
        named = re.search(r"\| `(tests/[\w/]+\.py)::(\w+)` \|$", row)
        assert named, f"no test: {row}"
        tree = ast.parse((ROOT / named[1]).read_text(encoding="utf-8"))
        functions = {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert named[2] in functions, row


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    table = {name: float(value) for name, value in re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", PAGE, re.M)}
    assert table == asdict(AgentLimits())


def test_the_agent_is_a_service_without_privileges() -> None:
    lines = service._UNIT.splitlines()
    assert {"User={user}", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict"} <= set(
        lines
    )
    assert service.layout.USER != "root"


def test_the_agent_starts_behind_the_modules_of_its_devices() -> None:
    """systemd leaves out a kind of devices that the kernel does not know yet when the unit starts."""
    for kind, module in (("ttyUSB", "usbserial"), ("ttyACM", "cdc_acm")):
        assert f"DeviceAllow=char-{kind} rw" in service._DEVICES
        assert f"modprobe@{module}.service" in service._MODULES
    assert {"Wants={modules}", "After={modules}"} <= set(service._UNIT.splitlines())
