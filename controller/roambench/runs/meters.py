"""Which meter measured each device of a run: its traits, its calibration, its readings in board time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from roambench.contract.errors import ConfigError, RunError
from roambench.contract.records import AgentEvent
from roambench.energy.clock_fit import REFUSE_BOUND_NS, ClockBurst, ClockFit, moved
from roambench.energy.meter_clock import sample_stamps
from roambench.energy.occupancy import MeterWindow
from roambench.energy.samples import UNUSABLE, PowerSamples
from roambench.energy.uncertainty import MeterCalibration
from roambench.meters.traits import MeterDescription, MeterTraits, traits
from roambench.runs.clocks import BoardClock, ReaderCase, described
from roambench.runs.record_store import ReadingColumns

_NUMBERS: Final = ("gain", "offset_w", "u_gain", "u_offset_w", "u_reference")
#: The name of the controller's own host as a reader.
CONTROLLER: Final = "controller"
#: A clock bound is a limit: rectangular, so this much of it is a standard uncertainty.
_RECTANGULAR: Final = 1.0 / math.sqrt(3.0)


@dataclass(frozen=True)
class DeviceMeter:
    """The meter of one device. `description` is None where no agent told of one: a Smart Power 2 then."""

    device: str
    description: MeterDescription | None
    traits: MeterTraits
    nominal_s: float
    calibration: MeterCalibration
    calibrated: bool

    @property
    def window(self) -> MeterWindow:
        return MeterWindow(self.traits.window_s, self.traits.latch_s)


def device_meter(
    device: str, events: Sequence[AgentEvent], config: Mapping[str, Any], nominal_s: float | None = None
) -> DeviceMeter:
    """The meter that `events` describe, with its calibration from the experiment's [energy] section.

    `nominal_s` overrules the period. A description that names unknown traits counts as none.
    """
    description = described(events)
    try:
        row = traits(description.traits) if description is not None else traits("smartpower2")
    except ConfigError:
        description, row = None, traits("smartpower2")
    period_s = row.nominal_s if description is None else description.nominal_s or row.nominal_s
    serial = description.serial if description is not None else ""
    calibration, calibrated = _calibration(config, device, serial, row)
    return DeviceMeter(device, description, row, nominal_s or period_s, calibration, calibrated)


def samples_of(
    readings: ReadingColumns, meter: DeviceMeter, board: BoardClock | None, reader: BoardClock | None
) -> tuple[PowerSamples, float]:
    """The usable readings at the board's time of their printing, and how uncertain that time is (k = 1), s.

    Lines of a meter with a clock are placed by it. Where another host reads the meter, its stamps are moved
    by the two hosts' clock fits ("controller" names the host of the controller, whose clock is the measure
    of the others). Without a fit they stay and count as known to the limit of what is accepted at all.
    """
    usable = (readings.flags & int(UNUSABLE)) == 0
    ns = sample_stamps(readings.ns[usable], readings.meter_ms[usable])
    u_clock_s = 0.0
    if board is not None and board.case is ReaderCase.REMOTE and len(ns):
        u_clock_s = _RECTANGULAR * REFUSE_BOUND_NS * 1e-9
        own = _only_fit(board)
        other = _controller(ns) if board.reader == CONTROLLER else _only_fit(reader)
        if own is not None and other is not None:
            first, last = int(ns[0]), int(ns[-1])
            bound_ns = other.worst_bound_ns(first - round(other.offset_ns), last - round(other.offset_ns))
            ns = moved(ns, other, own)
            first, last = int(ns[0]), int(ns[-1])
            bound_ns += own.worst_bound_ns(first - round(own.offset_ns), last - round(own.offset_ns))
            u_clock_s = _RECTANGULAR * bound_ns * 1e-9
    return PowerSamples.of(ns, readings.watts[usable]), u_clock_s


def _only_fit(clock: BoardClock | None) -> ClockFit | None:
    """The line of a board that did not boot in between; with several nobody knows whose stamps are whose."""
    return next(iter(clock.fits.values())) if clock is not None and len(clock.fits) == 1 else None


def _controller(ns: np.ndarray) -> ClockFit:
    """The asker's own clock: no offset to itself."""
    return ClockFit.of([ClockBurst(int(ns[k]), 0.0, 0.0, 8) for k in (0, -1)])


def _calibration(
    config: Mapping[str, Any], device: str, serial: str, row: MeterTraits
) -> tuple[MeterCalibration, bool]:
    """The device's or its meter's own entry, else the section's values for all, else the type's traits."""
    plain = MeterCalibration(u_gain=row.u_gain, u_offset_w=row.u_offset_w)
    section = config.get("energy")
    if not isinstance(section, Mapping):
        return plain, False
    meters = section.get("meters")
    table = meters if isinstance(meters, Mapping) else {}
    for name in (device, serial):
        if name and isinstance(table.get(name), Mapping):
            return _entry(plain, table[name], f"energy.meters.{name}"), True
    made = _entry(plain, section, "energy")
    return made, section.get("u_gain") is not None


def _entry(plain: MeterCalibration, values: Mapping[str, Any], where: str) -> MeterCalibration:
    """`plain` with what `values` say; RunError names the key that is no number."""
    known = {name: values[name] for name in _NUMBERS if values.get(name) is not None}
    for name, value in known.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RunError(f"experiment.json: {where}.{name} must be a number, got {value!r}")
    reference = values.get("reference")
    if known.get("u_reference") and isinstance(reference, str):
        known["reference"] = reference
    try:
        return replace(plain, **known)
    except ConfigError as error:
        raise RunError(f"experiment.json: {where}: {error}") from None
