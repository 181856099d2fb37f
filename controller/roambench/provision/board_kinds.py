"""Idle power of each kind of board: published figures, with room for radio, Ethernet and the meter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BoardKind:
    """`model` begins what the device tree calls the board."""

    model: str
    least_idle_w: float
    most_idle_w: float


#: The more special name first: a 3B+ is a "3 Model B", too. A 3B+ idles at 1.9 W (1.7 W without HDMI and
#: LEDs); one busy core makes it 2.7 W, four 5.1 W: what draws that is not idle.
KINDS: Final = (
    BoardKind("Raspberry Pi 3 Model B Plus", 1.3, 2.6),
    BoardKind("Raspberry Pi 3 Model B", 0.8, 2.0),
    BoardKind("Raspberry Pi 4", 1.8, 4.0),
    BoardKind("Raspberry Pi 5", 2.0, 5.0),
    BoardKind("Raspberry Pi Zero 2", 0.3, 1.3),
)
#: What the emulator makes of an idle board, whatever the container runs on.
EMULATED: Final = BoardKind("emulated Raspberry Pi 3B+", 1.3, 2.6)


def kind_of(model: str) -> BoardKind | None:
    """None for a board that nobody has told us about."""
    return next((kind for kind in KINDS if model.startswith(kind.model)), None)
