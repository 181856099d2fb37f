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
#: Errors of current at most, by the maker: of a JS220 0.25 % and 1.5 mA in its range of 10 A (issue 182 of
#: jetperch/pyjoulescope_ui), of a JS110 1.49 mA in that of 2 A (forum.joulescope.com, topic 175); its gain is
#: assumed.
_CURRENT_LIMITS: Final = {"js220": (0.0025, 1.5e-3), "js110": (0.01, 1.49e-3)}
#: 10.2 mV in a JS110's range of 15 V (that topic); the gain of volts is assumed, and a JS220 to be no worse.
_VOLTS_LIMIT: Final = math.hypot(10.2e-3 / _SUPPLY_V, 0.005)


def _traits(model: str, seconds: float) -> MeterTraits:
    gain, offset_a = _CURRENT_LIMITS[model]
    return MeterTraits(
        "joulescope",
        nominal_s=seconds,
        window_s=seconds,
        latch_s=0.0,
        u_gain=rectangular(math.hypot(gain, _VOLTS_LIMIT)),
        u_offset_w=rectangular(offset_a) * _SUPPLY_V,
        step_w=1e-5,
    )


JOULESCOPE_TRAITS: Final = _traits("js220", 0.01)


def _hz(port: Port) -> int:
    return int(port.choice("hz", _RATES_HZ, "100"))


def _source(port: Port) -> JoulescopeDevice:
    match = _ADDRESS.fullmatch(port.address)
    if match is None:
        raise port.mistake("expected js110, js220, or one of them with a slash and its serial number")
    return JoulescopeDevice(port.address, _hz(port), _traits(match[1], 1.0 / _hz(port)))


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
    usb=("16d0:0e88", "16d0:10ba"),  # a JS110's and a JS220's, by the maker's udev rules
    silence="is its cable in, does no other program hold it, does the board's current flow through it?",
)
