"""Modelled energy of a run on virtual devices; pure. Nothing here was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import Phase
from roambench.energy.device_power import DevicePower
from roambench.energy.energy_value import Energy
from roambench.energy.modelled_ledger import Chosen, ModelledLedger
from roambench.energy.modelled_table10 import modelled_table10
from roambench.energy.table10 import Table10
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
        """Joules that idling would have drawn: gross less net."""
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
    rows = ModelledLedger.of(modelled.rows)
    phases = []
    for phase in Phase:
        of_phase = rows.of_phase(phase)
        if of_phase.any():
            gross = rows.total("gross", of_phase)
            phases.append(
                ModelledPhase(
                    phase,
                    int(np.count_nonzero(of_phase)),
                    gross.covered_s,
                    int(rows.work.transferred_bytes[of_phase].sum()),
                    gross,
                    rows.total("net", of_phase),
                )
            )
    return ModelledSummary(
        modelled.links.name,
        modelled.rate,
        modelled.power,
        modelled_table10(rows, "gross", rounds=steps, devices=names, finished=finished),
        modelled_table10(rows, "net", rounds=steps, devices=names, finished=finished),
        tuple(phases),
        _by_step(rows, np.ones(len(rows), bool)),
        _by_step(rows, rows.wasted(finished=finished)),
        communication_to_threshold(rows, threshold_step, steps),
    )


def _by_step(rows: ModelledLedger, chosen: Chosen) -> dict[int, float]:
    steps, of_step = np.unique(rows.work.step[chosen], return_inverse=True)
    sums = np.bincount(of_step, rows.gross_j[chosen], len(steps))
    return dict(zip(steps.tolist(), sums.tolist(), strict=True))
