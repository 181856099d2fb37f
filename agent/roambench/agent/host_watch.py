"""The board's own state, sampled into the spool as the settings or the present run want it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from roambench.agent.host_metrics import HostMetrics, watch_host
from roambench.agent.settings import HostSettings
from roambench.contract.device_time import DeviceClock
from roambench.contract.records import HostSample, RecordKind


class HostWatch:
    """`measured` says whether a measured phase is on, `hushed` whether no sample is wanted whatever is on."""

    def __init__(
        self,
        settings: HostSettings,
        clock: DeviceClock,
        record: Callable[[RecordKind, bytes], object],
        *,
        emulated: bool,
        measured: Callable[[], bool],
        hushed: Callable[[], bool],
    ) -> None:
        self._settings = self._now = settings
        self._clock = clock
        self._record = record
        self._emulated = emulated
        self._measured = measured
        self._hushed = hushed
        self._changed = asyncio.Event()

    def follow(self, period_s: float, *, during_phases: bool) -> None:
        """From now on as a run wants it."""
        self._now = replace(self._settings, period_s=max(0.0, period_s), during_phases=during_phases)
        self._changed.set()

    def forget_run(self) -> None:
        """As the settings have it again."""
        self._now = self._settings
        self._changed.set()

    async def run(self) -> None:
        """Sample for ever, with the period of the moment; cancel it to stop."""
        while True:
            self._changed.clear()
            watching = None
            if self._now.period_s > 0:
                watching = asyncio.create_task(self._keep_samples(self._now))
            try:
                await self._changed.wait()
            finally:
                if watching is not None:
                    watching.cancel()
                    await asyncio.gather(watching, return_exceptions=True)

    async def _keep_samples(self, settings: HostSettings) -> None:
        metrics = HostMetrics(settings, emulated=self._emulated)

        def keep(sample: HostSample) -> None:
            self._record(RecordKind.HOST, sample.to_bytes())

        def unwanted() -> bool:
            return self._hushed() or (self._measured() and not settings.during_phases)

        await watch_host(metrics, settings, self._clock, keep, unwanted)
