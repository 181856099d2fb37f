"""The memory of a board's trainer, as a plan measures it."""

from pathlib import Path

import pytest

from roambench.experiment.load import load_experiment
from roambench.plan.memory import memory_doubts, trainer_peak_bytes
from roambench.plan.plan import plan_experiment
from roambench.runner.world import learning_task_of

pytestmark = pytest.mark.lengthy
TEXT = """
name = "memory"
systems = ["mohawk"]
trace = { generator = "city", steps = 2 }
fleet = { agents = 2, aps = 2 }
learning = { model = "MODEL", images_per_device = 20 }
"""


def experiment_in(folder: Path, model: str):
    file = folder / f"{model}.toml"
    file.write_text(TEXT.replace("MODEL", model))
    return load_experiment(file)


def test_a_larger_model_takes_more_by_several_copies_of_its_weights(tmp_path: Path) -> None:
    peaks, sizes = [], []
    for model in ("mlp", "resnet18"):
        experiment = experiment_in(tmp_path, model)
        task = learning_task_of(experiment, 2)
        peaks.append(trainer_peak_bytes(experiment, task))
        sizes.append(4 * task.layout.size)
    assert 100e6 < peaks[0] < 500e6
    assert peaks[1] - peaks[0] > 3 * (sizes[1] - sizes[0])
    assert list(memory_doubts(experiment, peaks[0])) == []
    (doubt,) = memory_doubts(experiment, 1_143_000_000)
    assert doubt.startswith("a trainer of resnet18 takes 1,143 MB: boards of 1 GB cannot train it")


@pytest.mark.parametrize(("fleet", "told"), [("local", True), ("simulated", False)])
def test_a_plan_of_boards_says_it(tmp_path: Path, fleet: str, told: bool) -> None:
    (plan,) = plan_experiment(experiment_in(tmp_path, "mlp"), fleet)
    assert bool(plan.trainer_peak_bytes) is told
