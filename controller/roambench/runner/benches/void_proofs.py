"""A run's observations of its boards' meters, taken into the bench's proof of which meter is whose."""

from __future__ import annotations

import time
from collections.abc import Sequence

from roambench.contract.device_time import DeviceClock
from roambench.provision.bench import NO_METER, Bench, Host
from roambench.provision.meter_map import void
from roambench.runs.folder import RunFolder
from roambench.runs.measured.common_clock import on_one_clock
from roambench.runs.measured.reopened import reopenings


def void_proofs(bench: Bench, hosts: Sequence[Host], folder: RunFolder, clock: DeviceClock) -> None:
    """The proof of a meter that was opened again in the run is void, unless it was proven again since.

    FleetError where the bench's map cannot be written.
    """
    store = on_one_clock(folder, folder.read_log(), folder.records)
    now_s, now_ns = time.time(), clock.now_ns()
    found = {}
    for host in hosts:
        if host.meter.driver != NO_METER and (again := reopenings(store.events(host.name))):
            at_s = now_s - (now_ns - again[-1].ns) * 1e-9
            found[host.name] = at_s, f"in run {folder.path.name} it was opened again, as {again[-1].why}"
    if found:
        void(bench, found)
