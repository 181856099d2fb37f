"""One run as the paper's tables see it: its setting and a handful of figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roambench.experiment.sections import Experiment
from roambench.extras.papers.bounds import Bounds
from roambench.extras.papers.mohawk import IID, NON_IID, SYSTEMS

_IID_ALPHA, _NON_IID_ALPHA = 100.0, 0.1
_ROUNDING = 1e-9  # of a mean of accuracies
_PER_DEVICE = ("dirichlet", "dirichlet_repeats")  # a class mix drawn for every device


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings that a row of the paper's tables holds fixed. `data`: IID, non-IID, or else how it was
    parted."""

    dataset: str
    data: str
    k2: int


@dataclass(frozen=True, slots=True)
class PaperRun:
    """`threshold_step`: t of the cloud aggregation whose model reached the threshold, None if none did.

    `steps` were played. `joules_per_client` is Table 6's reading up to that round, or over all of them;
    None where no energy was modelled. Distances over (present device, step) pairs, sd of the population.
    """

    system: str
    setting: Setting
    seed: int
    steps: int
    threshold: float
    threshold_step: int | None
    final_accuracy: float | None
    best_accuracy: float | None
    aggregated_per_step: float | None
    distance_km: float | None
    distance_sd_km: float | None
    joules_per_client: float | None
    scored: tuple[tuple[int, float], ...] = ()  # t and accuracy of every cloud aggregation that was scored

    def rounds_to(self, accuracy: float) -> Bounds:
        """As `rounds`, for any accuracy."""
        reached = next((step for step, found in self.scored if found >= accuracy), None)
        return Bounds.at_least(self.steps - 1) if reached is None else Bounds.exactly(reached)

    @property
    def rounds(self) -> Bounds:
        """As the paper counts: t of the cloud aggregation, so a multiple of k2; t = 0 only trains."""
        if self.threshold_step is None:
            return Bounds.at_least(self.steps - 1)
        return Bounds.exactly(self.threshold_step)

    @property
    def joules(self) -> Bounds | None:
        """Communication joules per client to the threshold; from below if it was not reached."""
        if self.joules_per_client is None:
            return None
        make = Bounds.at_least if self.threshold_step is None else Bounds.exactly
        return make(self.joules_per_client)


def rounds_of(runs: Sequence[PaperRun], accuracy: float | None = None) -> Bounds:
    """Table 4's figure of one setting's seeds: t of the first cloud aggregation at which the mean of their
    accuracies is `accuracy`, or else their threshold. At least one run.

    A run that ended at its threshold has its last accuracy from there on.
    """
    first, *others = runs
    if not others:
        return first.rounds if accuracy is None else first.rounds_to(accuracy)
    target = first.threshold if accuracy is None else accuracy
    curves = [dict(run.scored) for run in runs]
    stays = [run.scored[-1][1] if run.scored and run.scored[-1][1] >= run.threshold else None for run in runs]
    known = min((run.steps for run, last in zip(runs, stays, strict=True) if last is None), default=0) - 1
    for step in sorted({step for curve in curves for step in curve}):
        there = [
            curve.get(step, last if step > max(curve, default=step) else None)
            for curve, last in zip(curves, stays, strict=True)
        ]
        values = [value for value in there if value is not None]
        if len(values) == len(runs) and math.fsum(values) / len(values) >= target - _ROUNDING:
            return Bounds.exactly(step)
    return Bounds.at_least(known if known >= 0 else max(run.steps for run in runs) - 1)


def setting_of(experiment: Experiment) -> Setting:
    """The setting of the experiment's runs."""
    learning = experiment.learning
    data = _data(learning.partition, learning.alpha)
    return Setting(learning.task or learning.dataset, data, experiment.rounds.cloud_every_steps)


def _data(partition: str, alpha: float) -> str:
    if partition == "iid" or (partition in _PER_DEVICE and alpha == _IID_ALPHA):
        return IID
    if partition in _PER_DEVICE and alpha == _NON_IID_ALPHA:
        return NON_IID
    return f"{partition}, alpha {alpha:g}"


def comparable(runs: Sequence[PaperRun]) -> list[PaperRun]:
    """The runs of the paper's systems; [] unless MOHAWK and a baseline met in one setting."""
    kept = [run for run in runs if run.system in SYSTEMS]
    met: dict[Setting, set[str]] = {}
    for run in kept:
        met.setdefault(run.setting, set()).add(run.system)
    return kept if any("mohawk" in there and len(there) > 1 for there in met.values()) else []
