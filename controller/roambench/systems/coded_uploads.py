"""The choice of uploads that are not coded: of devices that coding costs more joules than it saves; ours."""

from __future__ import annotations

import numpy as np

from roambench.contract.phases import Phase
from roambench.systems.system import Candidates, Selected

_SUMS, _COUNTS, _BEFORE, _LAST = "upload joules", "uploads", "joules before", "last upload"
_CODED, _PLAIN = 0, 1
#: Uploads of each kind, of all devices, before their joules decide.
_TRIED = 10


def costly_to_code(offered: Candidates) -> Selected:
    """The devices, of those that are to upload, whose models travel as they are.

    An upload's joules are those of its coding and its transfer, as they were seen before the device's next
    upload. Each device compares its mean of coded uploads with that of plain ones, both with one more
    upload that cost the mean of all devices. Until ten of each kind are known they take turns. A code that
    loses nothing worth an upload gains the same accuracy, so that fewer joules are more accuracy per joule.
    """
    devices = max([len(offered.memory.get(_LAST, ())), *(device + 1 for device in offered.devices)])
    sums, counts = np.zeros((2, devices)), np.zeros((2, devices))
    before, last = np.zeros(devices), np.zeros(devices)
    for name, numbers in ((_SUMS, sums), (_COUNTS, counts), (_BEFORE, before), (_LAST, last)):
        known = offered.memory.get(name, np.zeros(0)).reshape(*numbers.shape[:-1], -1)
        numbers[..., : known.shape[-1]] = known
    plain = []
    for turn, device in enumerate(offered.devices):
        phases = offered.energy[device].phases
        now_j = sum(phases[phase].joules for phase in (Phase.ENCODE, Phase.UPLOAD) if phase in phases)
        if last[device] and now_j > before[device]:  # an upload that failed has no joules
            kind = int(last[device]) - 1
            sums[kind, device] += now_j - before[device]
            counts[kind, device] += 1.0
            before[device] = now_j
        whole = counts.sum(axis=1)
        if whole.min() < _TRIED:
            kind = (offered.step + turn) % 2
        else:
            mean_j = sums.sum(axis=1) / whole
            own_j = (sums[:, device] + mean_j) / (counts[:, device] + 1.0)
            kind = _PLAIN if own_j[_PLAIN] < own_j[_CODED] else _CODED
        last[device] = kind + 1
        if kind == _PLAIN:
            plain.append(device)
    kept = {_SUMS: sums.reshape(-1), _COUNTS: counts.reshape(-1), _BEFORE: before, _LAST: last}
    return Selected(plain, kept)
