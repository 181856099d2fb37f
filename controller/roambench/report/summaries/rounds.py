"""Joules of each device in each round; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.phases import ACTIVE_PHASES, Phase
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import Ledger

#: What a page has room for; the ledger has all.
_MOST_DEVICES: Final = 12
_MOST_ROUNDS: Final = 40


@dataclass(frozen=True, slots=True)
class RoundEnergy:
    """Gross energy of a round's active phases, by device, and of all."""

    last_step: int
    by_device: Mapping[str, Energy]
    whole: Energy


def rounds_of(ledger: Ledger) -> tuple[RoundEnergy, ...]:
    """The rounds in which something was ordered; none where they, or the devices, are too many to show.

    A round is a step. One in which devices evaluate alone is of the round before, whose model they judge,
    and what an app asks first is of the first.
    """
    active, evaluate = ledger.of_phase(*ACTIVE_PHASES), ledger.of_phase(Phase.EVALUATE)
    begins = np.setdiff1d(np.unique(ledger.step[active]), np.unique(ledger.step[evaluate]))
    begins = np.union1d(begins, np.unique(ledger.step[ledger.of_phase(Phase.TRAIN)]))
    if not 0 < len(begins) <= _MOST_ROUNDS or len(ledger.names) > _MOST_DEVICES:
        return ()
    found = []
    for place in range(len(begins)):
        rows = active & (np.maximum(1, np.searchsorted(begins, ledger.step, "right")) == place + 1)
        devices = {code: rows & (ledger.device == code) for code in np.unique(ledger.device[rows]).tolist()}
        found.append(
            RoundEnergy(
                int(ledger.step[rows].max()),
                {ledger.names[code]: ledger.total("gross", of_one) for code, of_one in devices.items()},
                ledger.total("gross", rows),
            )
        )
    return tuple(found)
