"""Remedies for trainings that `fleet.deadline_s` is too short for."""

from __future__ import annotations

import math
from typing import Final

#: A deadline is this many times what a training needs: boards slow themselves down, and links are shared.
_ROOM: Final = 2.0
_LEADING_DIGITS: Final = (1, 2, 3, 5, 10)


def deadline_remedy(deadline_s: float, needed_s: float = 0.0) -> str:
    """The keys that let trainings end in time, `needed_s` of device time each where that is known."""
    least_s = _ROOM * max(deadline_s, needed_s)
    power = 10.0 ** math.floor(math.log10(least_s))
    wanted_s = next(digit * power for digit in _LEADING_DIGITS if digit * power >= least_s)
    return (
        f"set fleet.deadline_s = {wanted_s:g}, or give devices fewer images (learning.images_per_device) or "
        "epochs (learning.local_epochs)"
    )
