from __future__ import annotations

import random

import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.readings.timeline import (
    complete_timeline,
    partition_check,
    without_outages,
    without_power,
)

MS = 10**6
S = 10**9


def span(phase: Phase, start_s: float, end_s: float, step: int = 0, moved: int = 0) -> PhaseSpan:
    return PhaseSpan(
        "pi-1", "boot", phase, step, round(start_s * S), round(end_s * S), transferred_bytes=moved
    )


def told(spans: list[PhaseSpan]) -> list[tuple[str, float, float]]:
    return [(s.phase.value, s.start_ns / S, s.end_ns / S) for s in spans]


def test_a_gapless_record_is_taken_as_it_is() -> None:
    record = [span(Phase.IDLE, 0, 4), span(Phase.TRAIN, 4, 9), span(Phase.WAIT, 9, 10)]
    assert complete_timeline(reversed(record), 0, 10 * S) == record


def test_a_hole_is_lost_time_of_the_step_before_it() -> None:
    spans = complete_timeline([span(Phase.IDLE, 1, 4, 3), span(Phase.TRAIN, 6, 9, 4)], 0, 10 * S)
    assert told(spans) == [("lost", 0, 1), ("idle", 1, 4), ("lost", 4, 6), ("train", 6, 9), ("lost", 9, 10)]
    assert [s.step for s in spans] == [3, 3, 3, 4, 4]
    assert {s.device for s in spans} == {"pi-1"}


def test_a_device_that_recorded_nothing_was_lost_all_the_time() -> None:
    assert told(complete_timeline([], 0, 10 * S, device="pi-2")) == [("lost", 0, 10)]
    assert complete_timeline([], 0, 10 * S, device="pi-2")[0].device == "pi-2"


def test_two_stamps_of_one_border_leave_no_lost_sliver() -> None:
    record = [span(Phase.IDLE, 0.01, 4), span(Phase.TRAIN, 4.03, 9.97)]
    assert told(complete_timeline(record, 0, 10 * S)) == [("idle", 0, 4.03), ("train", 4.03, 10)]


def test_where_spans_overlap_the_later_one_is_right() -> None:
    record = [span(Phase.IDLE, 0, 5), span(Phase.TRAIN, 4, 10)]
    assert told(complete_timeline(record, 0, 10 * S)) == [("idle", 0, 4), ("train", 4, 10)]


def test_a_span_inside_another_splits_it_and_bytes_are_counted_once() -> None:
    record = [span(Phase.UPLOAD, 0, 10, moved=700), span(Phase.TRAIN, 4, 6)]
    spans = complete_timeline(record, 0, 10 * S)
    assert told(spans) == [("upload", 0, 4), ("train", 4, 6), ("upload", 6, 10)]
    assert [s.transferred_bytes for s in spans] == [700, 0, 0]


def test_a_span_that_was_delivered_twice_counts_once() -> None:
    record = [span(Phase.TRAIN, 0, 10, moved=5)] * 2
    assert complete_timeline(record, 0, 10 * S) == record[:1]


def test_spans_are_clipped_to_the_run() -> None:
    record = [span(Phase.IDLE, -5, -1), span(Phase.IDLE, -1, 3), span(Phase.TRAIN, 3, 20)]
    assert told(complete_timeline(record, 0, 10 * S)) == [("idle", 0, 3), ("train", 3, 10)]


def test_a_phase_of_a_killed_agent_ends_at_its_last_evidence_of_life() -> None:
    # Readings until 6.2, the new agent starts at 12 and closes the old phase then.
    record = [span(Phase.IDLE, 0, 2), span(Phase.TRAIN, 2, 12.5, 7), span(Phase.IDLE, 12.5, 20, 8)]
    alive = [round(t * S) for t in (0.2, 1.2, 2.2, 3.2, 4.2, 5.2, 6.2, 12.2, 13.2)]
    spans = complete_timeline(record, 0, 20 * S, alive_ns=alive, restarts_ns=[12 * S])
    assert told(spans) == [
        ("idle", 0, 2),
        ("train", 2, 6.2),
        ("lost", 6.2, 12.5),
        ("idle", 12.5, 20),
    ]


def test_a_phase_that_began_and_was_never_finished_lasts_while_the_agent_lived() -> None:
    record = [span(Phase.IDLE, 0, 2), span(Phase.IDLE, 12, 20)]
    begun = [span(Phase.TRAIN, 2, 2, 7)]
    alive = [round(t * S) for t in (1.2, 3.2, 6.2, 12.2)]
    spans = complete_timeline(record, 0, 20 * S, alive_ns=alive, restarts_ns=[11 * S], begun=begun)
    assert told(spans) == [("idle", 0, 2), ("train", 2, 6.2), ("lost", 6.2, 12), ("idle", 12, 20)]


