"""The report for machines: keys others rely on, and JSON that every parser takes."""

from __future__ import annotations

import json

import pytest

from roambench.report.report import report


def test_both_systems_have_wasted_and_consumed_joules(hand_made, tmp_path):
    out = tmp_path / "report.json"
    report([hand_made(), hand_made("demo-hierfavg", system="hierfavg", aggregated=())], json=out)
    document = json.loads(out.read_text())
    assert document["schema"] == "roambench.report/3"
    joules = {run["system"]: (run["wasted_j"], run["consumed_j"]) for run in document["runs"]}
    assert joules["mohawk"] == pytest.approx((48.0, 104.0))
    assert joules["hierfavg"] == pytest.approx((96.0, 96.0))
    assert document["improvement"]["reference"] == "demo-mohawk"
    factors = document["improvement"]["factors"]["demo-hierfavg"]["gross"]
    assert factors["cumulative_wasted_j"] == pytest.approx(2.0)


def test_the_keys_stay(hand_made):
    (run,) = json.loads(report([hand_made()]).json())["runs"]
    assert set(run) == {
        "name", "run_id", "system", "seed", "fleet", "state", "reason", "trace_hash",
        "assignment_hash", "association", "time_scale",
        "lookahead", "devices", "versions", "flags", "routine", "wasted_j", "consumed_j", "failed_j",
        "boards_in_all_j", "used_for_learning_j",
        "wasted_net_j", "consumed_net_j", "failed_net_j", "learning", "trainings", "orders", "incidents",
        "distance_m", "modelled_j", "energy", "energy_modelled", "board_states", "instrument",
        "decentralised",
    }  # fmt: skip
    assert set(run["energy"]) == {
        "duration_s", "without", "whole_run", "whole_run_net", "truth", "table10", "phases", "communication",
        "boards",
    }  # fmt: skip
    assert run["energy"]["whole_run"]["joules"] == pytest.approx(400.0)
    assert run["energy"]["truth"]["relative_error"] == pytest.approx(0.0, abs=1e-9)
    assert run["energy"]["phases"]["train"]["gross"]["joules"] == pytest.approx(80.0)
    boards = [(board["consumed_j"], board["wasted_j"]) for board in run["energy"]["boards"]]
    assert boards == [pytest.approx((56.0, 0.0)), pytest.approx((48.0, 48.0))]
    assert run["learning"]["steps"][1]["accuracy"] == 0.85


def test_what_is_unknown_is_null_not_nan(hand_made):
    runs = [
        hand_made("demo-mohawk", aggregated=(0, 1)),
        hand_made("other", system="hierfavg"),
        hand_made("dark", system="hierfavg", readings=False, accuracies=(None, float("nan"))),
    ]
    text = report(runs).json()
    assert "NaN" not in text
    assert "Infinity" not in text
    document = json.loads(text)
    assert document["improvement"]["factors"]["other"]["gross"]["cumulative_wasted_j"] is None
    assert document["runs"][2]["energy"] is None
    assert document["runs"][2]["wasted_j"] is None
    assert document["runs"][2]["learning"]["final_accuracy"] is None
