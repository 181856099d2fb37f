"""A run for experiment trackers: parameters, curves, final figures, tags."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import ConfigError, RunError
from roambench.contract.extra_packages import install_command
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import KINDS, Ledger
from roambench.experiment.sections import Experiment, resolved
from roambench.report.quantities import QUANTITIES, Quantity, number_of
from roambench.report.summaries.evidence import RunEvidence, read_runs
from roambench.report.summaries.finding import finding_of
from roambench.report.summaries.run import RunSummary, summarise
from roambench.runs.groups import run_name
from roambench.runs.info import RunInfo, RunState
from roambench.runs.settings import flat, names_in_sweeps, sweep_of

#: Addresses of a bench's servers, and the place of its token: no tracker needs them.
PRIVATE_KEYS: Final = ("influxdb", "simulated.ray_address")
#: Files of a run folder that a reader of the figures may want: no addresses, ports, keys or logs.
PUBLIC_FILES: Final = (
    "ledger.parquet",
    "ledger_modelled.parquet",
    "phases.parquet",
    "steps.parquet",
    "readings.parquet",
    "devices.parquet",
    "summary.json",
    "link_model.json",
)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One point of the curve `tag`."""

    tag: str
    step: int
    value: float


@dataclass(frozen=True)
class TrackedRun:
    """A run for a tracker. Figures are those of `roambench report --json`; what is unknown is left out."""

    name: str
    info: RunInfo
    evidence: RunEvidence
    summary: RunSummary
    settings: Mapping[str, Any]  # the experiment's sections, as `public_settings` leaves them
    sweep: str = ""  # the name of its sweep

    @property
    def experiment(self) -> str:
        """The name that the experiment file gives."""
        return str(self.settings["name"])

    @property
    def began_s(self) -> float:
        """Unix time of its creation."""
        return datetime.fromisoformat(self.info.created_utc).timestamp()

    @property
    def ended_s(self) -> float | None:
        """Unix time of its end, by device time and its scale; None where that is not known or not over."""
        begin, end = self.info.start_device_ns, self.info.end_device_ns
        if begin is None or end is None or self.info.state is RunState.RUNNING:
            return None
        return self.began_s + (end - begin) * 1e-9 / self.info.time_scale

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings by their flat keys, as in `--set`: learning.alpha."""
        return dict(flat(self.settings))

    @property
    def finding(self) -> str:
        """Its finding, in a sentence."""
        return finding_of([self.summary])

    @property
    def tags(self) -> dict[str, str]:
        """Identity, sources and doubts; empty ones are left out."""
        info = self.info
        unfit = "; ".join(item.sentence for item in self.summary.unfit)
        tags = {
            "run_id": info.run_id,
            "created": info.created_utc,
            "system": info.system,
            "seed": str(info.seed),
            "fleet": info.fleet,
            "devices": str(len(info.device_names)),
            "state": info.state.value,
            "reason": info.reason,
            "time_scale": f"{info.time_scale:g}",
            "trace": info.trace_hash,
            "association": info.association,
            "assignment": info.assignment_hash,
            **{f"version.{name.replace(' ', '_')}": version for name, version in info.versions.items()},
            "measure_again": unfit,
            "flags": "\n".join(self.summary.flags),
        }
        return {name: text for name, text in tags.items() if text}

    @property
    def curves(self) -> list[Scalar]:
        """The scores of each step, and the joules of the trainings that began in it."""
        return [*self._steps(), *self._joules()]

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The quantities of `figures` by their names for trackers."""
        rows = sorted(QUANTITIES.values(), key=lambda row: row.unit == "J")  # joules last
        return {row.tracked.format(basis=self.summary.basis): row for row in rows if row.tracked}

    @property
    def figures(self) -> dict[str, float]:
        """Final figures; beside every energy `name_j` its standard uncertainty (k = 1) `name_j_u`."""
        found: dict[str, float | None] = {}
        for name, row in self.quantities.items():
            figure = row.figure(self.summary)
            found[f"final/{name}"] = number_of(figure)
            if isinstance(figure, Energy):
                found[f"final/{name}_u"] = figure.u_joules
        learning = self.summary.learning
        found |= {f"final/{name}": value for name, value in learning.final_metrics.items()}
        found |= {f"final/best {name}": value for name, value in learning.best_metrics.items()}
        return {name: float(v) for name, v in found.items() if v is not None and math.isfinite(v)}

    def _steps(self) -> Iterator[Scalar]:
        for point in self.summary.learning.points:
            values = {
                "learning/accuracy": point.accuracy,
                "learning/loss": point.loss,
                "devices/present": point.present,
                "devices/trainings": point.trainings,
                "devices/aggregated": point.aggregated,
                "devices/outstanding": point.outstanding,
            }
            values |= {
                f"learning/{name}": scores.get(point.step)
                for name, scores in self.summary.learning.metrics.items()
            }
            for tag, value in values.items():
                if value is not None and math.isfinite(value):
                    yield Scalar(tag, point.step, float(value))

    def _joules(self) -> Iterator[Scalar]:
        """Energy of all devices by the step of the ledger, that is the round of the training it served.

        What belongs to no step (before the first one) is left out.
        """
        modelled, energy = self.evidence.modelled, self.evidence.energy
        ledger: Ledger
        if modelled is not None:
            ledger = modelled.ledger
        elif energy is not None and energy.measured:
            ledger = energy.ledger
        else:
            return
        for kind in KINDS:
            for step, value in ledger.by_step(kind).items():
                if step >= 0 and math.isfinite(value):
                    yield Scalar(f"energy/{ledger.basis}_{kind}_j", step, value)


def tracked_names(runs: Sequence[Path]) -> list[str]:
    """The names of the runs for a tracker."""
    of_points = names_in_sweeps(runs)
    return [of_points.get(run.resolve()) or run_name(run) for run in runs]


def named_twice(names: Sequence[str]) -> list[str]:
    """A mistake for each name that several runs have: no tracker could distinguish them."""
    return [f"{name}: {count} runs of this name" for name, count in Counter(names).items() if count > 1]


def tracked_runs(runs: Sequence[Path]) -> list[TrackedRun]:
    """Read the runs, each alone: what it says does not depend on those it is exported with.

    ConfigError where two have one name, RunError for what is no run.
    """
    names = tracked_names(runs)
    if twice := named_twice(names):
        raise ConfigError(twice)
    return [
        TrackedRun(
            name,
            found.info,
            found,
            summarise(found),
            public_settings(found.experiment),
            sweep.name if (sweep := sweep_of(run)) is not None else "",
        )
        for run, name in zip(runs, names, strict=True)
        for found in read_runs([run])
    ]


def public_settings(experiment: Experiment) -> dict[str, Any]:
    """The experiment with every default filled in, less `PRIVATE_KEYS`."""
    values = resolved(experiment)
    for key in PRIVATE_KEYS:
        *above, last = key.split(".")
        section = values
        for name in above:
            section = section[name]
        section.pop(last, None)
    return values


def missing(error: ModuleNotFoundError, library: str, extra: str) -> RunError:
    """The error where an optional library is not installed; a broken one's own error goes on."""
    if (error.name or "").partition(".")[0] != library:
        raise error
    return RunError(f"this needs {library}, which is not installed: {install_command(extra)}")
