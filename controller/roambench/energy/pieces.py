"""Spans cut where a transfer's first and last bytes moved: while it waits, a radio draws less; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.occupancy import Columns

#: Transfers that can be cut; an exchange moves both ways at once and has no one first byte.
CUT = frozenset({Phase.DOWNLOAD, Phase.UPLOAD})


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of spans, in order of time and without a hole between those of one span.

    `span_of` has shape (pieces,) and is the index of the span that each is cut from, `waits` marks the
    pieces of transfers in which no byte moved. A span that is not cut is its own only piece.
    """

    spans: tuple[PhaseSpan, ...]
    span_of: Columns
    waits: tuple[bool, ...]


def pieces_of(spans: Sequence[PhaseSpan]) -> Pieces:
    """Cut every transfer whose bytes are stamped; its bytes go with the piece in which they moved.

    Stamps outside a span (it was cut by a restart) count as its border; a transfer that moved nothing
    inside its span waited throughout.
    """
    found: list[tuple[PhaseSpan, int, bool]] = []
    for index, span in enumerate(spans):
        if span.phase not in CUT or not span.last_byte_ns:
            found.append((span, index, False))
            continue
        first_ns = min(max(span.first_byte_ns, span.start_ns), span.end_ns)
        last_ns = min(max(span.last_byte_ns, first_ns), span.end_ns)
        borders = (span.start_ns, first_ns, last_ns, span.end_ns)
        for begin_ns, end_ns, waits in zip(borders, borders[1:], (True, False, True), strict=False):
            if end_ns > begin_ns or (not waits and span.end_ns == span.start_ns):
                moved = 0 if waits else span.transferred_bytes
                piece = replace(span, start_ns=begin_ns, end_ns=end_ns, transferred_bytes=moved)
                found.append((piece, index, waits))
    return Pieces(
        tuple(piece for piece, _, _ in found),
        np.array([index for _, index, _ in found], dtype=np.int64),
        tuple(waits for _, _, waits in found),
    )
