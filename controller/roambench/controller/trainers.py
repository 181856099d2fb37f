"""The backends that `[simulated] backend` names: each makes a `Trainer` for one run."""

from __future__ import annotations

import os
from pathlib import Path

from roambench.experiment.simulated_section import SimulatedSection
from roambench.fleet.simulated.job import WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.ray_workers import RayWorkers
from roambench.fleet.simulated.stacked import StackedTrainer
from roambench.fleet.simulated.stacked_setting import StackedSetting
from roambench.fleet.simulated.trainer import Trainer
from roambench.fleet.simulated.workers import TrainingWorkers


def make_trainer(section: SimulatedSection, setting: WorkerSetting, rows: ModelRows, folder: Path) -> Trainer:
    """`rows` is the open store of `setting.models_path`; `folder` is for the backend's own files."""
    if section.backend == "ray":
        return RayWorkers(setting, rows, section.workers, section.ray_address)
    count = section.workers or os.cpu_count() or 1
    if section.backend == "stacked":
        stacked = StackedSetting(setting, section.stack, section.device, count, section.precision)
        return StackedTrainer(stacked, folder)
    return TrainingWorkers(setting, folder, count)
