"""Driver of the Joulescopes JS110 and JS220, by their maker's library pyjoulescope_driver.

The device samples current and voltage at 1 or 2 MHz and gives statistics of whole windows: their mean power
conserves joules.
"""

from __future__ import annotations

import math
import re
from typing import Final

from roambench.extras.meters.joulescope_device import MOST_A, MOST_V, JoulescopeDevice
from roambench.meters.driver import Driver, row_of
from roambench.meters.frames.means import MeansFrames
from roambench.meters.means import RATES_HZ
from roambench.meters.ports import Port
from roambench.meters.traits import MeterTraits, rectangular

#: A device as the library names it, its backend left out: a model, or one unit of it.
_ADDRESS: Final = re.compile(r"(js110|js220)(/[\w-]{1,32})?")
#: More than 100 a second is no task of its statistics.
_RATES_HZ: Final = tuple(hz for hz in RATES_HZ if int(hz) <= 100)
_SUPPLY_V: Final = 5.1
#: A JS110's errors at most, by its maker (forum.joulescope.com, topic 175): 1.49 mA in the range of 2 A and
#: 10.2 mV in that of 15 V. What a gain adds to them is assumed, and that a JS220 is no worse: calibrate it.
_OFFSET_LIMIT_A: Final = 1.49e-3
_VOLTS_LIMIT: Final = math.hypot(10.2e-3 / _SUPPLY_V, 0.005)
_CURRENT_LIMIT: Final = 0.01

JOULESCOPE_TRAITS: Final = MeterTraits(
    "joulescope",
    nominal_s=0.01,
    window_s=0.01,
    latch_s=0.0,
    u_gain=rectangular(math.hypot(_CURRENT_LIMIT, _VOLTS_LIMIT)),
    u_offset_w=rectangular(_OFFSET_LIMIT_A) * _SUPPLY_V,
    step_w=1e-5,
)


def _hz(port: Port) -> int:
    return int(port.choice("hz", _RATES_HZ, "100"))


def _source(port: Port) -> JoulescopeDevice:
    if not _ADDRESS.fullmatch(port.address):
        raise port.mistake("expected js110, js220, or one of them with a slash and its serial number")
    return JoulescopeDevice(port.address, _hz(port))


JOULESCOPE: Final = Driver(
    name="joulescope",
    summary="Joulescope JS110 or JS220 over USB: means of 1 or 2 million samples a second",
    address="js220/SERIAL",
    options=("hz",),
    power="",
    traits=row_of("joulescope"),
    source=_source,
    frames=lambda port: MeansFrames(most=f"{MOST_A:g} A or {MOST_V:g} V"),
    period_s=lambda port: 1.0 / _hz(port),
    resets=True,
    redials=True,
    silence="is its cable in, does no other program hold it, does the board's current flow through it?",
)
