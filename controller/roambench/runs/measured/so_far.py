"""Measured joules of agents while their run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing

from roambench.runs.folder import RunFolder
from roambench.runs.growing_records import GrowingRecords, Known
from roambench.runs.marks import RECORDS
from roambench.runs.measured.accounts import account_run
from roambench.systems.system import SpentEnergy


class MeasuredSoFar:
    """`rounds.ports.EnergySoFar` of agents: the account of what they have drained by now. A device whose
    records are in doubt has no joules. Each look reads what was drained since the last one."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._known: Known = {}

    async def of(self, devices: Sequence[int]) -> Mapping[int, SpentEnergy]:
        """The joules of these devices; RunError where the run's records cannot be read."""
        self._folder.journal.sync()
        known = await asyncio.to_thread(self._account)
        return {
            device: known.get(self._folder.info.device_names[device], SpentEnergy()) for device in devices
        }

    def _account(self) -> dict[str, SpentEnergy]:
        """In a thread: agents are answered meanwhile."""
        with (
            RunFolder.open(self._folder.path) as folder,
            closing(GrowingRecords(folder.path / RECORDS, self._known)) as records,
        ):
            energy = account_run(folder, folder.read_log(), store=records)
        if energy is None:
            return {}
        return {one.device: SpentEnergy(one.whole_run, one.ledger.by_phase()) for one in energy.counted}
