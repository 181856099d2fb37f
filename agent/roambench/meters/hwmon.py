"""Driver of the power sensors that the kernel knows (hwmon): INA219 to INA3221, a Jetson's rails."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from roambench.contract.device_time import DeviceClock
from roambench.meters.driver import Driver, row_of
from roambench.meters.frames.hwmon import HwmonFrames
from roambench.meters.ports import Port
from roambench.meters.sources.hwmon import ROOT, HwmonSensor
from roambench.meters.sources.source import MeterSource
from roambench.meters.traits import TRAITS

_PERIOD_S: Final = TRAITS.load("hwmon").nominal_s


def _period_s(port: Port) -> float:
    return port.number("interval_ms", 1e3 * _PERIOD_S) * 1e-3


def _source(port: Port) -> MeterSource:
    return HwmonSensor(
        port.address,
        DeviceClock(),  # the driver gives it the agent's
        _period_s(port),
        port.number("shunt_uohm", 0.0),
        Path(port.options.get("root", str(ROOT))),
        asked="interval_ms" in port.options,
    )


HWMON: Final = Driver(
    name="hwmon",
    summary="a power sensor of the kernel: INA219, INA226, INA231, INA3221, a Jetson's rails, and others",
    address="ina226, 1-0040, ina3221/VDD_IN, VDD_CPU+VDD_GPU",
    options=("interval_ms", "shunt_uohm", "root"),
    power="",
    traits=row_of("hwmon"),
    source=_source,
    frames=lambda port: HwmonFrames(_period_s(port)),
    period_s=_period_s,
)
