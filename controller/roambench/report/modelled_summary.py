"""What a run on virtual devices cost by its models; pure. Nothing here was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roambench.contract.phases import Phase
from roambench.energy.device_power import DevicePower
from roambench.energy.energy_value import Energy
from roambench.energy.modelled import ModelledRow, modelled_by, modelled_total
from roambench.energy.table10 import Table10, is_wasted, table10
from roambench.energy.to_threshold import CommunicationToThreshold, communication_to_threshold
from roambench.runs.modelled_accounts import ModelledEnergy, Rate


@dataclass(frozen=True, slots=True)
class ModelledPhase:
    """All rows of one phase over all devices."""

    phase: Phase
    count: int
    duration_s: float
    transferred_bytes: int
    gross: Energy
    net: Energy

    @property
    def idle_j(self) -> float:
        return self.gross.joules - self.net.joules


@dataclass(frozen=True, slots=True)
class ModelledSummary:
    """Modelled energy of one run; uncertainties are the link model's alone (0 where it tells none)."""

    link_model: str
    rate: Rate
    power: DevicePower
    gross: Table10
    net: Table10
    phases: tuple[ModelledPhase, ...]
    consumed_by_step: Mapping[int, float]  # gross, by the round of the training
    wasted_by_step: Mapping[int, float]
    to_threshold: CommunicationToThreshold


def modelled_summary(
    modelled: ModelledEnergy | None,
    names: Sequence[str],
    *,
    steps: int,
    threshold_step: int | None,
    finished: bool,
) -> ModelledSummary | None:
    """Sum up; None for a run that has no modelled energy. `finished`: pending models count as wasted."""
    if modelled is None:
        return None
    rows = modelled.rows
    gross = modelled_by(rows, lambda row: row.phase)
    phases = []
    for phase in (phase for phase in Phase if phase in gross):
        of_phase = [row for row in rows if row.phase is phase]
        phases.append(
            ModelledPhase(
                phase,
                len(of_phase),
                gross[phase].covered_s,
                sum(row.transferred_bytes for row in of_phase),
                gross[phase],
                modelled_total(of_phase, "net"),
            )
        )
    return ModelledSummary(
        modelled.links.name,
        modelled.rate,
        modelled.power,
        table10(rows, "gross", rounds=steps, devices=names, finished=finished),
        table10(rows, "net", rounds=steps, devices=names, finished=finished),
        tuple(phases),
        _by_step(rows),
        _by_step([row for row in rows if is_wasted(row, finished=finished)]),
        communication_to_threshold(rows, threshold_step, steps),
    )


def _by_step(rows: Sequence[ModelledRow]) -> dict[int, float]:
    sums = modelled_by(rows, lambda row: row.step)
    return {step: sums[step].joules for step in sorted(sums)}
