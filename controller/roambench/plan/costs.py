"""Costs of an experiment's work on this machine, measured by doing a little of it."""

from __future__ import annotations

import asyncio
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from roambench.contract.local_training import LocalTraining
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import Vector
from roambench.experiment.sections import Experiment
from roambench.learning.codecs.coder import Coder
from roambench.learning.learner import Learner
from roambench.learning.shards import Shard
from roambench.learning.training import single_threaded
from roambench.runner.scoring import TestSetEvaluator
from roambench.runner.step_time import board_step_s
from roambench.runner.world import LearningTask, learning_spec, link_codecs
from roambench.vectors import weighted_mean

#: SGD steps that a warm learner is timed over; the median of as many as fit into the patience.
_STEPS: Final = 24
_PATIENCE_S: Final = 3.0
_MIXED: Final = 8


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """CPU-seconds of one thread of this machine, its cores, and seconds of a virtual device."""

    sgd_step_s: float
    score_s: float  # one scoring of a global model
    publish_s: float  # naming and keeping one model version
    mix_s: float  # adding one model to a weighted mean
    import_s: float  # importing the learning library in a fresh process
    model_bytes: int  # of one transfer
    cores: int
    core_share: float  # of a core that the timed steps got: below 1 others use this machine, too
    board_step_s: float  # an SGD step of a virtual device
    slowness: tuple[float, ...] = ()  # times as long, by device; empty: all alike
    upload_bytes: int = 0  # of one coded model; 0: it is not coded
    download_bytes: int = 0
    numbers: int = 0  # of a model


def measure_costs(experiment: Experiment, learning_task: LearningTask) -> MachineCosts:
    """Train a few steps on the first device's data, score once, publish once: seconds, not minutes."""
    single_threaded()
    learner = Learner(learning_spec(experiment, learning_task, Path()))
    size = experiment.learning.batch_size
    whole = learning_task.shard(0)
    learner.warm_up(whole)
    count = min(len(whole.labels), _STEPS * size)
    part = Shard(whole.images[:count], whole.labels[:count])
    steps = math.ceil(count / size)
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    trained = learner.train(part, LocalTraining(), learning_task.initial_model)
    sgd_step_s = _median(
        lambda: learner.train(part, LocalTraining(), learning_task.initial_model).cpu_s / steps
    )
    core_share = (time.process_time() - started_cpu_s) / (time.perf_counter() - started_s)
    evaluator = TestSetEvaluator(experiment, learning_task)
    asyncio.run(evaluator.score(learning_task.initial_model))  # the first one is not warm
    started_s = time.process_time()
    asyncio.run(evaluator.score(learning_task.initial_model))
    score_s = time.process_time() - started_s
    started_s = time.process_time()
    blob = encode(learning_task.initial_model, learning_task.layout.fingerprint)
    digest_of(blob)
    publish_s = time.process_time() - started_s
    started_s = time.process_time()
    weighted_mean([learning_task.initial_model] * _MIXED, np.full(_MIXED, 1.0 / _MIXED))
    mix_s = (time.process_time() - started_s) / _MIXED
    cores = len(os.sched_getaffinity(0))
    share = min(1.0, core_share)
    board_s = board_step_s(experiment, learning_task)
    slowness = experiment.simulated.slowness(experiment.seed, len(learning_task.parts), board_s)
    size = len(blob)
    coded = _coded_bytes(experiment, learning_task, trained.vector)
    numbers = learning_task.initial_model.size
    return MachineCosts(
        sgd_step_s,
        score_s,
        publish_s,
        mix_s,
        _import_s(),
        size,
        cores,
        share,
        board_s,
        slowness,
        *coded,
        numbers,
    )


def _coded_bytes(experiment: Experiment, learning_task: LearningTask, trained: Vector) -> tuple[int, int]:
    """The bytes of a coded upload, and of a coded download, of a model trained for a few steps; 0 where none
    is coded."""
    layout, codecs = learning_task.layout, link_codecs(experiment)
    up, down = (Coder.of(text, layout.fingerprint, layout.shapes) for text in (codecs.up, codecs.down))
    base = learning_task.initial_model if codecs.difference else None
    sent, _ = up.encode(trained, codecs.seed, base) if up is not None else (b"", None)
    fetched, _ = down.encode(trained, codecs.seed) if down is not None else (b"", None)
    return len(sent), len(fetched)


def sgd_steps(experiment: Experiment, samples: int) -> int:
    """SGD steps of one training on `samples` images."""
    section = experiment.learning
    return section.training().sgd_steps(samples, section.batch_size)


@cache
def _import_s() -> float:
    """CPU that the process of the workers needs before it can do anything; found out once, in a second."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import roambench.fleet.simulated.worker"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _median(timed: Callable[[], float]) -> float:
    values: list[float] = []
    until_s = time.monotonic() + _PATIENCE_S
    while len(values) < 5 and (not values or time.monotonic() < until_s):
        values.append(timed())
    return sorted(values)[len(values) // 2]
