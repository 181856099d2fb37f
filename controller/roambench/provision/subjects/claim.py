"""The claim on the board, before all else that is done to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from roambench.provision import layout
from roambench.provision.claims import CLAIMED, OVERTAKEN, OVERTAKEN_WORDS, BoardClaim, foreign
from roambench.provision.facts import Facts
from roambench.provision.step import HostStep, Skip
from roambench.provision.wanted import Wanted

_PATIENCE_S: Final = 60.0
_NO_CLAIM: Final = hashlib.sha256(b"").hexdigest()


def claim(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """The step that makes the board this bench's; none where it is, or where no claim is wanted."""
    if wanted.claim is not None:
        yield from claimed_for(facts, wanted.claim)


def claimed_for(facts: Facts, mine: BoardClaim) -> Iterator[HostStep]:
    """The step that makes the board that of the bench of `mine`; none where it is."""
    other = foreign(facts.claim, mine)
    if other is None and mine.bench_id in facts.claim:
        return
    kept = facts.files.get(layout.CLAIM)
    yield HostStep(
        "claim",
        f"is taken from {other.described()}" if other is not None else "belongs to no bench",
        CLAIMED,
        (kept.sha256 if kept else _NO_CLAIM, mine.to_json(), mine.by() if other is not None else ""),
        timeout_s=_PATIENCE_S,
        explained={OVERTAKEN: OVERTAKEN_WORDS},
    )
