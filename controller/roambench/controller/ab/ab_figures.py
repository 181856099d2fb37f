"""The compared figures of a run: its joules with what its meters have wrong, and what it learned."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.contract.json_values import kept_in
from roambench.contract.metric import Better
from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.controller.ab.improvement import Measured
from roambench.controller.sweep.metrics import METRICS, of_task
from roambench.energy.energy_value import Energy
from roambench.report.report import report
from roambench.report.summaries.run import RunSummary
from roambench.report.table10 import Table10
from roambench.runs.whole_file import write_whole

_FILE: Final = "ab.json"


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure that is compared: its name, title, and which way it is good. `share`: printed in percent."""

    name: str
    title: str
    better: Better
    share: bool = False


@dataclass(frozen=True, slots=True)
class EndedRun:
    """What a comparison takes of a point's finished run, kept beside its folder under the point's `key`.

    `own`: of its task's own metrics, whether higher or lower values are better. `began`: UTC, in ISO 8601.
    `flags`: of the run's own report.
    """

    key: str
    began: str
    flags: tuple[str, ...]
    figures: Mapping[str, Measured]
    own: Mapping[str, Better]


def _energy_rows(prefix: str, of_what: str) -> Iterator[Compared]:
    yield Compared(f"{prefix}consumed_j", f"used for learning{of_what}, J", "lower")
    yield Compared(f"{prefix}wasted_j", f"wasted{of_what}, J", "lower")
    yield Compared(f"{prefix}failed_j", f"in trainings that failed{of_what}, J", "lower")
    yield Compared(f"{prefix}to_threshold_j", f"used for learning up to the threshold{of_what}, J", "lower")
    for phase in Phase:
        if phase in ACTIVE_PHASES:
            yield Compared(f"{prefix}{phase.value}_j", f"{phase.value}{of_what}, J", "lower")
            yield Compared(f"{prefix}{phase.value}_net_j", f"{phase.value} above idle{of_what}, J", "lower")


#: Metrics of these names are modelled where nothing was measured; a comparison keeps the two apart.
_MEASURED: Final = frozenset(row.name for row in _energy_rows("", ""))
#: In the order of the table; metrics of a task's own stand behind accuracy (`compared_in`). What no run of a
#: comparison has is left out there.
COMPARED: Final = (
    Compared("whole_run_j", "whole run, J", "lower"),
    Compared("whole_run_net_j", "whole run above idle, J", "lower"),
    *_energy_rows("", ""),
    *_energy_rows("modelled_", ", modelled"),
    Compared("modelled_j", "transfers modelled (Eq. 1), J", "lower"),
    Compared("communication_j_to_threshold", "J per client to threshold, modelled", "lower"),
    Compared("duration_s", "duration, s", "lower"),
    Compared("final_accuracy", "final accuracy", "higher", share=True),
    Compared("best_accuracy", "best accuracy", "higher", share=True),
    Compared("final_loss", "final loss", "lower"),
    Compared("rounds_to_threshold", "rounds to threshold", "lower"),
    Compared("aggregated_per_step", "aggregated per step", "higher"),
    Compared("wasted_share", "trainings wasted", "lower", share=True),
    Compared("failed_share", "trainings failed", "lower", share=True),
)
_BEFORE_OWN: Final = "best_accuracy"


def compared_in(runs: Iterable[EndedRun]) -> Iterator[Compared]:
    """COMPARED, and the last and the best value of every metric that the runs' tasks have of their own."""
    own = {name: better for run in runs for name, better in run.own.items()}
    for row in COMPARED:
        yield row
        if row.name == _BEFORE_OWN:
            for name, better in own.items():
                for figure in (f"final {name}", f"best {name}"):
                    yield Compared(figure, f"{figure} ({better} is better)", better)


def figures_of(run: RunSummary) -> dict[str, Measured]:
    """Every figure that the run has, its task's own metrics among them; no measured joules where a board is
    left out of the sums: those of two runs would be of different boards.
    """
    found = {name: Measured(value) for name, value in of_task(run).items()}
    found |= {
        row.name: Measured(float(value))
        for row in COMPARED
        if row.name in METRICS.keys() - _MEASURED and (value := METRICS[row.name].figure(run)) is not None
    }
    step = run.learning.threshold_step
    if (measured := run.measured) is not None:
        found["duration_s"] = Measured(measured.duration_s)
        if not measured.without:
            found["whole_run_j"] = _of(measured.whole_run)
            found["whole_run_net_j"] = _of(measured.whole_run_net)
            phases = {row.phase: (row.gross, row.net) for row in measured.phases}
            found |= _spent("", measured.gross, phases, measured.consumed_by_step, step)
    elif (modelled := run.modelled) is not None:
        phases = {row.phase: (row.gross, row.net) for row in modelled.phases}
        found |= _spent("modelled_", modelled.gross, phases, modelled.consumed_by_step, step)
    return {name: figure for name, figure in found.items() if math.isfinite(figure.value)}


def _spent(
    prefix: str,
    gross: Table10,
    phases: Mapping[Phase, tuple[Energy, Energy]],
    by_step: Mapping[int, float],
    threshold_step: int | None,
) -> dict[str, Measured]:
    consumed = _of(gross.cumulative_consumed)
    found = {
        f"{prefix}consumed_j": consumed,
        f"{prefix}wasted_j": _of(gross.cumulative_wasted),
        f"{prefix}failed_j": _of(gross.cumulative_failed),
    }
    for phase, (all_of_it, above_idle) in phases.items():
        if phase in ACTIVE_PHASES:
            found[f"{prefix}{phase.value}_j"] = _of(all_of_it)
            found[f"{prefix}{phase.value}_net_j"] = _of(above_idle)
    if threshold_step is not None and consumed.value > 0.0:
        joules = math.fsum(j for step, j in by_step.items() if step <= threshold_step)
        # What the meters have wrong of the whole they have wrong of a part in proportion.
        share = joules / consumed.value
        terms = tuple((part, source, share * u) for part, source, u in consumed.terms)
        found[f"{prefix}to_threshold_j"] = Measured(joules, terms)
    return found


def _of(energy: Energy) -> Measured:
    return Measured(energy.joules, energy.terms)


def ended_run(folder: Path, key: str) -> EndedRun:
    """Of the run in a point's folder: read where it was kept, else summed up and kept.

    RunError for a folder that holds no run.
    """
    path = folder / _FILE
    kept = kept_in(EndedRun, path)
    if kept is not None and kept.key == key:
        return kept
    runs = sorted(run for run in (folder / "runs").glob("*") if run.is_dir())
    if len(runs) != 1:
        raise RunError(f"{folder / 'runs'}: expected one run folder, found {len(runs)}")
    (summary,) = report(runs).summaries
    own = {metric.name: metric.better for metric in summary.learning.own}
    made = EndedRun(key, summary.info.created_utc, summary.flags, figures_of(summary), own)
    write_whole(path, json.dumps(asdict(made), indent=1) + "\n")
    return made


def forget_figures(folder: Path) -> None:
    """Before the point is run again."""
    (folder / _FILE).unlink(missing_ok=True)
