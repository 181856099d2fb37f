"""The context of all records from one sequence number on: boot, run, meter, and where device time lies.

A point in a database needs a wall-clock time and tags, and both must be the same however often and by
whomever the record is written, else a repeat makes a second point. So they are settled once, kept in the
spool beside the records, and travel in the record stream as an event: the records come with their keys.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace

from roambench.contract.device_time import DeviceClock
from roambench.contract.events import EventKind
from roambench.contract.json_values import from_json
from roambench.contract.records import AgentEvent


@dataclass(frozen=True, slots=True)
class RecordContext:
    """`unix_ns` of a stamp = the stamp + `unix_minus_device_ns`: seconds stay seconds of device time.

    `clock` names the device clock ("0/1.0" on a board: epoch and scale); where a laptop's emulated time runs
    faster than the wall's, so do the points' times. `run` is empty between runs, `meter` without a meter;
    `bench` and `system` say where the run is made and what learns in it, as far as its controller said so.
    """

    boot_id: str
    clock: str
    unix_minus_device_ns: int
    meter: str = ""
    run: str = ""
    bench: str = ""
    system: str = ""

    def unix_ns(self, device_ns: int) -> int:
        """A device time of this boot by the wall clock, ns since 1970."""
        return device_ns + self.unix_minus_device_ns

    def to_json(self) -> str:
        """Its fields as JSON text; `from_json` is the inverse."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def to_event(self, ns: int) -> AgentEvent:
        """The event that puts the record context's begin among the records."""
        return AgentEvent(EventKind.RECORD_CONTEXT_BEGINS, ns, self.to_json())

    @classmethod
    def from_json(cls, text: str) -> RecordContext:
        """Inverse of `to_json`; ConfigError (a ValueError) for anything else."""
        return from_json(cls, text, EventKind.RECORD_CONTEXT_BEGINS)


def following(
    last: RecordContext | None,
    *,
    boot_id: str,
    clock: DeviceClock,
    meter: str,
    run: str,
    bench: str = "",
    system: str = "",
) -> RecordContext:
    """The record context that these circumstances call for: `last` itself when nothing has changed.

    The wall clock is asked for every boot and every run (a Pi has no battery-backed clock: right after
    booting its time may be hours off, until the network has set it); a restart of the agent inside a run
    keeps the mapping of the life before, also when the wall clock was corrected meanwhile. A run keeps its
    bench and system over boots.
    """
    name = f"{clock.epoch_ns}/{clock.time_scale}"
    if last is not None and (last.boot_id, last.clock, last.run) == (boot_id, name, run):
        return replace(last, meter=meter)
    if last is not None and last.run == run:
        bench, system = last.bench, last.system
    # At the epoch device time is `ahead_ns` more than the host's CLOCK_MONOTONIC.
    unix_minus_device_ns = time.time_ns() - time.monotonic_ns() - clock.ahead_ns
    return RecordContext(boot_id, name, unix_minus_device_ns, meter, run, bench, system)
