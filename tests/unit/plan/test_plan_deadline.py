"""A plan says beforehand which trainings cannot end in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.experiment.deadline import deadline_remedy
from roambench.experiment.load import WrittenExperiment, load_experiment
from roambench.experiment.sections import Experiment
from roambench.plan.plan import plan_experiment


def experiment(sgd_step_s: float, system: str = "hierfavg") -> Experiment:
    values = {
        "name": "slow",
        "systems": [system],
        "trace": {"generator": "city", "steps": 3},
        "fleet": {"agents": 2, "deadline_s": 20.0},
        "learning": {"dataset": "digits", "model": "mlp", "images_per_device": 40},
        "local": {"sgd_step_s": sgd_step_s, "time_scale": 12.0},
        "simulated": {"sgd_step_s": sgd_step_s},
    }
    return load_experiment(WrittenExperiment(values, "here", Path()))


@pytest.mark.parametrize(
    ("fleet", "says"), [("local", "and will fail"), ("simulated", "virtual devices keep no deadline")]
)
def test_a_plan_names_trainings_that_take_longer_than_an_order_may(fleet: str, says: str) -> None:
    (plan,) = plan_experiment(experiment(5.0), fleet)  # 5 steps of 5 s
    (doubt,) = [doubt for doubt in plan.doubts if "trainings take up to" in doubt]
    assert says in doubt
    assert "fleet.deadline_s = 100, or give devices fewer images (learning.images_per_device)" in doubt
    (plan,) = plan_experiment(experiment(2.0), fleet)
    assert not any("trainings take up to" in doubt for doubt in plan.doubts)


@pytest.mark.parametrize(
    ("deadline_s", "needed_s", "wanted"), [(120, 126, 300), (120, 0, 300), (0.5, 0, 1), (4, 40, 100)]
)
def test_a_remedy_leaves_room_in_a_round_number(deadline_s: float, needed_s: float, wanted: float) -> None:
    assert deadline_remedy(deadline_s, needed_s).startswith(f"set fleet.deadline_s = {wanted:g},")
