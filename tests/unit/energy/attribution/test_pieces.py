"""Transfers cut where their bytes begin and end to move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribution.pieces import ENDING, LONG_WAITING, STARTING, TAIL, WAITING, pieces_of

S = 10**9


def span(phase: Phase, start_s: float, end_s: float, first_s: float = 0.0, last_s: float = 0.0) -> PhaseSpan:
    stamps = [round(at * S) for at in (start_s, end_s)]
    moved = [round(at * S) for at in (first_s, last_s)]
    return PhaseSpan("pi", "boot", phase, 1, *stamps, "o", "t", 1000, *moved)


def test_a_stamped_transfer_waits_moves_and_waits():
    cut = pieces_of([span(Phase.IDLE, 0, 5), span(Phase.UPLOAD, 5, 7, 5.3, 6.8), span(Phase.WAIT, 7, 9)])
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans] == [
        (0, 5),
        (5, 5.3),
        (5.3, 6.8),
        (6.8, 7),
        (7, 8),
        (8, 9),
    ]
    assert cut.span_of.tolist() == [0, 1, 1, 1, 2, 2]
    assert cut.parts == (None, LONG_WAITING, None, LONG_WAITING, TAIL, None)
    assert [p.transferred_bytes for p in cut.spans] == [1000, 0, 1000, 0, 1000, 1000]


@pytest.mark.parametrize("phase", [Phase.WAIT, Phase.IDLE, Phase.ABSENT, Phase.TRAIN])
def test_the_second_after_a_transfer_is_its_tail_whatever_follows(phase):
    cut = pieces_of([span(Phase.DOWNLOAD, 0, 2), span(phase, 2, 9), span(phase, 9, 12)])
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans] == [(0, 2), (2, 3), (3, 9), (9, 12)]
    assert cut.parts == (None, TAIL, None, None)
    short = pieces_of([span(Phase.DOWNLOAD, 0, 2), span(phase, 2, 2.5)])
    assert short.parts == (None, TAIL)


def test_a_training_behind_a_download_begins_and_then_has_the_rest_of_the_tail():
    cut = pieces_of([span(Phase.DOWNLOAD, 0, 2), span(Phase.TRAIN, 2, 9)], apart={STARTING})
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans] == [(0, 2), (2, 2.2), (2.2, 3), (3, 9)]
    assert cut.parts == (None, STARTING, TAIL, None)


def test_trainings_end_apart_where_that_is_asked_for():
    spans = [span(Phase.DOWNLOAD, 0, 2), span(Phase.TRAIN, 2, 9), span(Phase.TRAIN, 10, 13)]
    cut = pieces_of(spans, apart={STARTING, ENDING})
    ends = [(0, 2), (2, 2.2), (2.2, 3), (3, 8.8), (8.8, 9), (10, 10.2), (10.2, 12.8), (12.8, 13)]
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans] == ends
    assert cut.parts == (None, STARTING, TAIL, None, ENDING, STARTING, None, ENDING)
    assert pieces_of(spans, apart={ENDING}).parts == (None, TAIL, None, ENDING, None, ENDING)


def test_what_nobody_stamped_and_what_is_no_transfer_stays_whole():
    spans = [
        span(Phase.TRAIN, 0, 2, 0.5, 1.0),
        span(Phase.DOWNLOAD, 2, 4),
        span(Phase.EXCHANGE, 4, 6, 4.5, 5.0),
    ]
    cut = pieces_of(spans)
    assert cut.spans == tuple(spans)
    assert cut.parts == (None, None, None)


def test_stamps_outside_a_span_that_was_cut_count_as_its_borders():
    cut = pieces_of([span(Phase.DOWNLOAD, 5, 7, 4.0, 6.0), span(Phase.UPLOAD, 7, 8, 8.5, 9.0)])
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans] == [(5, 6), (6, 7), (7, 8)]
    assert cut.parts == (None, LONG_WAITING, LONG_WAITING)
    assert cut.span_of.tolist() == [0, 0, 1]


def test_a_short_wait_is_another_part_than_a_long_one():
    cut = pieces_of([span(Phase.DOWNLOAD, 5, 7, 5.09, 6.8)])
    assert cut.parts == (WAITING, None, LONG_WAITING)


def test_trainings_are_cut_where_they_have_begun_if_asked_and_long_enough():
    spans = [span(Phase.TRAIN, 2, 4), span(Phase.TRAIN, 5, 5.3)]
    cut = pieces_of(spans, apart={STARTING})
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans] == [(2, 2.2), (2.2, 4), (5, 5.3)]
    assert cut.parts == (STARTING, None, None)
    assert cut.span_of.tolist() == [0, 0, 1]


def stalled(*stalls_s: tuple[float, float], last_s: float = 6.8, moved: int = 1000) -> PhaseSpan:
    """An upload from 5 to 7 s, whose bytes move from 5.05 s on."""
    stalls_ns = tuple((round(begin * S), round(end * S)) for begin, end in stalls_s)
    return replace(span(Phase.UPLOAD, 5, 7, 5.05, last_s), transferred_bytes=moved, stalls_ns=stalls_ns)


def test_a_stall_waits_and_what_moves_after_it_goes_on_with_the_same_power():
    cut = pieces_of([span(Phase.IDLE, 0, 5), stalled((5.5, 5.7), (6.0, 6.3)), span(Phase.WAIT, 7, 9)])
    ends = [
        (0, 5),
        (5, 5.05),
        (5.05, 5.5),
        (5.5, 5.7),
        (5.7, 6),
        (6, 6.3),
        (6.3, 6.8),
        (6.8, 7),
        (7, 8),
        (8, 9),
    ]
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans] == ends
    assert cut.parts == (None, WAITING, None, WAITING, None, WAITING, None, LONG_WAITING, TAIL, None)
    assert cut.span_of.tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 2, 2]
    assert cut.amid.tolist() == [False] * 3 + [True] * 4 + [False] * 3
    assert cut.power_of.tolist() == [0, 1, 2, 3, 2, 5, 2, 7, 8, 9]


@pytest.mark.parametrize("moved", [0, 1, 7, 1000, 2_636_968, 2**53])
def test_the_bytes_go_with_what_moves_by_its_seconds_and_none_is_lost(moved):
    cut = pieces_of([stalled((5.5, 5.7), (6.0, 6.3), moved=moved)])
    of_bytes = [piece.transferred_bytes for piece in cut.spans]
    assert sum(of_bytes) == moved
    seconds = [0.0 if part else piece.duration_s for piece, part in zip(cut.spans, cut.parts, strict=True)]
    assert of_bytes == pytest.approx([moved * s / sum(seconds) for s in seconds], abs=1.0)


def test_stalls_of_a_span_that_was_cut_end_at_its_borders():
    late = replace(stalled((5.5, 5.7), (6.0, 6.3)), end_ns=round(6.1 * S))
    cut = pieces_of([late])
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans] == [
        (5, 5.05),
        (5.05, 5.5),
        (5.5, 5.7),
        (5.7, 6),
        (6, 6.1),
    ]
    assert cut.power_of.tolist() == [0, 1, 2, 1, 4]
    gone = replace(stalled((5.5, 5.7)), end_ns=round(5.6 * S))
    assert pieces_of([gone]).parts == (WAITING, None, WAITING)
    assert pieces_of([replace(gone, end_ns=gone.start_ns)]).spans[0].transferred_bytes == 1000


def test_stalls_from_the_first_byte_on_and_one_after_the_other_begin_nothing_twice():
    cut = pieces_of([stalled((5.05, 5.2), (5.5, 5.7), (5.7, 5.9), (6.6, 6.8))])
    assert [(p.start_ns / S, p.end_ns / S) for p in cut.spans][1:] == [
        (5.05, 5.2), (5.2, 5.5), (5.5, 5.7), (5.7, 5.9), (5.9, 6.6), (6.6, 6.8), (6.8, 7)
    ]  # fmt: skip
    assert cut.power_of.tolist() == [0, 1, 2, 3, 4, 2, 6, 7]
    assert cut.amid.tolist() == [False] * 3 + [True] * 4 + [False]
