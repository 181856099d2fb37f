"""Trainings of small perceptrons at once: the bits that each has alone; who cannot join trains alone."""

from collections.abc import Sequence

import numpy as np
import pytest

from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining
from roambench.fleet.simulated.job import TrainingJob
from roambench.fleet.simulated.worker import TaskTrainer
from roambench.learning.layout import flatten
from roambench.learning.learner import module_of

DEVICES, SAMPLES = 7, 40
ALIKE = (SAMPLES,) * DEVICES


def trainer_of(spec: LearningSpec, sizes: Sequence[int] = ALIKE) -> TaskTrainer:
    draws = np.random.default_rng(7)
    offsets = np.cumsum([0, *sizes])
    images = draws.standard_normal((offsets[-1], 1, 32, 32)).astype(np.float32)
    labels = draws.integers(0, 10, len(images))
    return TaskTrainer(spec, images, labels, np.arange(len(images)), offsets)


@pytest.mark.parametrize(
    ("objective", "optimiser", "batch_size", "steps", "sizes"),
    [
        ("ce", "sgd", 16, 0, ALIKE),
        ("ce", "sgd", 8, 1, ALIKE),
        ("middle_plus", "sgd", 16, 0, ALIKE),
        ("fedprox", "adam", 8, 7, ALIKE),
        ("ce", "sgd", 13, 0, ALIKE),  # the last batch has one sample, which torch.mm treats apart
        ("ce", "sgd", 61, 1, (61, 2, 9, 30, 1, 48, 30)),  # each its full batch
        ("middle_plus", "sgd", 8, 0, (33, 35, 40, 39, 34, 35, 38)),  # last batches of different sizes
        ("scaffold", "sgd", 8, 0, ALIKE),  # corrects its steps
    ],
)
def test_trainings_at_once_have_the_bits_of_those_one_by_one(
    objective: str, optimiser: str, batch_size: int, steps: int, sizes: tuple[int, ...]
) -> None:
    momentum = 0.9 if optimiser == "sgd" and objective != "scaffold" else 0.0
    spec = LearningSpec("mlp", 1, 10, 0.05, momentum, 0.0, batch_size, "", optimiser=optimiser)
    trainer, start = trainer_of(spec, sizes), flatten(module_of(spec))
    start = np.concatenate([start, start * 0.1]) if objective == "scaffold" else start
    jobs = [
        TrainingJob(device, 0, -1, 0, 0, LocalTraining(2, device, steps, objective), velocity_out_row=1)
        for device in range(DEVICES)
    ]
    models = [
        (start * np.float32(1 + device / 9), None, start, None, None, None) for device in range(DEVICES)
    ]

    alone = [trainer.carry_out(job, *found) for job, found in zip(jobs, models, strict=True)]
    for _ in range(2):  # the first time, both ways are compared
        together = trainer.carry_out_alike(jobs, models)
        for (said, one), (expected, other) in zip(together, alone, strict=True):
            assert (said.refused, said.samples, said.sgd_steps) == ("", expected.samples, expected.sgd_steps)
            assert one is not None
            assert other is not None
            assert one.vector.tobytes() == other.vector.tobytes()
            assert (one.mean_loss, one.mean_squared_loss) == (other.mean_loss, other.mean_squared_loss)
            assert (one.velocity is None) == (other.velocity is None)
            if one.velocity is not None and other.velocity is not None:
                assert one.velocity.tobytes() == other.velocity.tobytes()
    at_once = any(trainer._same_bits.values())
    assert at_once is (objective != "scaffold" and batch_size != 13)


def test_one_that_diverges_or_is_unknown_is_refused_alone() -> None:
    spec = LearningSpec("mlp", 1, 10, 0.05, 0.0, 0.0, 8, "")
    trainer, start = trainer_of(spec), flatten(module_of(spec))
    objectives = ["ce", "ce", "ce", "mse", "ce"]
    jobs = [TrainingJob(d, 0, -1, -1, 0, LocalTraining(1, d, 0, o)) for d, o in enumerate(objectives)]
    models = [(start * np.float32("nan" if d == 1 else 1), *[None] * 5) for d in range(len(jobs))]

    for _ in range(2):
        said = [outcome.refused for outcome, _ in trainer.carry_out_alike(jobs, models)]
        assert [bool(text) for text in said] == [False, True, False, True, False]
        assert "diverged" in said[1]
        assert "unknown local algorithm 'mse'" in said[3]
