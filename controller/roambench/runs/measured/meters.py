"""The meter that measured each device of a run: its traits, its calibration, its readings in board time."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from roambench.contract.errors import ConfigError, RunError
from roambench.contract.phases import COMPUTING_PHASES, PhaseSpan
from roambench.contract.records import AgentEvent
from roambench.energy.clocks.clock_fit import REFUSE_BOUND_NS, ClockBurst, ClockFit, moved
from roambench.energy.clocks.meter_clock import sample_stamps
from roambench.energy.readings.frozen import Frozen, frozen_stretches
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.samples import UNUSABLE, PowerSamples
from roambench.energy.uncertainty import MeterCalibration, uncalibrated
from roambench.experiment.energy_section import CalibratedMeter, EnergySection
from roambench.meters.traits import TRAITS, MeterDescription, MeterTraits
from roambench.runs.measured.clocks import CONTROLLER_HOST, BoardClock, ReaderCase, described
from roambench.runs.record_store import ReadingColumns

#: A calibration older than this is warned of.
VALID_FOR: Final = dt.timedelta(days=365)
_KNOWN: Final = {"gain", "offset_w", "u_gain", "u_offset_w", "u_reference", "reference"}
#: A clock bound is a limit: rectangular, so this much of it is a standard uncertainty.
_RECTANGULAR: Final = 1.0 / math.sqrt(3.0)


@dataclass(frozen=True)
class DeviceMeter:
    """The meter of one device. `description` is None where no agent reported one: a Smart Power 2 then.

    `calibrated`: its uncertainty was given. `calibrated_as` is the name of the table that did, a
    serial number or a device ("": the section, for all), `calibrated_on` its date (None: it has none).
    """

    device: str
    description: MeterDescription | None
    traits: MeterTraits
    nominal_s: float
    calibration: MeterCalibration
    calibrated: bool
    calibrated_as: str = ""
    calibrated_on: dt.date | None = None

    @property
    def window(self) -> MeterWindow:
        """The window over which the meter averages."""
        return MeterWindow(self.traits.window_s, self.traits.latch_s)

    @property
    def serial(self) -> str:
        """The meter's serial number, empty if unknown."""
        return "" if self.description is None else self.description.serial

    @property
    def identity(self) -> str:
        """This very meter as it is calibrated, empty if its serial number is not known: what one identity
        measures has one error of gain."""
        known = self.calibration
        return f"{self.serial}, gain {known.gain:.6g}, u {known.u_gain:.3g}" if self.serial else ""

    @property
    def misfiled(self) -> bool:
        """Its calibration is filed under the device's name: the next meter there would inherit it."""
        return bool(self.serial) and self.calibrated_as not in ("", self.serial)

    def out_of_date(self, day: dt.date) -> bool:
        """Return whether it was calibrated more than a year before `day`."""
        return self.calibrated_on is not None and (day - self.calibrated_on) > VALID_FOR

    @property
    def undated(self) -> bool:
        """True where its own calibration has no date: it may be older than a year without a flag."""
        return bool(self.calibrated_as) and self.calibrated_on is None


def device_meter(device: str, events: Sequence[AgentEvent], section: EnergySection) -> DeviceMeter:
    """The meter that `events` describe, with its calibration from the experiment's [energy] section.

    A description that names unknown traits counts as none. Of several the last counts, as unsure as the least
    sure of them.
    """
    meters = [each for _, each in _in_turn(device, events, section)]
    meter = meters[-1] if meters else meter_of(device, None, section)
    known = [each.calibration for each in meters if each.calibration != meter.calibration]
    if not known:
        return meter
    u_gain, u_offset_w = (
        max(getattr(each, name) for each in (meter.calibration, *known)) for name in ("u_gain", "u_offset_w")
    )
    return replace(meter, calibration=replace(meter.calibration, u_gain=u_gain, u_offset_w=u_offset_w))


def _in_turn(
    device: str, events: Sequence[AgentEvent], section: EnergySection
) -> list[tuple[int, DeviceMeter]]:
    """The meters that `events` describe, each with the time from which it is read, ascending."""
    return [
        (event.monotonic_ns, meter_of(device, description, section))
        for event in events
        if (description := described([event])) is not None
    ]


def as_if_of(
    meter: DeviceMeter, samples: PowerSamples, events: Sequence[AgentEvent], section: EnergySection
) -> PowerSamples:
    """The samples of the meters that `events` describe in turn, in watts that `meter` would have shown."""
    meters = _in_turn(meter.device, events, section)
    own = meter.calibration
    if all(
        (each.calibration.gain, each.calibration.offset_w) == (own.gain, own.offset_w) for _, each in meters
    ):
        return samples
    watts = samples.watts.copy()
    turn = np.searchsorted([ns for ns, _ in meters], samples.ns, "right") - 1
    for number, (_, each) in enumerate(meters):
        which = np.maximum(turn, 0) == number
        watts[which] = each.calibration.correct(watts[which]) * own.gain + own.offset_w
    return PowerSamples(samples.ns, watts)


