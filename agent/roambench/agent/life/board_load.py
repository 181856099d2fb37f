"""Port to the board under an agent: an emulated one learns from it what the agent does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from roambench.contract.phases import Phase


class BoardLoad:
    """A real board draws by itself: nothing is done here. Stamps are device time.

    The starter of local agents passes in an emulated board's load (`roambench.emulation.board_load`).
    """

    def follow(self, phase: Phase, ns: int, mbit_s: float) -> None:
        """From `ns` on the board is in `phase`, its link at `mbit_s` (0: as fast as its port)."""

    def radio_moves(self, first_byte_ns: int, total_bytes: int, mbit_s: float) -> None:
        """The phase moves `total_bytes` from `first_byte_ns` on, at `mbit_s`."""

    def exchange(self, sending_mbit_s: float, coming_mbit_s: float) -> None:
        """While models are exchanged: the rates of what is sent and what comes from now on."""

    def burn(self, cores: float) -> None:
        """From now on (between runs) the board computes on so many cores; 0: it rests."""

    def works(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """By name, what goes on for as long as the agent lives."""
        return {}

    def close(self) -> None:
        """Let go of what is open."""
