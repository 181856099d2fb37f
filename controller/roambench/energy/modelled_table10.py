"""The rows of MOHAWK's Table 10 from a modelled ledger's columns; pure. See `table10` for their meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roambench.energy.ledger import Kind
from roambench.energy.modelled_ledger import NONE, Chosen, Codes, ModelledLedger, Numbers
from roambench.energy.table10 import MeanSd, Table10


def modelled_table10(
    ledger: ModelledLedger,
    kind: Kind = "gross",
    *,
    rounds: int | None = None,
    devices: Sequence[str] = (),
    finished: bool = True,
) -> Table10:
    """Table 10 of a modelled ledger: the result of `table10` for the same rows, to the bit; all modelled rows
    are active ones."""
    work, used, wasted = ledger.work, ledger.joules(kind), ledger.wasted(finished=finished)
    lost = np.where(wasted, used, 0.0)
    training = work.training != NONE
    listed = set(devices)
    there = np.bincount(work.device, minlength=len(work.names)) > 0
    there |= np.array([name in listed for name in work.names], bool)
    absent = len(listed - set(work.names))
    by_round = np.unique(work.step)
    last = int(by_round[-1]) + 1 if by_round.size else 0
    return Table10(
        kind,
        ledger.total(kind, wasted),
        ledger.total(kind),
        *_wasted_then_consumed(work.training[training], used[training], lost[training]),
        *_wasted_then_consumed(work.device, used, lost, there, absent),
        *_wasted_then_consumed(work.step, used, lost),
        empty_rounds=max(last, rounds or 0) - len(by_round),
    )


def _wasted_then_consumed(
    codes: Codes, used: Numbers, lost: Numbers, groups: Chosen | None = None, more: int = 0
) -> tuple[MeanSd, MeanSd]:
    """Of the sums of each code (default: those that occur), and of as many zeros `more`."""
    if groups is None:
        occurring, codes = np.unique(codes, return_inverse=True)
        groups = np.ones(len(occurring), bool)
    sums = (np.bincount(codes, values, len(groups))[groups].tolist() for values in (lost, used))
    wasted, consumed = (MeanSd.of([*values, *[0.0] * more]) for values in sums)
    return wasted, consumed
