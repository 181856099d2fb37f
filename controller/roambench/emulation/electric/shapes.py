"""Shapes of a board's power that is not constant: between, at the borders of and within its phases.

`steady` is a board that a split by phases finds easy. No Raspberry Pi is one, so local fleets draw by
`realistic`, and `harsh` has the same features where they hurt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Durations are drawn around their means within +- this share, for each transfer and training.
SPREAD: Final = 0.5


@dataclass(frozen=True, slots=True)
class PowerShape:
    """Seconds are means of what is drawn within +- SPREAD; watts and shares are the same every time.

    `wake_s`: a radio asleep needs this long from the phase's start, and draws nothing until then.
    `drained_s`: before the last byte is stamped, it was on the air: the radio has nothing more to move.
    `burst_s`, `burst_factor`: a transfer begins with this long at this multiple of the radio's power.
    `ending_s`, `ending_w`: while the last chunks arrive they are hashed and written to the card.
    `tail_s`: after a transfer the radio stays on, at its fixed part. It is not part of the transfer's phase.
    `wait_w`: waiting for others (not idling, not being absent) draws so much.
    `warm_w`, `warm_s`: idle power rises by so much from the emulator's start, exponentially.
    `heat_w`, `heat_s`: idle power follows the cores' work, so much per busy core, by a first-order lag.
    `ramp_s`, `dip_every_s`, `dip_s`, `low_share`: the governor is late to raise the clock at the start of a
    training and drops it now and then between batches; the cores then draw this share.
    """

    wake_s: float = 0.0
    drained_s: float = 0.0
    burst_s: float = 0.0
    burst_factor: float = 1.0
    ending_s: float = 0.0
    ending_w: float = 0.0
    tail_s: float = 0.0
    wait_w: float = 0.0
    warm_w: float = 0.0
    warm_s: float = 200.0
    heat_w: float = 0.0
    heat_s: float = 100.0
    ramp_s: float = 0.0
    dip_every_s: float = 0.0
    dip_s: float = 0.0
    low_share: float = 1.0

    @property
    def warms(self) -> bool:
        """True if idle power changes at all."""
        return self.warm_w != 0.0 or self.heat_w != 0.0


STEADY: Final = PowerShape()

#: A Pi 3B+ as it comes, from what is known of its parts; what was never measured is called an estimate.
#: wake, drained: a Wi-Fi that saves power (the default of Raspberry Pi OS) sleeps through a beacon interval
#: of 102 ms and wakes in the middle on average; a socket hands its last packets over after the air is quiet.
#: burst: rate control begins with slow rates, which keep the radio sending longer (estimate).
#: ending: SHA-256 at some 60 MB/s on one core and a card at 10 to 20 MB/s take 0.1 s for the last of 2 MB:
#: half a core's 0.4 W and 0.1 W of the card.
#: tail: power saving sets in 0.2 to 1 s after the last packet.
#: wait: who awaits an answer listens, a third of what receiving costs at any rate (estimate).
#: warm, heat: leakage grows by some 0.3 % of 1.9 W per kelvin; an idle board warms by 8 K within minutes, and
#: by 8 K more for each busy core (estimate).
#: ramp, dips: the governor `ondemand` looks every 0.1 s; it raises the clock at the second look and drops it
#: between batches. 600 of 1400 MHz at a lower voltage draw 0.4 of a core's power, 0.6 with its memory's.
REALISTIC: Final = PowerShape(
    wake_s=0.04,
    drained_s=0.02,
    burst_s=0.2,
    burst_factor=1.5,
    ending_s=0.1,
    ending_w=0.5,
    tail_s=0.6,
    wait_w=0.05,
    warm_w=0.05,
    heat_w=0.05,
    ramp_s=0.15,
    dip_every_s=3.0,
    dip_s=0.1,
    low_share=0.6,
)

#: Every feature at the strength at which it was seen to spoil a split that assumes constant power: bursts of
#: 0.4 s at 3 times the power, waiting at 0.15 W, an idle power that rises by 0.1 W, long writes.
HARSH: Final = PowerShape(
    wake_s=0.15,
    drained_s=0.06,
    burst_s=0.4,
    burst_factor=3.0,
    ending_s=0.3,
    ending_w=0.8,
    tail_s=1.0,
    wait_w=0.15,
    warm_w=0.1,
    warm_s=150.0,
    heat_w=0.1,
    heat_s=60.0,
    ramp_s=0.3,
    dip_every_s=1.5,
    dip_s=0.3,
    low_share=0.4,
)

SHAPES: Final = {"steady": STEADY, "realistic": REALISTIC, "harsh": HARSH}
