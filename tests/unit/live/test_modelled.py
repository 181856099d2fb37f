"""Modelled joules of a run that goes on."""

from __future__ import annotations

from pathlib import Path

from roambench.live.modelled import ModelledJoules
from roambench.rounds.records import StepClosed
from roambench.runs.folder import RunFolder
from small_runs import simulated


def test_a_step_in_which_nobody_worked_has_no_joules(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    with RunFolder.open(tmp_path / "run") as folder:
        joules = ModelledJoules(folder)
        assert joules.add([StepClosed(0, 0, (), (), None, None)]) == {0}
    assert joules.by_step == {0: 0.0}
