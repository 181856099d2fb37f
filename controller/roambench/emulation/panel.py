"""A meter's settings and its watt-hour counter: what buttons, browsers and shells change."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: The firmware's fit of its digital potentiometer: V = A n^2 + 2 B n + C for a wiper at n = 0 .. 255.
_POT_A = 6.562e-7
_POT_B = 0.0022084236
_POT_C = 4.08


def supply_volts(setting_v: float) -> float:
    """The volts that the output really gives for a setting: whole steps of the potentiometer, 4.080 to 5.249
    V."""
    root = (-_POT_B + math.sqrt(max(0.0, _POT_B**2 - _POT_A * (_POT_C - setting_v)))) / _POT_A
    wiper = int(min(255.0, max(0.0, root)))
    return _POT_A * wiper**2 + 2.0 * _POT_B * wiper + _POT_C


@dataclass(slots=True)
class Panel:
    """The state of one meter. A reset keeps autorun, default voltage and network, and loses the rest."""

    on: bool = True
    setting_v: float = 5.1
    default_v: float = 5.1
    autorun: bool = True
    counting: bool = False  # watt-hours
    watt_s: float = 0.0
    browser: bool = False  # a WebSocket client has come and none has left since
    ssid: str = "SmartPower2_c0ffee"
    address: str = "192.168.4.1"
    password: str = "12345678"

    @property
    def supply_v(self) -> float:
        """Volts at the output for the present setting."""
        return supply_volts(self.setting_v)

    def reset(self) -> None:
        """Restart: output, counter and browser off, watt-hours at zero, the default volts."""
        self.on = self.counting = self.browser = False
        self.watt_s = 0.0
        self.setting_v = self.default_v
