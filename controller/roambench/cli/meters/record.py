"""`roambench meter record`: a meter's bytes, as they come, with the time of their coming."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import typer

from roambench.contract.errors import MeterError
from roambench.meters.catalogue import driver_row
from roambench.meters.sources.source import cause
from roambench.meters.transcript import TranscriptWriter
from roambench.runner.screen import print_json


async def record_to(
    path: Path, driver: str, port: str, seconds: float | None, *, as_json: bool = False
) -> None:
    """Record until `seconds` are over, Ctrl-C, or the line is lost (MeterError; what came is kept)."""
    row = driver_row(driver)
    parsed = row.port(port)
    source, frames = row.source(parsed), row.frames(parsed)
    options = "".join(
        f"{'&' if i else '?'}{name}={value}"
        for i, (name, value) in enumerate(parsed.options.items())
        if name in ("channel", "interval_ms", "period_s", "serial")
    )
    comment = (
        f"meter: {driver}{options}\n"
        f"recorded {datetime.now(UTC):%Y-%m-%d %H:%M} UTC from {port} by roambench {version('roambench')}\n"
    )
    writer = TranscriptWriter(path, comment)
    ending = asyncio.Event()
    lost = ""
    heard = 0
    start_ns = 0

    def take(data: bytes) -> None:
        nonlocal heard
        now_ns = time.monotonic_ns()
        writer.write((now_ns - start_ns) * 1e-9, data)
        frames.feed(data, now_ns)
        heard += len(data)

    def lose(why: str) -> None:
        nonlocal lost
        lost = why
        ending.set()

    start_ns = time.monotonic_ns()
    try:
        try:
            await source.open(take, lose)
        except (OSError, ValueError) as error:
            path.unlink()
            raise MeterError(f"meter {port}: cannot be opened ({cause(error)})") from None
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ending.set)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ending.wait(), seconds)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        await source.close()
        writer.close()
    lasted_s = (time.monotonic_ns() - start_ns) * 1e-9
    if as_json:
        print_json({"file": path, "heard_bytes": heard, "lasted_s": lasted_s, "lines": asdict(frames.counts)})
    else:
        typer.echo(f"{path}: {heard} bytes in {lasted_s:.1f} s; lines: {frames.counts.text()}")
    if lost:
        raise MeterError(f"meter {port}: lost ({lost}); what came before is in {path}")
