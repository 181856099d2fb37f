"""The run that a device takes part in: kept in the spool's record context, so it survives agent and board."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from roambench.contract.device_time import DeviceClock
from roambench.spool.record_context import following
from roambench.spool.spool import Spool

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class RunContext:
    """Says whose the records of `spool` are; `meter` is the driver's name, empty without a meter."""

    spool: Spool
    clock: DeviceClock
    meter: str
    boot_id: str = field(default_factory=lambda: _BOOT_ID.read_text().strip())

    @property
    def run_id(self) -> str:
        """Empty: none."""
        context = self.spool.context
        return context.run if context is not None else ""

    def begin(self, run: str, bench: str = "", system: str = "") -> None:
        """Records from now on, of this boot and this clock, belong to `run` (empty: to none), which `system`
        makes on `bench`."""
        context = following(
            self.spool.context,
            boot_id=self.boot_id,
            clock=self.clock,
            meter=self.meter,
            run=run,
            bench=bench,
            system=system,
        )
        self.spool.begin_context(context, self.clock.now_ns())

    def end_run(self) -> None:
        """End the run: what comes after an orderly end belongs to no run, until a controller names the
        next."""
        last = self.spool.context
        if last is not None:
            self.spool.begin_context(replace(last, run="", system=""), self.clock.now_ns())
