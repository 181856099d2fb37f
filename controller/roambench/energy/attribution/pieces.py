"""Spans cut where a transfer's first and last bytes moved and where it stalled: while it waits, a radio draws
less; pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.idle.baseline import BASELINE_PHASES
from roambench.energy.idle.idle_curve import TAIL_S
from roambench.energy.readings.occupancy import Columns

TRANSFERS: Final = (Phase.DOWNLOAD, Phase.UPLOAD, Phase.EXCHANGE)
#: In these a transfer's tail is told apart where they follow it.
_AFTER: Final = BASELINE_PHASES | {Phase.TRAIN}
#: Transfers that can be cut; an exchange moves both ways at once and has no one first byte.
CUT = frozenset({Phase.DOWNLOAD, Phase.UPLOAD})


class SpanPart(NamedTuple):
    """A part of a span that draws otherwise than the rest: `share` ± `share_sd` (k = 1) of what that draws
    above idle, single ones `scatter` more or less. Levels are named by it.
    """

    name: str
    share: float
    share_sd: float
    scatter: float


#: A round trip, or a stall: the radio rests or works, anything from 0 to 1, and the ends are not rare. What
#: lasts longer may be a server that thinks, a radio that wakes up, a core that hashes or a card that writes.
WAITING: Final = SpanPart("waiting", 0.5, 0.35, 0.1)
LONG_WAITING: Final = SpanPart("long waiting", 1.5, 1.5, 0.5)
LONG_S: Final = 0.1
#: A governor raises the clock some tenths of a second after the work began, or a file is read first.
STARTING: Final = SpanPart("starting", 0.8, 0.8, 0.4)
STARTING_S: Final = 0.2
#: The last batch is short, a loader is asked again, a model is written: less, at the other end.
ENDING: Final = SpanPart("ending", 0.8, 0.8, 0.4)
ENDING_S: Final = 0.2
#: A radio stays on after a transfer, a card writes: the readings alone tell what. What is left of it after
#: that first second is told by its age (`idle_curve`).
TAIL: Final = SpanPart("tail", 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of spans, in order of time and without a hole between those of one span.

    `span_of` has shape (pieces,) and is the index of the span that each is cut from, `parts` says which
    pieces are no rest of their span: transfers in which no byte moved, trainings that begin or end, and the
    first second after a transfer. A span that is not cut is its own only piece. `amid`, shape (pieces,), are
    the stalls of transfers and what moves on after them: nothing begins there. That draws what moved before
    the stall does: `power_of`, shape (pieces,), is the index of the first piece of the same power.
    """

    spans: tuple[PhaseSpan, ...]
    span_of: Columns
    parts: tuple[SpanPart | None, ...]
    amid: npt.NDArray[np.bool_]
    power_of: Columns


class _Piece(NamedTuple):
    """One piece, of the span of index `of`; see `Pieces`."""

    span: PhaseSpan
    of: int
    part: SpanPart | None
    amid: bool = False


def pieces_of(spans: Sequence[PhaseSpan], *, apart: Collection[SpanPart] = ()) -> Pieces:
    """Cut every transfer whose bytes are stamped, what follows a transfer at once after a second, and the
    parts of every training that are asked for (`apart`: STARTING, ENDING); a transfer's bytes go with the
    piece in which they moved.

    Stamps outside a span (it was cut by a restart) count as its border; a transfer that moved nothing
    inside its span waited throughout. A stall is the waiting of a round trip however long it lasts: the radio
    listens, and nothing else is done.
    """
    found: list[_Piece] = []
    for index, span in enumerate(spans):
        before = spans[index - 1].phase if index else None
        begun_ns, done_ns = span.start_ns, span.end_ns
        if span.phase is Phase.TRAIN and span.duration_s > 2.0 * (STARTING_S + ENDING_S):
            begun_ns += round(STARTING_S * 1e9) * (STARTING in apart)
            done_ns -= round(ENDING_S * 1e9) * (ENDING in apart)
        tail_ns = begun_ns
        if begun_ns > span.start_ns:
            found.append(_Piece(replace(span, end_ns=begun_ns), index, STARTING))
        if before in TRANSFERS and span.phase in _AFTER and span.duration_s > 0.0:
            tail_ns = min(done_ns, span.start_ns + round(TAIL_S[0] * 1e9))
            found.append(_Piece(replace(span, start_ns=begun_ns, end_ns=tail_ns), index, TAIL))
        if (tail_ns, done_ns) != (span.start_ns, span.end_ns):
            if tail_ns < done_ns:
                found.append(_Piece(replace(span, start_ns=tail_ns, end_ns=done_ns), index, None))
            if done_ns < span.end_ns:
                found.append(_Piece(replace(span, start_ns=done_ns), index, ENDING))
            continue
        if span.phase not in CUT or not span.last_byte_ns or span.end_ns == span.start_ns:
            found.append(_Piece(span, index, None))
            continue
        found += _transfer(span, index)
    power_of = np.arange(len(found))
    moves = 0
    for i, piece in enumerate(found):
        if piece.part is None:
            moves = moves if piece.amid else i
            power_of[i] = moves
    return Pieces(
        tuple(piece.span for piece in found),
        np.array([piece.of for piece in found], dtype=np.int64),
        tuple(piece.part for piece in found),
        np.array([piece.amid for piece in found], dtype=np.bool_),
        power_of,
    )


def _transfer(span: PhaseSpan, index: int) -> list[_Piece]:
    """A stamped transfer in its pieces; its bytes go with those that move, by their seconds."""
    first_ns = min(max(span.first_byte_ns, span.start_ns), span.end_ns)
    last_ns = min(max(span.last_byte_ns, first_ns), span.end_ns)
    borders: list[tuple[int, SpanPart | None]] = [(span.start_ns, LONG_WAITING), (first_ns, None)]
    for stall_ns in span.stalls_ns:
        begin_ns, end_ns = (min(max(ns, first_ns), last_ns) for ns in stall_ns)
        if begin_ns < end_ns:
            borders += [(begin_ns, WAITING), (end_ns, None)]
    borders += [(last_ns, LONG_WAITING), (span.end_ns, None)]
    moving_ns = sum(end_ns - begin_ns for (begin_ns, part), (end_ns, _) in pairwise(borders) if part is None)
    found: list[_Piece] = []
    moved_ns = moved_bytes = 0
    for (begin_ns, part), (end_ns, _) in pairwise(borders):
        if end_ns == begin_ns:
            continue
        amid, own_bytes = moved_ns > 0 and begin_ns < last_ns, 0
        if part is None:
            moved_ns += end_ns - begin_ns
            own_bytes = span.transferred_bytes * moved_ns // moving_ns - moved_bytes
            moved_bytes += own_bytes
        elif (end_ns - begin_ns) * 1e-9 < LONG_S:
            part = WAITING
        piece = replace(span, start_ns=begin_ns, end_ns=end_ns, transferred_bytes=own_bytes)
        found.append(_Piece(piece, index, part, amid))
    return found
