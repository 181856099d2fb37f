"""Checks of the parameters of single systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from roambench.contract.errors import ConfigError


def check_numbers(
    own: object,
    *,
    shares: Sequence[str] = (),
    positive: Sequence[str] = (),
    least: Mapping[str, float] | None = None,
) -> None:
    """ConfigError lists the fields of `own` that are no share, not above 0, or below their least."""
    expected = {name: (0.0 <= getattr(own, name) <= 1.0, "a share of 0 to 1") for name in shares}
    expected |= {name: (0.0 < getattr(own, name) < math.inf, "a number above 0") for name in positive}
    for name, low in (least or {}).items():
        expected[name] = (low <= getattr(own, name) < math.inf, f"{low:g} or more")
    mistakes = [
        f"{name}: expected {what}, got {getattr(own, name)}"
        for name, (holds, what) in expected.items()
        if not holds
    ]
    if mistakes:
        raise ConfigError(mistakes)
