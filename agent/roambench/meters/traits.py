"""Traits of a meter type that the analysis needs: how often it prints, what a value is a mean of."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Final

from roambench.contract.events import EventKind
from roambench.contract.json_values import from_json
from roambench.contract.records import AgentEvent
from roambench.contract.table import Table

#: What the Smart Power 2's firmware takes one step of the INA231's power register for, and what it is:
#: 25 steps of current, each 5.12 mV / (calibration register x shunt). So its watts read 0.059 % high.
_SP2_STEP_W: Final = 3.81687e-3
_SP2_TRUE_STEP_W: Final = 25 * 0.00512 / (0x08BD * 0.015)


#: What a busy core of a Raspberry Pi draws above an idle one, W.
CORE_W: Final = 0.8


@dataclass(frozen=True, slots=True)
class MeterTraits:
    """A value printed at t is the mean over [t - age - window_s, t - age], age uniform in [0, latch_s].

    An uncalibrated meter of the type reads `gain` x true power, known within `u_gain` (relative) and
    `u_offset_w` (k = 1).
    `step_w`: what its watts are rounded to, which no number of equal readings averages away.
    """

    name: str
    nominal_s: float
    window_s: float
    latch_s: float
    u_gain: float
    u_offset_w: float
    step_w: float = _SP2_STEP_W
    gain: float = 1.0


@dataclass(frozen=True, slots=True)
class MeterDescription:
    """The meter that an agent reads. `traits` names a row of TRAITS; `nominal_s` 0 keeps that row's period.

    `remote_reader`: the host that reads the meter when it is not the board itself (then its clock is not the
    board's, rule R2). `unit`: what tells the unit at the other end from all others (`meters.sources.unit`).
    `own`: the traits of this very meter, where they depend on how its chip is set; they stand for the row's.
    `site`: what the meter sees where that is not the whole board, as in "CPU rail".
    `look_cpu_s`: CPU time of one reading on the board that is measured; 0 where it takes none that matters.
    `settings`: of its chip, in words, where the kernel has them.
    """

    driver: str
    port: str
    traits: str
    nominal_s: float = 0.0
    serial: str = ""
    remote_reader: str = ""
    unit: str = ""
    own: MeterTraits | None = None
    site: str = ""
    look_cpu_s: float = 0.0
    settings: str = ""

    @property
    def row(self) -> MeterTraits:
        """The traits that hold for it; ConfigError where its row is unknown here."""
        return self.own if self.own is not None else TRAITS.load(self.traits)

    @property
    def reading_w(self) -> float:
        """About what reading it costs the board that is measured, watts."""
        return CORE_W * self.look_cpu_s / self.row.nominal_s if self.look_cpu_s > 0.0 else 0.0

    def to_event(self, ns: int) -> AgentEvent:
        """The event that puts the description among the records."""
        return AgentEvent(EventKind.METER_DESCRIBED, ns, json.dumps(asdict(self), separators=(",", ":")))

    @classmethod
    def from_event(cls, event: AgentEvent) -> MeterDescription:
        """Inverse of `to_event`; ConfigError (a ValueError) for a detail that is none."""
        return from_json(cls, event.detail, EventKind.METER_DESCRIBED)


#: INA231 behind 15 mOhm: 16 averages of 2 x 8.244 ms, read without asking whether the value is new.
_INA231_WINDOW_S: Final = 0.2638
#: Half of the age of a Smart Power 2's window: an emulated training that ends later than this against its
#: device time puts joules into the wrong phase.
LATENESS_LIMIT_S: Final = 0.130
#: Limits of parts are rectangular distributions: limit / sqrt(3) is their standard uncertainty.
_RECTANGULAR: Final = 1 / math.sqrt(3)


def rectangular(limit: float) -> float:
    """The standard uncertainty of a part that keeps within `limit`."""
    return _RECTANGULAR * limit


#: Solder and copper between a shunt of 15 mOhm and its taps, which no data sheet has (assumed): 0.2 mOhm.
_JOINTS: Final = 0.2 / 15
_SP2_U_GAIN: Final = _RECTANGULAR * math.hypot(0.01, 0.005, 0.005, 0.030 / 5.1, _JOINTS)
_SP2_U_OFFSET_W: Final = _RECTANGULAR * 5.1 * 50e-6 / 0.015


def _smartpower2(name: str, nominal_s: float, step_w: float = _SP2_STEP_W) -> MeterTraits:
    return MeterTraits(
        name,
        nominal_s,
        _INA231_WINDOW_S,
        _INA231_WINDOW_S,
        _SP2_U_GAIN,
        _SP2_U_OFFSET_W,
        step_w=step_w,
        gain=_SP2_STEP_W / _SP2_TRUE_STEP_W,
    )


#: The log intervals that a Smart Power 3's panel offers.
SMARTPOWER3_INTERVALS_MS: Final = (5, 10, 50, 100, 500, 1000)
#: A line is the mean of the newest interval_ms / 2 samples. The firmware takes 600 to 1000 of them a second,
#: each the chip's own mean over 8 conversions at 1024 a second.
_SP3_SAMPLE_S: Final = 1 / 800
_SP3_AVERAGE_S: Final = 8 / 1024
#: The maker's tolerance, "3% typical (above 5V 1A)", as a limit. Its parts alone are less: 1 % of power for
#: the PAC1933, 1 and 1.3 % (assumed) for its shunt and the joints.
_SP3_U_GAIN: Final = _RECTANGULAR * 0.03
#: mA are cut, not rounded (0.5 mA on average), and 20 uV of offset are 1.3 mA.
_SP3_U_OFFSET_W: Final = 5.1 * math.hypot(0.5e-3, _RECTANGULAR * 20e-6 / 0.015)


def _smartpower3(interval_ms: int) -> MeterTraits:
    """Its values are computed when they are printed, so nothing is latched."""
    window_s = (interval_ms // 2 - 1) * _SP3_SAMPLE_S + _SP3_AVERAGE_S
    return MeterTraits(
        smartpower3_row(interval_ms / 1000),
        interval_ms / 1000,
        window_s,
        0.0,
        _SP3_U_GAIN,
        _SP3_U_OFFSET_W,
        step_w=5.1e-3,  # whole mA at 5.1 V
    )


def smartpower3_row(period_s: float) -> str:
    """The row whose interval is nearest to a period; without one (0) that of 10 ms, "smartpower3"."""
    if not period_s:
        return "smartpower3"
    nearest = min(SMARTPOWER3_INTERVALS_MS, key=lambda ms: abs(math.log(ms / 1000 / period_s)))
    return "smartpower3" if nearest == 10 else f"smartpower3-{nearest}ms"


#: A kernel's power sensor whose chip we do not know: 2 % and 0.1 W (assumed). Of a known chip the meter
#: itself gives its traits (`meters.chips`).
UNCALIBRATED_RAIL: Final = MeterTraits("hwmon", 0.1, 0.1, 0.1, 0.02, 0.1, step_w=0.005)


TRAITS: Final = Table(
    what="meter traits",
    group="roambench.traits",
    kind=MeterTraits,
    own={
        row.name: row
        for row in (
            _smartpower2("smartpower2", 1.0),
            _smartpower2("smartpower2-100ms", 0.1),  # the Dres0109 fork: values repeat two or three times
            _smartpower2("smartpower2-ytrikoz", 0.25, 0.01),  # prints hundredths of a watt
            *map(_smartpower3, SMARTPOWER3_INTERVALS_MS),
            UNCALIBRATED_RAIL,
        )
    }
    | {f"hwmon-{chip}": f"roambench.meters.chips:{chip.upper()}" for chip in ("ina219", "ina226", "ina3221")},
)
