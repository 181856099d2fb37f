"""Scores the global model on the test set, beside the event loop."""

from __future__ import annotations

import asyncio

import numpy as np

from roambench.contract.draws import draw_key
from roambench.contract.orders import Vector
from roambench.experiment.sections import Experiment
from roambench.learning.datasets.catalogue import drawn_subset
from roambench.learning.tasks import metrics_of
from roambench.rounds.ports import Score
from roambench.runner.world import LearningTask


def scored_samples(experiment: Experiment, learning_task: LearningTask) -> int:
    """Samples of the test set that score a model: `learning.test_images`, at most all."""
    there = len(learning_task.dataset.test_labels)
    return min(experiment.learning.test_images or there, there)


class TestSetEvaluator:
    """Implements `rounds.ports.Evaluator` with one thread, so that agents keep their cores."""

    __test__ = False  # not a test, in spite of its name

    def __init__(self, experiment: Experiment, learning_task: LearningTask) -> None:
        from roambench.learning.task_parts import build_model  # with it comes torch, as in `world`
        from roambench.learning.training import single_threaded

        single_threaded()
        section = experiment.learning
        dataset = learning_task.dataset
        self._images, self._labels = dataset.test_images, dataset.test_labels
        if section.test_images:
            scored = drawn_subset(self._labels, section.test_images, "test")
            self._images, self._labels = self._images[scored], self._labels[scored]
        self._images = np.ascontiguousarray(self._images)
        channels = dataset.train_images.shape[1]
        self._task = section.task
        self._by_class = experiment.rounds.score_aps
        self._bfloat16 = section.score_precision == "bfloat16"
        self._better = {metric.name: metric.better for metric in metrics_of(section.task)}
        self._module = build_model(
            section.task, section.model, channels, dataset.classes, draw_key(experiment.seed, "initial model")
        )

    async def score(self, model: Vector) -> Score:
        """Accuracy, loss and the task's own metrics of a model on the test set, beside the event loop."""
        from roambench.learning.task_parts import score

        asked = self._task, self._module, model, self._images, self._labels
        found = await asyncio.to_thread(score, *asked, by_class=self._by_class, bfloat16=self._bfloat16)
        return Score(found.accuracy, found.loss, dict(found.metrics), self._better)
