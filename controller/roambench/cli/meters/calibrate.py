"""`roambench meter calibrate`: some loads and a reference make a line of the calibration file."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import re
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import typer

from roambench.contract.counts import count
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, ReadingFlag
from roambench.energy.readings.samples import UNUSABLE
from roambench.experiment.meter_calibration_file import (
    read_meter_calibrations,
    with_meter_calibration,
)
from roambench.instrument.load_points import NO_ZERO, LoadPoint, calibrate, doubts, linearity
from roambench.meters.catalogue import driver_row, open_meter
from roambench.meters.ports import Port
from roambench.meters.protocol import Meter
from roambench.meters.traits import MeterDescription, MeterTraits
from roambench.runner.screen import print_json
from roambench.runs.whole_file import write_whole

#: After a load was connected, before its readings count: windows that still hold the old one, old lines.
SETTLE_S: Final = 2.0
_LOADS: Final = (
    "about 2 W (at 5.1 V: 13 ohm)",
    "about 5 W (at 5.1 V: 5.2 ohm, rated for 10 W)",
    "about 3.5 W (at 5.1 V: 7.5 ohm)",
)
_NUMBER: Final = r"(\d+(?:\.\d*)?|\.\d+)"
_WATTS: Final = re.compile(rf"{_NUMBER}\s*W?", re.IGNORECASE)
_VOLTS_AND: Final = re.compile(rf"{_NUMBER}\s*V\s*,?\s*{_NUMBER}\s*(A|ohms?|Ω)", re.IGNORECASE)


def calibrate_meter(
    driver: str,
    port: str,
    path: Path,
    reference: str,
    u_reference: float,
    u_value_w: float,
    seconds: float,
    loads: int,
    *,
    as_json: bool = False,
) -> None:
    """Guide through the loads and write the table; ConfigError or MeterError says what is in the way.

    A person at the keyboard is no boot loop: the port is opened without the latch.
    """
    parsed = driver_row(driver).port(port)
    serial = serial_of(parsed)
    if not reference.strip() and u_reference:
        raise ConfigError(["--reference: expected the name of what --u-reference belongs to"])
    before = read_meter_calibrations(path).get(serial) if path.exists() else None
    meter = open_meter(driver, port, DeviceClock(), reopen_allowed=True)
    read = _Readout(meter, driver_row(driver).description(parsed).row)
    with asyncio.Runner() as runner:
        runner.run(meter.open())
        try:
            typer.echo(
                f"Meter {serial} is open. Its line into {path} comes from {loads} loads, {seconds:g} s each.",
                err=as_json,
            )
            points = [
                _load(
                    runner,
                    read,
                    f"{number} of {loads}: connect {load_text}",
                    seconds,
                    u_value_w,
                    as_json,
                )
                for number, load_text in enumerate(_LOADS[:loads], 1)
            ]
        finally:
            runner.run(meter.aclose())
    made = calibrate(points, reference.strip(), u_reference)
    about = "; ".join(
        f"{point.true_w:.4f} W read {point.read.watts:.4f} ± {2.0 * point.read.u_watts:.4f} W"
        for point in points
    )
    today = dt.datetime.now(dt.UTC).date()
    write_whole(path, with_meter_calibration(path, serial, made, today, f"{driver}: {about}"))
    found_doubts = doubts(made, points, read.traits)
    if as_json:
        document = {"serial": serial, "gain": made.gain, "u_gain_rel": made.u_gain, "offset_w": made.offset_w}
        document["u_linearity_rel"] = linearity(points) if loads > 2 else None
        print_json({**document, "u_offset_w": made.u_offset_w, "file": path, "doubts": found_doubts})
        return
    typer.echo(
        f"{serial}: gain {made.gain:.5f} ± {2.0 * made.gain * made.u_gain:.5f}, offset "
        f"{1e3 * made.offset_w:+.1f} ± {2e3 * made.u_offset_w:.1f} mW (2u)"
    )
    bend = (
        f"± {2.0 * linearity(points):.2%} of the gain (2u, within it)"
        if loads > 2
        else "not measured: --loads 3"
    )
    typer.echo(f"how far the gain depends on the power: {bend}")
    if before is not None:
        typer.echo(
            f"was: gain {before['gain']}, offset {before['offset_w']} W of {before['date'] or 'no date'}"
        )
    for doubt in found_doubts:
        typer.echo(f"warning: {doubt}", err=True)
    typer.echo(f"{path}: [{serial}] written; name the file in the experiment: [energy] calibration_file")


def serial_of(port: Port) -> str:
    """The meter's serial number, which its table is filed under: the port's option, else its USB bridge's.

    ConfigError without: a board's or a port's name stays when another meter is put there.
    """
    if "serial" in port.options:
        return port.options["serial"]
    from serial.tools import list_ports

    for found in list_ports.comports(include_links=True):
        if found.device == port.address and found.serial_number:
            return str(found.serial_number)
    raise port.mistake(
        "expected the meter's serial number, which no USB device tells here: "
        f"{port.text}{'&' if port.options else '?'}serial=NUMBER, the same as in the bench file"
    )


def watts_of(text: str) -> float:
    """The power in "1.912 W", "5.098 V 0.375 A" or "5.098 V 13.6 ohm"; ConfigError for anything else."""
    text = text.strip()
    if found := _WATTS.fullmatch(text):
        return float(found[1])
    if found := _VOLTS_AND.fullmatch(text):
        volts, other = float(found[1]), float(found[2])
        if found[3].upper() == "A":
            return volts * other
        if other:
            return volts * volts / other
    raise ConfigError([f"expected watts (1.912 W), or 5.098 V 0.375 A, or 5.098 V 13.6 ohm, got {text!r}"])


def _load(
    runner: asyncio.Runner,
    meter: _Readout,
    load_text: str,
    seconds: float,
    u_value_w: float,
    as_json: bool,
) -> LoadPoint:
    """Ask for a load, read it, ask what it truly was; what is mistyped is asked again."""
    _asked(f"\nLoad {load_text}, let it warm up, then press Enter", as_json)
    watts = runner.run(meter.watts(seconds))
    typer.echo(f"read: {watts.mean():.4f} W, {count(len(watts), 'line')}", err=as_json)
    while True:
        written = _asked(
            "what was it truly, by the reference at the meter's output? (W, or V A, or V ohm)", as_json
        )
        try:
            return LoadPoint.of(watts_of(written), u_value_w, watts, meter.traits)
        except ConfigError as error:
            typer.echo(str(error), err=True)


def _asked(question: str, to_stderr: bool) -> str:
    """A line from the keyboard; MeterError where there is none."""
    typer.echo(f"{question}: ", nl=False, err=to_stderr)
    try:
        return input()
    except EOFError:
        raise MeterError("the calibration needs a person at the keyboard: nothing was written") from None


class _Readout:
    """A meter that is read, and its traits as it describes itself: of chip, shunt and rate."""

    def __init__(self, meter: Meter, traits: MeterTraits) -> None:
        self._meter = meter
        self.traits = traits

    async def watts(self, seconds: float) -> npt.NDArray[np.float64]:
        """The watts of the next seconds, without lines that waited; MeterError where nothing is drawn."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time() + SETTLE_S
        watts: list[float] = []
        off = 0
        try:
            async with asyncio.timeout_at(begin_s + seconds):
                async for item in self._meter:
                    if isinstance(item, AgentEvent) and item.kind == EventKind.METER_DESCRIBED:
                        self.traits = MeterDescription.from_event(item).row
                    if loop.time() < begin_s or not isinstance(item, Reading):
                        continue
                    off += bool(item.flags & ReadingFlag.OFF)
                    if not item.flags & UNUSABLE and math.isfinite(item.watts):
                        watts.append(item.watts)
        except TimeoutError:
            pass
        if off or not watts or not any(watts):
            what = (
                "its output is off"
                if off
                else "it prints 0 W"
                if watts
                else "no line came: is its output on?"
            )
            raise MeterError(f"{what}; {NO_ZERO}")
        return np.array(watts)
