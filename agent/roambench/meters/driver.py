"""A row of the table of meters: everything roambench has to know of one driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from roambench.contract.device_time import DeviceClock
from roambench.meters.frames.parser import FrameParser
from roambench.meters.latch import PortLatch
from roambench.meters.ports import Port, parse_port
from roambench.meters.sources.source import MeterSource
from roambench.meters.stream_meter import STALE_AFTER_S, StreamMeter
from roambench.meters.traits import MeterDescription

#: The first look of a person whose meter says nothing.
USUAL_SILENCE: Final = "is it on, is its cable in?"


def row_of(name: str) -> Callable[[Port, float], str]:
    """The traits of a driver whose readings are the same for every port and measured period."""
    return lambda port, period_s: name


@dataclass(frozen=True, slots=True)
class Driver:
    """Calling it makes the meter (`MeterFactory`). Descriptions first: nothing is opened here.

    `address` says what a port looks like, `options` which options it takes, `power` what can switch the
    output ("" nothing), `silence` where to look when no reading comes. `traits(port, period_s)` names the row
    of TRAITS, `period_s` gives the period where the row's does not hold (0: it does). `resets`: opening the
    port may reset the meter, so it is latched. `usb`: VENDOR:PRODUCT of devices that are opened as such and
    not as serial ports; `usb_interface`: the one that talks (`bInterfaceNumber`), of a device with several
    serial ports.
    """

    name: str
    summary: str
    address: str
    options: tuple[str, ...]
    power: str
    traits: Callable[[Port, float], str]
    source: Callable[[Port], MeterSource]
    frames: Callable[[Port], FrameParser]
    period_s: Callable[[Port], float] = lambda port: 0.0
    resets: bool = False
    redials: bool = False
    usb: tuple[str, ...] = ()
    usb_interface: str = ""
    silence: str = USUAL_SILENCE

    def __call__(
        self, port: str, clock: DeviceClock, *, reopen_allowed: bool, latch: Path | None
    ) -> StreamMeter:
        """A closed meter at `port`; ConfigError for a port that the driver does not understand."""
        parsed = self.port(port)
        guard = None
        if self.resets and not reopen_allowed:
            guard = PortLatch.default(parsed.address) if latch is None else PortLatch(latch, parsed.address)
        source = self.source(parsed)
        if hasattr(source, "clock"):
            source.clock = clock
        return StreamMeter(
            source,
            self.frames(parsed),
            partial(self.description, parsed),
            clock,
            latch=guard,
            redials=self.redials,
            stale_after_s=max(STALE_AFTER_S, 3.0 * self.period_s(parsed)),
        )

    def port(self, text: str) -> Port:
        """The port as this driver understands it; ConfigError says what it expects."""
        return parse_port(self.name, text, self.options)

    def description(self, port: Port, measured_s: float = 0.0) -> MeterDescription:
        """The meter's description for the analysis. `measured_s` is the period by the meter's own clock, 0
        when unknown."""
        period_s = self.period_s(port) or measured_s
        return MeterDescription(
            driver=self.name,
            port=port.text,
            traits=self.traits(port, period_s),
            nominal_s=period_s,
            serial=port.options.get("serial", ""),
            remote_reader=port.options.get("reader", ""),
            site=port.options.get("site", ""),
        )


def option_period_s(port: Port) -> float:
    """`period_s` of the port, 0 when it is not given."""
    return port.number("period_s", 0.0) if "period_s" in port.options else 0.0
