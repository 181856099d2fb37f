"""The experiment of docs/frontier.md in a small form, and what its page says the options do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .test_codecs_page import ROOT, run

pytestmark = pytest.mark.timeout(600)


def test_the_experiment_in_a_small_form_spends_and_wastes_less_with_either_option(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "frontier.toml").read_text("utf-8")
    text = (
        text.replace('["mohawk", "hierfavg", "oort", "middle", "refl"]', '["mohawk"]')
        .replace("seeds = 5", "seeds = 1")
        .replace("[0.3, 0.5, 0.7]", "[0.3]")
        .replace("[0.05, 0.2, 0.4]", "[0.4]")
        .replace("steps = 336\n", "steps = 40\n")
        .replace("devices = 200", "devices = 60")
        .replace("accuracy_threshold = 0.85", "accuracy_threshold = 1.0")
    )
    (tmp_path / "frontier.toml").write_text(text)
    run("roambench sweep frontier.toml -o out --jobs 2", tmp_path)
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["rows"]
    used = {
        tuple(row["values"][f"algorithm.mohawk.{name}"] for name in ("least_chance", "share")): (
            row["metrics"]["consumed_j"]["mean"],
            row["metrics"]["wasted_j"]["mean"],
        )
        for row in rows
    }
    usual = used[None, None]
    assert set(used) == {(None, None), (0.3, None), (None, 0.4), (0.3, 0.3)}
    # A share of 0.4 trains about four of ten, by chance, and wastes as large a part of them.
    assert 0.2 * usual[0] < used[None, 0.4][0] < 0.65 * usual[0]
    assert 0.2 * usual[1] < used[None, 0.4][1] < 0.65 * usual[1]
    # The forecast wastes a smaller part of what it spends.
    consumed, wasted = used[0.3, None]
    assert consumed < usual[0]
    assert wasted / consumed < usual[1] / usual[0]
    assert used[0.3, 0.3][0] < 0.5 * consumed
