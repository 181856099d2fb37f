"""The compared figures of a run: its joules with what its meters have wrong, and what it learned."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.contract.json_values import kept_in
from roambench.contract.metric import Better
from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.controller.sweep.metrics import METRICS
from roambench.energy.energy_value import Energy
from roambench.energy.improvement import Measured
from roambench.energy.table10 import Table10
from roambench.report.report import report
from roambench.report.summaries.run import RunSummary
from roambench.runs.folder import RunFolder
from roambench.runs.whole_file import write_whole

_FILE: Final = "ab.json"
_LOWER: Final = "lower"
_HIGHER: Final = "higher"


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure that is compared: its name, title, and which way it is good. `share`: printed in percent."""

    name: str
    title: str
    better: Better
    share: bool = False


@dataclass(frozen=True, slots=True)
class _Kept:
    """Figures of a point's finished run, beside its folder; `began` and `flags` are the run's."""

    key: str
    began: str
    flags: tuple[str, ...]
    figures: dict[str, Measured]


def _energy_rows(prefix: str, of_what: str) -> Iterator[Compared]:
    yield Compared(f"{prefix}consumed_j", f"download, training, upload{of_what}, J", _LOWER)
    yield Compared(f"{prefix}wasted_j", f"of it wasted{of_what}, J", _LOWER)
    yield Compared(f"{prefix}to_threshold_j", f"consumed up to the accuracy threshold{of_what}, J", _LOWER)
    for phase in Phase:
        if phase in ACTIVE_PHASES:
            yield Compared(f"{prefix}{phase.value}_j", f"{phase.value}{of_what}, J", _LOWER)
            yield Compared(f"{prefix}{phase.value}_net_j", f"{phase.value} above idle{of_what}, J", _LOWER)


#: Metrics of these names are modelled where nothing was measured; a comparison keeps the two apart.
_MEASURED: Final = frozenset(row.name for row in _energy_rows("", ""))
#: In the order of the table. What no run of a comparison has is left out there.
COMPARED: Final = (
    Compared("whole_run_j", "whole run, J", _LOWER),
    Compared("whole_run_net_j", "whole run above idle, J", _LOWER),
    *_energy_rows("", ""),
    *_energy_rows("modelled_", ", modelled"),
    Compared("modelled_j", "transfers modelled (Eq. 1), J", _LOWER),
    Compared("communication_j_to_threshold", "J per client to threshold, modelled", _LOWER),
    Compared("duration_s", "duration, s", _LOWER),
    Compared("final_accuracy", "final accuracy", _HIGHER, share=True),
    Compared("best_accuracy", "best accuracy", _HIGHER, share=True),
    Compared("final_loss", "final loss", _LOWER),
    Compared("rounds_to_threshold", "rounds to threshold", _LOWER),
    Compared("aggregated_per_step", "aggregated per step", _HIGHER),
    Compared("wasted_share", "trainings wasted", _LOWER, share=True),
)


def figures_of(run: RunSummary) -> dict[str, Measured]:
    """Every figure that the run has; no measured joules where a board is left out of the sums: those of two
    runs would be of different boards.
    """
    found = {
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
    found = {f"{prefix}consumed_j": consumed, f"{prefix}wasted_j": _of(gross.cumulative_wasted)}
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


def ended_figures(folder: Path, key: str) -> dict[str, Measured]:
    """Of the run in a point's folder: read where they were kept, else summed up and kept.

    RunError for a folder that holds no run.
    """
    path = folder / _FILE
    kept = kept_in(_Kept, path)
    if kept is not None and kept.key == key:
        return kept.figures
    runs = sorted(run for run in (folder / "runs").glob("*") if run.is_dir())
    if len(runs) != 1:
        raise RunError(f"{folder / 'runs'}: expected one run folder, found {len(runs)}")
    (summary,) = report(runs).summaries
    found = figures_of(summary)
    with RunFolder.open(runs[0]) as run_folder:
        began = run_folder.info.created_utc
    kept = _Kept(key, began, tuple(summary.flags), found)
    write_whole(path, json.dumps(asdict(kept), indent=1) + "\n")
    return found


def forget_figures(folder: Path) -> None:
    """Before the point is run again."""
    (folder / _FILE).unlink(missing_ok=True)


def kept_about(folder: Path) -> tuple[str, tuple[str, ...]]:
    """When the run began, UTC in ISO 8601, "" if that was not kept; and the flags of its own report."""
    kept = kept_in(_Kept, folder / _FILE)
    return ("", ()) if kept is None else (kept.began, kept.flags)
