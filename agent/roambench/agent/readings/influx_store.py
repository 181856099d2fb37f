"""An agent's records on their way to InfluxDB, and the spool's own state there."""

from __future__ import annotations

import asyncio
import contextlib
import sys

from roambench.agent.settings import INFLUXDB
from roambench.contract.device_time import DeviceClock
from roambench.spool.consumer import Record
from roambench.spool.drain import BatchRefused, Drain
from roambench.spool.gate import Gate
from roambench.spool.influx import InfluxSender, InfluxWriter
from roambench.spool.influx_settings import InfluxSettings
from roambench.spool.line_protocol import FieldValue, LineEncoder, bench_line
from roambench.spool.spool import Spool


def _log(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


class InfluxStore:
    """Writes the records of `device` to one InfluxDB."""

    def __init__(self, settings: InfluxSettings, device: str, spool: Spool, clock: DeviceClock) -> None:
        self._device = device
        self._spool = spool
        self._clock = clock
        self._sender = InfluxSender(InfluxWriter(settings, _log), LineEncoder(device, spool))

    async def send(self, records: list[Record]) -> int:
        """Write records; raises as `InfluxSender.send` does."""
        return await self._sender.send(records)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._sender.aclose()

    async def monitor(self, drain: Drain, gate: Gate, period_s: float) -> None:
        """For ever: write the spool's state. Best effort: a point that cannot be written is not kept."""
        while True:
            await asyncio.sleep(period_s)
            if drain.slow:
                continue  # it has enough to do with the records
            with contextlib.suppress(OSError, BatchRefused):  # TimeoutError, too: the pass was broken off
                async with gate.passing():
                    await self._write_state()

    async def _write_state(self) -> None:
        context, consumer = self._spool.context, self._spool.consumers[INFLUXDB]
        if context is None:
            return
        values: dict[str, FieldValue] = {
            "spool_depth": consumer.depth,
            "oldest_age_s": consumer.oldest_age_s,
            "dropped": consumer.dropped,
            "dead": consumer.dead,
        }
        unix_ns = context.unix_ns(self._clock.now_ns())
        await self._sender.write(bench_line(self._device, context, values, unix_ns))
