"""How often a command looks for garbage in what its libraries made."""

from __future__ import annotations

import atexit
import gc
from typing import Final

#: A command reads libraries of half a million objects that stay. With the usual 700, looking through them
#: again and again is 4 to 7 % of the CPU time of a small simulated run.
_OBJECTS_PER_COLLECTION: Final = 50_000


def collect_seldom() -> None:
    """For the process of a command: look for garbage seldom, and not at its end, where what libraries leave
    would be looked through three times (0.4 s with torch)."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    atexit.register(gc.freeze)
