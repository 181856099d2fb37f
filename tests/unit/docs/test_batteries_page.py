"""docs/batteries.md is run as it stands, and its experiment in a small form."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .test_codecs_page import ROOT, run, typed

PAGE = (ROOT / "docs" / "batteries.md").read_text("utf-8")

pytestmark = pytest.mark.timeout(600)


def test_every_command_of_the_page_works_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    typed(PAGE, tmp_path)


def test_in_the_experiment_in_a_small_form_a_large_battery_keeps_devices_on_and_small_ones_do_not(
    tmp_path: Path,
) -> None:
    text = (ROOT / "experiments" / "batteries.toml").read_text()
    text = re.sub(r"systems = \[.*?\]", 'systems = ["mohawk", "hierfavg"]', text)
    text = re.sub(r"capacity_wh = \[.*?\]", "capacity_wh = [5.0, 200.0]", text)
    text = (
        text.replace("seeds = 5", "seeds = 1")
        .replace("steps = 48", "steps = 10")
        .replace("agents = 20", "agents = 6")
    )
    (tmp_path / "batteries.toml").write_text(text)
    run("roambench sweep batteries.toml -o out --jobs 2", tmp_path)
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["rows"]
    assert len(rows) == 4
    for row in rows:
        values = {name: metric["mean"] for name, metric in row["metrics"].items()}
        if row["values"]["battery.capacity_wh"] == 200.0:
            assert (values["deaths"], values["dead_share"]) == (0, 0.0)
        else:
            assert values["deaths"] > 0
            assert 0.0 < values["dead_share"] < 1.0
        assert 0.0 < values["final_accuracy"] <= 1.0
