"""Transfers cut where their bytes begin and end to move."""

from __future__ import annotations

import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.pieces import ENDING, LONG_WAITING, STARTING, TAIL, WAITING, pieces_of

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