def test_a_kill_is_never_taken_for_a_seam() -> None:
    record = [span(Phase.IDLE, 0, 5), span(Phase.IDLE, 5.04, 10)]
    assert [s.phase for s in complete_timeline(record, 0, 10 * S, restarts_ns=[5_030 * MS])] == [
        Phase.IDLE,
        Phase.LOST,
        Phase.IDLE,
    ]


def test_any_record_at_all_becomes_an_exact_partition() -> None:
    chance = random.Random(4)
    phases = list(Phase)
    for _ in range(300):
        record = []
        for _ in range(chance.randrange(12)):
            start = chance.uniform(-3, 12)
            record.append(span(chance.choice(phases), start, start + chance.expovariate(0.5), 1, moved=10))
        alive = [round(chance.uniform(0, 10) * S) for _ in range(chance.randrange(5))]
        restarts = [round(chance.uniform(0, 10) * S) for _ in range(chance.randrange(3))]
        begun = [span(Phase.TRAIN, t, t) for t in (chance.uniform(0, 10),)]
        spans = complete_timeline(
            record, 0, 10 * S, device="pi-1", alive_ns=alive, restarts_ns=restarts, begun=begun
        )
        assert partition_check(spans, 0, 10 * S) == []
        assert sum(s.end_ns - s.start_ns for s in spans) == 10 * S
        assert all(s.end_ns > s.start_ns for s in spans)
        assert sum(s.transferred_bytes for s in spans) <= 10 * len(set(record))


def test_what_is_no_partition_is_told_in_words() -> None:
    problems = partition_check([span(Phase.IDLE, 1, 4), span(Phase.TRAIN, 3, 9)], 0, 10 * S)
    assert problems == [
        "pi-1 idle of step 0: 1.000000 s before it are in no phase",
        "pi-1 train of step 0: overlaps the phase before by 1.000000 s",
        "the phases end 1.000000 s before the run does",
    ]


def test_a_run_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot end"):
        complete_timeline([], 10, 0)


def test_an_outage_is_one_lost_span_whatever_was_done_in_it() -> None:
    record = [
        span(Phase.IDLE, 0, 2),
        span(Phase.TRAIN, 2, 4, 1, moved=9),
        span(Phase.LOST, 4, 6),
        span(Phase.IDLE, 6, 8, 1),
        span(Phase.UPLOAD, 8, 10, 2, moved=7),
    ]
    cut = without_outages(record, [(3 * S, 7 * S)])
    assert told(cut) == [
        ("idle", 0, 2),
        ("train", 2, 3),
        ("lost", 3, 7),
        ("idle", 7, 8),
        ("upload", 8, 10),
    ]
    assert [s.transferred_bytes for s in cut] == [0, 9, 0, 0, 7]
    assert [s.step for s in cut] == [0, 1, 1, 1, 2]
    inside = without_outages(record, [(round(8.5 * S), 9 * S)])
    assert told(inside)[-3:] == [("upload", 8, 8.5), ("lost", 8.5, 9), ("upload", 9, 10)]
    assert sum(s.transferred_bytes for s in inside) == 16
    at_the_end = without_outages(record, [(S, 2 * S), (9 * S, 20 * S)])
    assert told(at_the_end)[:2] == [("idle", 0, 1), ("lost", 1, 2)]
    assert told(at_the_end)[-1] == ("lost", 9, 10)
    assert without_outages(record, [(20 * S, 30 * S)]) == record
    assert partition_check(at_the_end, 0, 10 * S) == partition_check(cut, 0, 10 * S) == []


def test_what_is_lost_while_the_power_was_cut_is_off() -> None:
    record = [span(Phase.IDLE, 0, 2), span(Phase.LOST, 2, 8), span(Phase.TRAIN, 8, 10, 1, moved=9)]
    cut = without_power(record, [(3 * S, 5 * S), (6 * S, 7 * S), (9 * S, 20 * S)])
    assert told(cut) == [
        ("idle", 0, 2),
        ("lost", 2, 3),
        ("off", 3, 5),
        ("lost", 5, 6),
        ("off", 6, 7),
        ("lost", 7, 8),
        ("train", 8, 10),  # an agent stamped it: it had its power
    ]
    assert partition_check(cut, 0, 10 * S) == []
    assert told(without_power(record, [(0, 10 * S)]))[1] == ("off", 2, 8)
    assert without_power(record, []) == record
