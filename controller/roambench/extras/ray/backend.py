"""The row of Ray among the training backends."""

from __future__ import annotations

from roambench.experiment.simulated_section import SimulatedSection
from roambench.extras.ray.ray_workers import RayWorkers
from roambench.fleet.simulated.job import WorkerSetting
from roambench.fleet.simulated.model_rows import ModelRows


def ray(section: SimulatedSection, setting: WorkerSetting, rows: ModelRows) -> RayWorkers:
    """Actors on this machine or on a cluster's, as `[simulated]` says."""
    return RayWorkers(setting, rows, section.workers, section.ray_address)
