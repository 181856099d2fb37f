"""Modelled joules of virtual devices while their run goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy, total
from roambench.energy.ledger import PHASES
from roambench.rounds.ports import Journal
from roambench.rounds.records import (
    BatteriesSeen,
    EnergySeen,
    ModelsExchanged,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
)
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.modelled.accounts import energy_model, ledger_of_log
from roambench.systems.system import SpentEnergy


class ModelledSoFar:
    """`rounds.ports.EnergySoFar` of virtual devices: the ledger of what its journal was given, which passes
    all on to `journal`. A run that goes on begins with the folder's log, summed in the portions in which it
    was seen before: the joules are the same to the last bit."""

    def __init__(self, folder: RunFolder, journal: Journal) -> None:
        """RunError where the run's experiment or log cannot be read."""
        self._journal = journal
        self._names = folder.info.device_names
        self._model, self._rate = energy_model(folder)
        self._rest_s = folder.info.rest_s
        self._open: list[RoundRecord] = []
        self._energy: dict[int, dict[Phase, Energy]] = defaultdict(dict)
        for record in folder.read_log():
            self._follow(record)

    def append(self, record: RoundRecord) -> None:
        """Add a record to the journal, and its joules to what is known."""
        self.extend((record,))

    def extend(self, records: Sequence[RoundRecord]) -> None:
        """Add records to the journal, and their joules to what is known."""
        self._journal.extend(records)
        for record in records:
            self._follow(record)

    async def of(self, devices: Sequence[int]) -> Mapping[int, SpentEnergy]:
        """The joules of all work of these devices that was answered by now."""
        self._book()
        found = {}
        for device in devices:
            known = self._energy.get(device, {})
            phases = {phase: known[phase] for phase in PHASES if phase in known}
            found[device] = SpentEnergy(total(phases.values()), phases)
        return found

    def _follow(self, record: RoundRecord) -> None:
        if isinstance(record, OrderGiven | OrderAnswered | ModelsExchanged):
            self._open.append(record)
        elif isinstance(record, EnergySeen | BatteriesSeen):
            self._book()

    def _book(self) -> None:
        """Account what was done since the last time; all orders of it are answered."""
        if not self._open:
            return
        ledger = ledger_of_log(EventLog.of(self._open), self._names, self._model, self._rate, self._rest_s)
        self._open.clear()
        pairs = ledger.device * len(PHASES) + ledger.phase
        order = np.argsort(pairs, kind="stable")
        found, starts = np.unique(pairs[order], return_index=True)
        for pair, rows in zip(found.tolist(), np.split(order, starts)[1:], strict=True):
            device, phase = divmod(pair, len(PHASES))
            known = self._energy[device]
            known[PHASES[phase]] = known.get(PHASES[phase], Energy()) + ledger.total("gross", rows)
