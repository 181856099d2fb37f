"""The controller's own part in InfluxDB: clock points of every device, forwarding where agents cannot, and
the joules of phases when a run has ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from roambench.contract.counts import count
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import RoambenchError
from roambench.contract.events import EventKind
from roambench.experiment.sections import InfluxdbSection
from roambench.fleet.crashes import logged_if_it_crashes
from roambench.rounds.records import ClockProbed
from roambench.runs.folder import RunFolder
from roambench.runs.influx.forward import InfluxForwarder
from roambench.runs.measured.accounted import energy_of
from roambench.spool.drain import BatchRefused
from roambench.spool.influx import InfluxWriter
from roambench.spool.influx_settings import InfluxSettings, host_beyond, readable_at
from roambench.spool.line_protocol import FieldValue, bench_line, energy_line
from roambench.spool.record_context import RecordContext

MONITOR_PERIOD_S: Final = 10.0
FLUSH_S: Final = 30.0
#: Host seconds at the end for points of the controller's own, which are not missed.
POINTS_S: Final = 5.0
_LOG: Final = logging.getLogger(__name__)
#: Who writes the controller's own points.
_OWN_NAME: Final = "controller"


def influx_settings(section: InfluxdbSection) -> InfluxSettings | None:
    """Address, database and token for a writer; None where no InfluxDB is named."""
    if not section.url:
        return None
    return InfluxSettings(
        section.url,
        section.bucket,
        section.org,
        section.api,
        section.token_file,
        section.token_env,
        section.gzip,
    )


def influx_note(section: InfluxdbSection) -> str:
    """Return where a run's records go and with which token, for a person; "" where they stay on this
    machine."""
    host = host_beyond(section.url) if section.url else ""
    if not host:
        return ""
    token = ""
    if section.token_file:
        token = f" and the token in {section.token_file}"
    elif os.environ.get(section.token_env, "").strip():
        token = f" and the token of ${section.token_env}"
    clear = ""
    if readable_at(section.url):
        clear = " over plain HTTP, where others can read them on the way (https:// protects them)"
    return f"influxdb: records{token} go to {host}{clear}"


def run_context(folder: RunFolder, bench: str) -> RecordContext:
    """The tags of a run's points, without a boot and a meter."""
    return RecordContext("", "", 0, "", folder.info.run_id, bench, folder.info.system)


def write_joules(
    folder: RunFolder, settings: InfluxSettings | None, bench: str, report: Callable[[str], None]
) -> None:
    """Write what each device's phases took, as the report has it. Best effort: `report` gets why not.

    The points lie at the run's start: should it be resumed and end again, they are the same points.
    """
    energy = energy_of(folder, folder.read_log()) if settings is not None else None
    if settings is None or energy is None:
        return
    start_ns = round(datetime.fromisoformat(folder.info.created_utc).timestamp()) * 10**9
    run, lines = run_context(folder, bench), []
    for device in energy.counted:
        for phase in device.ledger.phases():
            rows = device.ledger.of_phase(phase)
            gross = device.ledger.total("gross", rows)
            values: dict[str, FieldValue] = {
                "gross_j": gross.joules,
                "net_j": device.ledger.total("net", rows).joules,
                "u_gross_j": gross.u_joules,
                "duration_s": gross.covered_s + gross.gap_s,
                "covered_s": gross.covered_s,
            }
            lines.append(energy_line(device.device, run, phase, values, start_ns))
    if not lines:
        return
    writer = InfluxWriter(settings, _log_mistake)
    try:
        writer.write("\n".join(lines).encode())
    except (OSError, BatchRefused) as error:
        report(f"influxdb: the joules of phases are not written: {error}")
    finally:
        writer.close()


def _log_mistake(trace: str) -> None:
    """The traceback of a mistake of ours, without the token, for its report."""
    _LOG.error("a write to InfluxDB fails with %s\n%s", trace.splitlines()[-1], trace.rstrip())


