"""The power that a Raspberry Pi 3B+ draws for its work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from roambench.contract.draws import generator
from roambench.contract.json_values import from_values
from roambench.contract.link_power import LinkPower

CORES: Final = 4
#: A port's own speed, for transfers that are not paced: Fast Ethernet, or Wi-Fi at its best.
PORT_MBIT_S: Final = 95.0
#: A radio whose fixed part is the same both ways, as Eq. 1 has it: the middle of PiPower's two.
RADIO: Final = LinkPower("emulated", 10.0, 5.0, 200.0)


#: So slow that it costs nothing.
_RESTING_MBIT_S: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Activity:
    """A board's load from some moment on: cores kept busy, data-plane rates in Mbit/s."""

    busy_cores: float = 0.0
    tx_mbit_s: float = 0.0
    rx_mbit_s: float = 0.0
    waiting: bool = False  # for others; neither idle nor away
    moves_until_ns: int = 0  # the radio rests from then on at all rates; 0: not before the end is reported

    def __post_init__(self) -> None:
        for name, value in (
            ("busy_cores", self.busy_cores),
            ("tx_mbit_s", self.tx_mbit_s),
            ("rx_mbit_s", self.rx_mbit_s),
        ):
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"{name} must be a finite number >= 0, got {value}")
        if not 0 <= self.moves_until_ns < 2**63:
            raise ValueError("moves_until_ns must be device time, of 63 bits at most")

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> Activity:
        """From an untrusted work record, which also names board and time; ValueError for what is none."""
        own = {name: value for name, value in values.items() if name not in ("device", "ns")}
        return from_values(cls, own, "work record")

    @property
    def moves(self) -> bool:
        """True if bytes are on their way, not only a radio that is on."""
        return max(self.tx_mbit_s, self.rx_mbit_s) > _RESTING_MBIT_S

    def radio_resting(self) -> Activity:
        """The same with a radio that is on and moves nothing: its fixed part alone is drawn."""
        return replace(
            self,
            tx_mbit_s=min(self.tx_mbit_s, _RESTING_MBIT_S),
            rx_mbit_s=min(self.rx_mbit_s, _RESTING_MBIT_S),
        )


IDLE: Final = Activity()


@dataclass(frozen=True, slots=True)
class PiPower:
    """Draw of a board in watts: idle + per busy core + radio (a fixed part and one per Mbit/s, each way).

    Idle 1.9 W and four busy cores 5.1 W are the PiDramble figures for the 3B+; the radio's share is not
    measured (about 0.35 W sending and 0.2 W receiving at 10 Mbit/s). What matters for proofs is that the
    emulator knows it exactly.
    """

    idle_w: float = 1.9
    core_w: float = 0.8
    tx_w: float = 0.25
    tx_w_per_mbit_s: float = 0.010
    rx_w: float = 0.15
    rx_w_per_mbit_s: float = 0.005

    def watts(self, activity: Activity) -> float:
        """The draw during `activity`; no more than four cores can be busy."""
        return self.idle_w + self.core_w * min(activity.busy_cores, CORES) + self.radio_w(activity)

    def radio_w(self, activity: Activity) -> float:
        """The radio's part of it."""
        watts = 0.0
        if activity.tx_mbit_s > 0:
            watts += self.tx_w + self.tx_w_per_mbit_s * activity.tx_mbit_s
        if activity.rx_mbit_s > 0:
            watts += self.rx_w + self.rx_w_per_mbit_s * activity.rx_mbit_s
        return watts

    def varied(self, seed: int, device: int) -> PiPower:
        """Another board of the same type: idle and core power each within 3 % of this one's."""
        idle, core = generator(seed, "board power", device).uniform(0.97, 1.03, 2)
        return replace(self, idle_w=self.idle_w * float(idle), core_w=self.core_w * float(core))

    def with_drawn_radio(self, seed: int, device: int, spread: float = 0.3) -> PiPower:
        """Another board whose radio obeys Eq. 1: alpha_up, alpha_down, beta each within +-`spread` of RADIO.

        One beta for both directions. Who fits a link model to this board sees its meter only; what was
        drawn is `radio`.
        """
        up, down, beta = generator(seed, "board radio", device).uniform(1.0 - spread, 1.0 + spread, 3)
        fixed_w = RADIO.beta_mw * 1e-3 * float(beta)
        return replace(
            self,
            tx_w=fixed_w,
            rx_w=fixed_w,
            tx_w_per_mbit_s=RADIO.alpha_up_mw_per_mbit_s * 1e-3 * float(up),
            rx_w_per_mbit_s=RADIO.alpha_down_mw_per_mbit_s * 1e-3 * float(down),
        )

    @property
    def radio(self) -> LinkPower:
        """The truth that a fit of Eq. 1 looks for; ValueError where the directions' fixed parts differ."""
        if self.tx_w != self.rx_w:
            raise ValueError(f"sending costs {self.tx_w} W at any rate, receiving {self.rx_w} W: no one beta")
        return LinkPower("emulated", self.tx_w_per_mbit_s * 1e3, self.rx_w_per_mbit_s * 1e3, self.tx_w * 1e3)