def meter_of(device: str, description: MeterDescription | None, section: EnergySection) -> DeviceMeter:
    """The meter of `device` by its description, with its calibration; RunError as of `device_meter`."""
    try:
        row = description.row if description is not None else TRAITS.load("smartpower2")
    except ConfigError:
        description, row = None, TRAITS.load("smartpower2")
    period_s = row.nominal_s if description is None else description.nominal_s or row.nominal_s
    meter = DeviceMeter(device, description, row, period_s, uncalibrated(row), False)
    return _calibrated(meter, section)


@dataclass(frozen=True)
class UsableReadings:
    """Usable readings of a device at the board's time of their printing, how uncertain that time is (k = 1),
    and the stretches in which the meter was frozen: their repeats are left out."""

    samples: PowerSamples
    u_clock_s: float
    frozen: tuple[Frozen, ...]


def samples_of(
    readings: ReadingColumns,
    meter: DeviceMeter,
    board: BoardClock | None,
    reader: BoardClock | None,
    spans: Sequence[PhaseSpan] = (),
    *,
    laid: bool = False,
) -> UsableReadings:
    """The usable readings of a device whose timeline is `spans`.

    Lines of a meter with a clock are placed by it. Where another host reads the meter, its stamps are moved
    by the two hosts' clock fits ("controller" names the host of the controller, whose clock is the measure
    of the others), unless they are `laid` on the clock of the phases already (`OneClock`). Without a fit they
    stay and count as known to the limit of what is accepted at all.
    """
    usable = ((readings.flags & int(UNUSABLE)) == 0) & np.isfinite(readings.watts)
    ns = sample_stamps(readings.ns[usable], readings.meter_ms[usable])
    u_clock_s = 0.0
    if board is not None and board.case is ReaderCase.REMOTE and len(ns):
        u_clock_s = _RECTANGULAR * REFUSE_BOUND_NS * 1e-9
        own = _only_fit(board)
        other = _controller(ns) if board.reader == CONTROLLER_HOST else _only_fit(reader)
        if laid:
            u_clock_s = _RECTANGULAR * board.bound_ns * 1e-9
        elif own is not None and other is not None:
            first, last = int(ns[0]), int(ns[-1])
            bound_ns = other.worst_bound_ns(first - round(other.offset_ns), last - round(other.offset_ns))
            ns = moved(ns, other, own)
            first, last = int(ns[0]), int(ns[-1])
            bound_ns += own.worst_bound_ns(first - round(own.offset_ns), last - round(own.offset_ns))
            u_clock_s = _RECTANGULAR * bound_ns * 1e-9
    volts, amps, watts = (column[usable] for column in (readings.volts, readings.amps, readings.watts))
    trainings = [span for span in spans if span.phase in COMPUTING_PHASES]
    frozen = frozen_stretches(
        ns,
        volts,
        amps,
        watts,
        nominal_s=meter.nominal_s,
        step_w=meter.traits.step_w,
        changes_ns=[at_ns for span in trainings for at_ns in (span.start_ns, span.end_ns)],
    )
    fresh = np.ones(len(ns), np.bool_)
    for stretch in frozen:
        fresh[stretch.first + 1 : stretch.last + 1] = False
    return UsableReadings(PowerSamples.of(ns[fresh], watts[fresh]), u_clock_s, tuple(frozen))


def _only_fit(clock: BoardClock | None) -> ClockFit | None:
    """The line of a board that did not boot in between; with several it is unknown whose stamps are whose."""
    return next(iter(clock.fits.values())) if clock is not None and len(clock.fits) == 1 else None


def _controller(ns: np.ndarray) -> ClockFit:
    """The asker's own clock: no offset to itself."""
    return ClockFit.of([ClockBurst(int(ns[k]), 0.0, 0.0, 8) for k in (0, -1)])


def _calibrated(meter: DeviceMeter, section: EnergySection) -> DeviceMeter:
    """With its own entry by serial or device, else the section's values for all, else the type's traits."""
    for name in (meter.serial, meter.device):
        if name and (entry := section.meters.get(name)) is not None:
            made = _entry(meter.calibration, entry, f"energy.meters.{name}")
            on = dt.date.fromisoformat(entry.date) if entry.date else None
            return replace(meter, calibration=made, calibrated=True, calibrated_as=name, calibrated_on=on)
    made = _entry(meter.calibration, section, "energy")
    return replace(meter, calibration=made, calibrated=section.u_gain is not None)


def _entry(plain: MeterCalibration, entry: CalibratedMeter | EnergySection, where: str) -> MeterCalibration:
    """`plain` with what the entry says; RunError says which of its keys do not go together."""
    known = entry.model_dump(include=_KNOWN, exclude_none=True)
    if not known.get("u_reference"):
        known.pop("reference", None)
    try:
        return replace(plain, **known)
    except ConfigError as error:
        raise RunError(f"experiment.json: {where}: {error}") from None