class InfluxLive:
    """Runs beside a run. Nothing that goes wrong here ends the run: `report(kind, detail)` gets it."""

    def __init__(
        self,
        folder: RunFolder,
        settings: InfluxSettings | None,
        bench: str,
        clock: DeviceClock,
        report: Callable[[EventKind, str], None],
        *,
        forwards: bool,
    ) -> None:
        """`forwards`: what agents drain goes on to the server of `settings`."""
        self._names = folder.info.device_names
        self._run = run_context(folder, bench)
        self._clock = clock
        self._report = report
        self._unix_minus_host_ns = time.time_ns() - time.monotonic_ns()
        self._writer = InfluxWriter(settings, self._keep) if settings is not None else None
        self._writing = asyncio.Lock()
        self._chores: set[asyncio.Task[None]] = set()
        self._forwarder: InfluxForwarder | None = None
        if settings is not None and forwards:
            self._forwarder = InfluxForwarder(
                folder.records, self._run, settings, self._trouble, self._slow, self._keep
            )

    def start(self) -> None:
        """Begin to forward and to watch the server."""
        if self._forwarder is not None:
            self._begin(self._forward(self._forwarder))
            self._begin(self._monitor(self._forwarder))

    def clock_probed(self, record: ClockProbed) -> None:
        """A point of how far a device's clock is off, best effort."""
        values = {"clock_offset_ms": record.offset_ns * 1e-6, "clock_bound_ms": record.bound_ns * 1e-6}
        self._write(self._names[record.device], record.boot_id, values, record.at_ns)

    async def aclose(self) -> int:
        """Stop, forward what is left within `FLUSH_S`; returns how many records were not."""
        points = [chore for chore in self._chores if chore.get_name() == "point"]
        for chore in self._chores.difference(points):
            chore.cancel()
        if points:
            await asyncio.wait(points, timeout=POINTS_S)
        for chore in points:
            chore.cancel()
        if self._writer is not None:
            self._writer.abort()  # of a slow store: the last points are not waited for
        await asyncio.gather(*self._chores, return_exceptions=True)
        left = 0
        if self._forwarder is not None:
            with self._explained():
                await self._forwarder.flush(FLUSH_S)
                left = self._forwarder.depth
                if self._forwarder.dead:
                    self._report(
                        EventKind.STORE_REFUSES, f"influxdb: {count(self._forwarder.dead, 'record')} for good"
                    )
            await self._forwarder.aclose()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        return left

    async def _forward(self, forwarder: InfluxForwarder) -> None:
        try:
            await forwarder.run()
        except* Exception as group:  # the run goes on; what is not forwarded is in its folder
            _LOG.exception("forwarding to InfluxDB ended")
            self._report(EventKind.STORE_REFUSES, f"influxdb: forwarding ended: {group.exceptions[0]}")

    async def _monitor(self, forwarder: InfluxForwarder) -> None:
        while True:
            await asyncio.sleep(MONITOR_PERIOD_S)
            with self._explained():
                values: dict[str, FieldValue] = {"spool_depth": forwarder.depth, "dead": forwarder.dead}
                self._write(_OWN_NAME, "", values, self._clock.now_ns())

    def _write(self, device: str, boot_id: str, values: dict[str, Any], device_ns: int) -> None:
        if self._writer is not None:
            unix_minus_device_ns = self._unix_minus_host_ns - self._clock.ahead_ns
            context = replace(self._run, boot_id=boot_id, unix_minus_device_ns=unix_minus_device_ns)
            line = bench_line(device, context, values, context.unix_ns(device_ns))
            self._begin(self._write_line(self._writer, line), name="point")

    async def _write_line(self, writer: InfluxWriter, line: str) -> None:
        async with self._writing:
            with contextlib.suppress(OSError, BatchRefused):
                await asyncio.to_thread(writer.write, line.encode())

    def _begin(self, work: Coroutine[Any, Any, None], name: str = "") -> None:
        chore = logged_if_it_crashes(asyncio.create_task(work, name=name or None))
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)

    def _keep(self, trace: str) -> None:
        _log_mistake(trace)

    def _trouble(self, reason: str) -> None:
        if reason:
            self._report(EventKind.STORE_REFUSES, f"influxdb: {reason}")
        else:
            self._report(EventKind.STORE_RECOVERED, "influxdb")

    def _slow(self, how: str) -> None:
        self._report(
            EventKind.STORE_SLOW if how else EventKind.STORE_RECOVERED,
            f"influxdb: {how}" if how else "influxdb",
        )

    @contextlib.contextmanager
    def _explained(self) -> Any:
        try:
            yield
        except RoambenchError as error:
            self._report(EventKind.STORE_REFUSES, f"influxdb: {error}")
