"""Modelled energy of a run on virtual devices; pure. Nothing here was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roambench.contract.phases import Phase
from roambench.energy.ledger import running_sum
from roambench.energy.modelled.device_power import DevicePower
from roambench.report.summaries.energy import PhaseSum
from roambench.report.summaries.rounds import RoundEnergy, rounds_of
from roambench.report.table10 import Table10, table10
from roambench.runs.modelled.accounts import ModelledEnergy, Rate
from roambench.runs.modelled.to_threshold import CommunicationToThreshold, communication_to_threshold


@dataclass(frozen=True, slots=True)
class ModelledPhase(PhaseSum):
    """A phase, with the bytes that were moved in it."""

    transferred_bytes: int


@dataclass(frozen=True, slots=True)
class ModelledSummary:
    """Modelled energy of one run; uncertainties are the link model's alone (0 where it tells none)."""

    link_model: str
    rate: Rate
    power: DevicePower
    gross: Table10
    net: Table10
    phases: tuple[ModelledPhase, ...]
    wasted_by_phase: Mapping[Phase, float]  # gross
    consumed_by_step: Mapping[int, float]  # gross, by the round of the training
    wasted_by_step: Mapping[int, float]
    rounds: tuple[RoundEnergy, ...]  # of an app's run
    to_threshold: CommunicationToThreshold
    whole_uploads_j: float | None  # gross, had each upload been of a whole model


def modelled_summary(
    modelled: ModelledEnergy | None,
    names: Sequence[str],
    *,
    steps: int,
    threshold_step: int | None,
    finished: bool,
    by_round: bool = False,
    model_bytes: int | None = None,
) -> ModelledSummary | None:
    """Sum up; None for a run that has no modelled energy. `finished`: pending models count as wasted;
    `by_round`: with its `rounds`."""
    if modelled is None:
        return None
    rows = modelled.ledger
    wasted = rows.wasted(finished=finished)
    phases = []
    for phase in Phase:
        of_phase = rows.of_phase(phase)
        if of_phase.any():
            gross = rows.total("gross", of_phase)
            phases.append(
                ModelledPhase(
                    phase=phase,
                    count=int(np.count_nonzero(of_phase)),
                    duration_s=gross.covered_s,
                    gross=gross,
                    net=rows.total("net", of_phase),
                    transferred_bytes=int(rows.work.transferred_bytes[of_phase].sum()),
                )
            )
    return ModelledSummary(
        link_model=modelled.links.name,
        rate=modelled.rate,
        power=modelled.power,
        gross=table10(rows, "gross", rounds=steps, devices=names, finished=finished),
        net=table10(rows, "net", rounds=steps, devices=names, finished=finished),
        phases=tuple(phases),
        wasted_by_phase={
            phase: running_sum(rows.gross_j[wasted & rows.of_phase(phase)]) for phase in rows.phases(wasted)
        },
        consumed_by_step=rows.by_step(),
        wasted_by_step=rows.by_step("gross", wasted),
        rounds=rounds_of(rows) if by_round else (),
        to_threshold=communication_to_threshold(rows, threshold_step, steps),
        whole_uploads_j=modelled.uploads_j(model_bytes) if model_bytes else None,
    )
