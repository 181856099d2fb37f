"""Driver of the Nordic Power Profiler Kit II, by IRNAS's library ppk2-api.

It measures current alone. In source mode it powers the board with the volts that it is set to; as an ampere
meter the volts are those that the port says. It gives no more than 1 A and 5 V: a Pi 3B+ at work draws more.
"""

from __future__ import annotations

import math
from typing import Final

from roambench.extras.meters.ppk2_port import MOST_A, Ppk2Port
from roambench.meters.driver import Driver, row_of
from roambench.meters.frames.means import MeansFrames
from roambench.meters.means import period_s
from roambench.meters.ports import Port
from roambench.meters.traits import MeterTraits, rectangular

#: From 50 mA to 1 A, where boards draw: 15 % of the current and 1 mA, both typical (Nordic's PPK2 User Guide,
#: "Measurement accuracy" and "Measurement resolution": docs.nordicsemi.com/bundle/ug_ppk2, as the project
#: ppk2lab quotes it); 5 % of the volts (assumed) where the port does not say better.
_CURRENT_LIMIT: Final = 0.15
_VOLTS_LIMIT: Final = 0.05
_OFFSET_LIMIT_A: Final = 1e-3
_STEP_A: Final = 4 * 1.8 / 163_840 / 0.05
_MODES: Final = ("ampere", "source")
_LEAST_V: Final = 0.8
_MOST_V: Final = {"ampere": 5.5, "source": 5.0}


def _traits(seconds: float, volts: float, u_volts: float) -> MeterTraits:
    gain = math.hypot(rectangular(_CURRENT_LIMIT), u_volts / volts)
    offset_w = rectangular(_OFFSET_LIMIT_A) * volts
    # The mean of hundreds of samples with their noise has finer steps than one sample.
    step_w = _STEP_A * volts / math.sqrt(1e5 * seconds)
    return MeterTraits("ppk2", seconds, seconds, 0.0, gain, offset_w, step_w=step_w)


PPK2_TRAITS: Final = _traits(0.01, 5.0, rectangular(_VOLTS_LIMIT) * 5.0)


def _source(port: Port) -> Ppk2Port:
    mode = port.choice("mode", _MODES, "ampere")
    if "volts" not in port.options:
        raise port.mistake(
            "volts: expected those that power the board: a PPK2 does not measure them (volts=5.1)"
            if mode == "ampere"
            else "volts: expected those that the PPK2 is to give (volts=5)"
        )
    volts = port.number("volts", 0.0)
    if not _LEAST_V <= volts <= _MOST_V[mode]:
        raise port.mistake(f"volts: expected {_LEAST_V:g} to {_MOST_V[mode]:g} in mode {mode}, got {volts:g}")
    u_volts = port.number("u_volts", rectangular(_VOLTS_LIMIT) * volts)
    seconds = period_s(port)
    return Ppk2Port(port.address, mode == "source", volts, seconds, _traits(seconds, volts, u_volts))


PPK2: Final = Driver(
    name="ppk2",
    summary="Nordic Power Profiler Kit II over USB: 100,000 samples a second, at most 1 A",
    address="/dev/ttyACM0",
    options=("mode", "volts", "u_volts", "hz"),
    power="",
    traits=row_of("ppk2"),
    source=_source,
    frames=lambda port: MeansFrames(most=f"{MOST_A:g} A"),
    period_s=period_s,
    resets=True,
    redials=True,
    usb_interface="01",  # both ports have the serial number
    silence="is its switch on, is the port the first of its two, does the board's current flow through it?",
)
