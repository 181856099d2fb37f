"""Port to the board under an agent: an emulated one learns from it what the agent does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from roambench.contract.phases import Phase


class BoardLoad:
    """A real board draws by itself: nothing is done here. Stamps are device time.

    The starter of local agents passes in an emulated board's load (`roambench.emulation.board_load`).
    """

    is_emulated = False

    def follow(self, phase: Phase, ns: int, mbit_s: float) -> None:
        """Begin `phase` at `ns`, with the link at `mbit_s` (0: as fast as its port)."""

    def radio_moves(self, first_byte_ns: int, total_bytes: int, mbit_s: float) -> None:
        """Move `total_bytes` in this phase, from `first_byte_ns` on, at `mbit_s`."""

    def exchange(self, sending_mbit_s: float, coming_mbit_s: float) -> None:
        """Send and receive at these rates from now on, while models are exchanged."""

    def burn(self, cores: float) -> None:
        """Compute on `cores` cores from now on (between runs); 0: rest."""

    def works(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """By name, what goes on for as long as the agent lives."""
        return {}

    def close(self) -> None:
        """Let go of what is open."""


@dataclass(frozen=True, slots=True)
class RadioLoad:
    """The load of a transfer at `mbit_s` (0: as fast as the port) on the board's radio."""

    load: BoardLoad
    mbit_s: float

    def begin(self, first_byte_ns: int, total_bytes: int) -> None:
        """Move `total_bytes`, the first of them at `first_byte_ns`."""
        self.load.radio_moves(first_byte_ns, total_bytes, self.mbit_s)


#: The radio of a board that draws by itself.
REAL_RADIO = RadioLoad(BoardLoad(), 0.0)
