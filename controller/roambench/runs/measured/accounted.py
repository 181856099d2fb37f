"""The energy accounts of this process, each made once for what its run folder holds.

A run is accounted when its tables are exported and reported directly afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from roambench.learning.malloc import keep_freed_memory
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import RunEnergy, account_run

#: Readings of all accounts in memory, about 100 MB; a run with more is accounted each time.
_MAX_READINGS: Final = 2_000_000

_accounts: Final[dict[Path, tuple[tuple[Any, ...], RunEnergy]]] = {}  # oldest first


def energy_of(folder: RunFolder, log: EventLog) -> RunEnergy | None:
    """`account_run` of the folder's own records. The account of an earlier call is returned until the run's
    records, event log, border, settings or truth change."""
    ends = folder.records.ends()
    if sum(sum(spools.values()) for spools in ends.values()) > 2 * _MAX_READINGS:
        keep_freed_memory(arenas=1)  # two boards' arrays, one after the other: a quarter of the time
        return account_run(folder, log)
    path, source = folder.path.resolve(), _source(folder, log)
    known = _accounts.pop(path, None)
    if known is not None and known[0] == source:
        _accounts[path] = known
        return known[1]
    energy = account_run(folder, log)
    if energy is not None and _readings(energy) <= _MAX_READINGS:
        _accounts[path] = source, energy
        while sum(_readings(each) for _, each in _accounts.values()) > _MAX_READINGS:
            del _accounts[next(iter(_accounts))]
    return energy


def _source(folder: RunFolder, log: EventLog) -> tuple[Any, ...]:
    """Return what an account is made of. Records and events are only ever added, so that their numbers
    tell."""
    info, records = folder.info, folder.records
    truths = sorted((folder.path / "truth").glob("*.csv"))
    return (
        (info.run_id, info.created_utc, info.fleet, info.device_names),
        (info.start_device_ns, info.end_device_ns),
        folder.experiment.energy,
        len(log),
        records.ends(),
        {device: records.counts(device) for device in records.devices()},
        [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in truths],
    )


def _readings(energy: RunEnergy) -> int:
    return sum(device.lines.count for device in energy.devices)
