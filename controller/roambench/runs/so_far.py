"""The joules of a run's devices while it goes on, on any fleet."""

from __future__ import annotations

from roambench.rounds.ports import EnergySoFar, Journal
from roambench.runs.folder import RunFolder
from roambench.runs.measured.so_far import MeasuredSoFar
from roambench.runs.modelled.so_far import ModelledSoFar


def energy_so_far(folder: RunFolder, journal: Journal) -> tuple[Journal, EnergySoFar | None]:
    """Modelled ones of virtual devices, which follow the journal that is to be written instead of `journal`;
    measured ones of agents; None in a rehearsal. RunError where the run cannot be read."""
    if folder.info.kind.is_virtual:
        modelled = ModelledSoFar(folder, journal)
        return modelled, modelled
    return journal, MeasuredSoFar(folder) if folder.info.kind.has_agents else None
