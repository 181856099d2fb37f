"""What a run says to trackers is what `roambench report --json` says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roambench.experiment.sections import Experiment
from roambench.report.report import report
from roambench.report.tracked import public_settings, tracked_runs
from small_runs import measured, simulated


def told_of(run: Path) -> dict[str, Any]:
    (found,) = json.loads(report([run]).json())["runs"]
    return dict(found)


@pytest.mark.parametrize("kind", [measured, simulated])
def test_figures_are_those_of_the_report_to_the_digit(kind: Callable[[Path], None], tmp_path: Path) -> None:
    kind(tmp_path / "run")
    (run,) = tracked_runs([tmp_path / "run"])
    told, expected = told_of(tmp_path / "run"), {}
    if kind is measured:
        basis, energy, keys = "measured", told["energy"], ("joules", "u_joules")
        for name in ("whole_run", "whole_run_net"):
            expected[f"final/measured_{name}"] = energy[name]
        expected_coverage = energy["whole_run"]["coverage"]
        assert run.figures["final/coverage"] == expected_coverage
    else:
        basis, energy, keys = "modelled", told["energy_modelled"], ("modelled_j", "u_link_model_j")
    for kind_of in ("gross", "net"):
        for what in ("wasted", "failed", "consumed"):
            table = energy["table10"][kind_of]
            expected[f"final/{basis}_{kind_of}_{what}"] = table[f"cumulative_{what}"]
        for phase, found in energy["phases"].items():
            expected[f"final/{basis}_{kind_of}_{phase}"] = found[kind_of]
    wanted = {f"{name}_j": found[keys[0]] for name, found in expected.items()}
    wanted |= {f"{name}_j_u": found[keys[1]] for name, found in expected.items()}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    assert {name: value for name, value in run.figures.items() if "_j" in name} == wanted
    assert run.figures["final/accuracy"] == told["learning"]["final_accuracy"]
    assert run.tags["flags"].splitlines() == told["flags"]
    assert all(value > 0.0 for name, value in wanted.items() if name.endswith("_gross_train_j"))


def test_settings_are_flat_and_have_no_address(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    (run,) = tracked_runs([tmp_path / "run"])
    assert run.parameters["simulated.idle_w"] == 2.0
    assert run.parameters["learning.alpha"] == 0.5
    assert run.parameters["learning.momentum"] == Experiment.model_validate({}).learning.momentum
    secret = Experiment.model_validate(
        {
            "influxdb": {"url": "http://10.9.8.7:8086", "token_file": "/etc/secret"},
            "simulated": {"ray_address": "ray://10.9.8.7:1"},
        }
    )
    assert [text for text in ("10.9.8.7", "secret") if text in str(public_settings(secret))] == []
