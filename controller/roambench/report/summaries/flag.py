"""A doubt about a run, grave or routine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One sentence, what to do before why. A `routine` one tells how a run was made, or what was allowed for:
    no figure on the screen means less because of it. It is folded away on the page."""

    sentence: str
    routine: bool = False


def grave(sentences: Iterable[str]) -> list[Flag]:
    """A flag that is not routine for each sentence."""
    return [Flag(sentence) for sentence in sentences]


def gravest_first(flags: Iterable[Flag]) -> tuple[Flag, ...]:
    """Each flag once, in their order, routine ones last."""
    return tuple(sorted(dict.fromkeys(flags), key=lambda flag: flag.routine))
