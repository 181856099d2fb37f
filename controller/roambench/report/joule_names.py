"""The name of each kind of joules: the same on the screen, the page and the live page (docs/glossary.md)."""

from __future__ import annotations

from typing import Final

#: Of transfers and trainings, gross; MOHAWK's tables call it consumed.
LEARNING: Final = "used for learning"
#: The part of it whose models the system had no use for.
WASTED: Final = "wasted"
#: All that the boards drew while the run went on.
BOARDS: Final = "boards in all"
#: The same in full, where it stands beside a number.
BOARDS_IDLING_TOO: Final = "boards in all, idling too"


def in_all(name: str, scope: str) -> str:
    """`name` (BOARDS or BOARDS_IDLING_TOO) of `scope`: "" for whole boards, else what meters saw."""
    return name.replace("boards", scope) if scope else name


#: The scope of a sum over meters of which some see a part of their board.
DIFFERENT_SITES: Final = "different sites"
#: Used for learning, in trainings that broke: no part of what is wasted.
FAILED: Final = "in trainings that failed"
