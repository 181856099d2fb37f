"""What an experiment may set about its learning system; each system reads what concerns it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roambench.aggregation import COSINE_READINGS
from roambench.contract.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SystemOptions:
    """Defaults are MOHAWK's section 4.1; readings of unclear points are explained in ALGORITHMS.md.

    `shapes` are the entries of the flat model in order, needed by the cosines "per_entry" and "per_column".
    Raises ConfigError that lists every value out of range.
    """

    k1: int = 5  # local epochs
    k2: int = 5  # steps between cloud aggregations
    sigma: float = 0.1  # of Eq. 5 and 6
    cosine: str = "flat"
    lookahead: bool = False  # an oracle, see System.lookahead
    empty_sync_clears: bool = True  # see System.empty_sync_clears
    shapes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        problems = [
            f"{name} = {value}: expected a whole number of at least 1"
            for name, value in (("k1", self.k1), ("k2", self.k2))
            if value < 1
        ]
        if not math.isfinite(self.sigma):
            problems.append(f"sigma = {self.sigma}: expected a finite number")
        if self.cosine not in COSINE_READINGS:
            problems.append(f"cosine = {self.cosine!r}: expected one of {', '.join(COSINE_READINGS)}")
        if problems:
            raise ConfigError(problems)
