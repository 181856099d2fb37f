"""One run as MOHAWK's tables have it: its setting and its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    """A run of the paper's comparison. `figures`: by the names of `report.quantities`; the joules per client
    are Table 6's reading up to the threshold, or over all steps. `scored`: t and accuracy of every cloud
    aggregation that was scored."""

    system: str
    setting: Setting
    seed: int
    threshold: float
    figures: Mapping[str, float | None]
    scored: tuple[tuple[int, float], ...] = ()

    @property
    def steps(self) -> int:
        """The steps that were played."""
        return int(self.figures["steps"] or 0)

    @property
    def threshold_step(self) -> int | None:
        """t of the cloud aggregation whose model reached the threshold, None if none did."""
        rounds = self.figures["rounds_to_threshold"]
        return None if rounds is None else int(rounds)

    def rounds_to(self, accuracy: float) -> Bounds:
        """The rounds to any accuracy, counted as `rounds`."""
        reached = next((step for step, found in self.scored if found >= accuracy), None)
        return Bounds.at_least(self.steps - 1) if reached is None else Bounds.exactly(reached)

    @property
    def rounds(self) -> Bounds:
        """The paper's rounds: t of the cloud aggregation, so a multiple of k2; t = 0 only trains."""
        reached = self.threshold_step
        return Bounds.at_least(self.steps - 1) if reached is None else Bounds.exactly(reached)

    @property
    def joules(self) -> Bounds | None:
        """Communication joules per client to the threshold; from below if it was not reached."""
        joules = self.figures["communication_j_per_client"]
        if joules is None:
            return None
        return Bounds.at_least(joules) if self.threshold_step is None else Bounds.exactly(joules)


def paper_run(
    system: str,
    experiment: Experiment,
    figures: Mapping[str, float | None],
    scored: tuple[tuple[int, float], ...],
) -> PaperRun | None:
    """The run as a row of the paper's tables; None where no step was closed."""
    if not figures["steps"]:
        return None
    threshold = experiment.rounds.accuracy_threshold
    return PaperRun(system, setting_of(experiment), experiment.seed, threshold, figures, scored)


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
