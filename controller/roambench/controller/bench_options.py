"""Options of a run on a bench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Checks that a user waives, and patience. `wait_s`: how long to queue for a bench that somebody else
    holds."""

    only: tuple[str, ...] = ()
    preflight: bool = True
    unproven: bool = False
    wait_s: float = 0.0


#: Nothing is waived.
USUAL: Final = BenchOptions()
