"""Joules of boards as their records come, against what they drew by construction."""

from __future__ import annotations

import random

import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import HostSample, Reading, ReadingFlag, RecordKind, phase_to_bytes
from roambench.live.boards import Board, BoardStream, DarkBoards
from roambench.live.power import MeanPowers
from roambench.rounds.records import BatteriesSeen, BoardSwitched

S = 1_000_000_000


def stream(board: Board, start_ns: int | None = 0) -> BoardStream:
    return BoardStream("pi-01", board, 1.0, lambda _boot, ns: None if start_ns is None else ns - start_ns)


def reading(at_s: float, watts: float, flags: ReadingFlag = ReadingFlag.NONE) -> tuple[int, bytes]:
    return RecordKind.READING, Reading(round(at_s * S), 5.0, watts / 5, watts, flags=flags).to_bytes()


def phase(kind: Phase, step: int, from_s: float, to_s: float, update: str = "") -> tuple[int, bytes]:
    span = PhaseSpan("pi-01", "b", kind, step, round(from_s * S), round(to_s * S), update, update)
    return RecordKind.PHASE, phase_to_bytes(span)


def test_constant_power_is_booked_to_the_phases_that_agents_stamped() -> None:
    board = Board()
    of = stream(board)
    for at in range(61):
        of.add(*reading(at, 2.0))
    for record in (
        phase(Phase.IDLE, -1, 0, 10.5),
        phase(Phase.TRAIN, 0, 10.5, 40.25, "t"),
        phase(Phase.UPLOAD, 1, 40.25, 50, "t"),
        phase(Phase.IDLE, 1, 50, 60),
    ):
        of.add(*record)
    of.arrived(1000.0)
    assert board.joules == pytest.approx(120.0)
    assert {step: cell.joules for step, cell in board.cells.items()} == pytest.approx(
        {-1: 21.0, 0: 59.5, 1: 39.5}
    )
    assert board.by_update == pytest.approx({"t": 79.0})
    assert board.cells[0].watts == pytest.approx(2.0)
    assert board.cells[1].until_s == pytest.approx(60.0)


def test_rests_are_added_up_by_step_and_the_last_measured_phase_is_known() -> None:
    board = Board()
    of = stream(board)
    for record in (
        phase(Phase.REST, 0, 0, 2),
        phase(Phase.DOWNLOAD, 0, 2, 3, "t"),
        phase(Phase.REST, 0, 3, 7),
        phase(Phase.REST, 1, 7, 9),
    ):
        of.add(*record)
    assert {step: cell.rested_s for step, cell in board.cells.items()} == pytest.approx({0: 6.0, 1: 2.0})
    assert of.ended is not None
    assert (of.ended.phase, of.ended.order_id) == (Phase.DOWNLOAD, "t")


@pytest.mark.parametrize("seed", range(20))
def test_the_same_records_in_any_portions_give_the_same_sums(seed: int) -> None:
    draw = random.Random(seed)
    at, records, spans = 0.0, [], []
    begun = 0.0
    for step in range(12):
        ends = begun + draw.uniform(0.5, 9.0)
        spans.append((begun, ends))
        while at < ends:
            records.append(reading(at, draw.uniform(1.0, 5.0)))
            at += draw.choice([0.3, 1.0, 1.0, 4.0])
        records.append(phase(Phase.TRAIN, step, begun, ends, f"t{step}"))
        begun = ends
    sums = []
    for portion in (1, 5, len(records)):
        board = Board()
        of = stream(board)
        for start in range(0, len(records), portion):
            for record in records[start : start + portion]:
                of.add(*record)
            of.arrived(1000.0)
        sums.append({step: cell.joules for step, cell in board.cells.items()})
        assert sum(sums[-1].values()) <= board.joules + 1e-9
    assert sums[1] == pytest.approx(sums[0])
    assert sums[2] == pytest.approx(sums[0])


def test_gaps_doubtful_lines_and_the_time_before_the_run_count_for_nothing() -> None:
    board = Board()
    of = stream(board, start_ns=2 * S)
    for record in (
        reading(0.0, 9.0),
        reading(1.0, 9.0),
        reading(2.0, 1.0),
        reading(3.0, 1.0),
        reading(3.5, 500.0, ReadingFlag.INCONSISTENT),
        reading(4.0, 1.0),
        reading(9.0, 1.0),  # 5 s after the last one
        reading(10.0, 1.0),
    ):
        of.add(*record)
    of.add(RecordKind.READING, b"rubbish")
    of.add(99, b"rubbish")
    assert board.joules == pytest.approx(3.0)
    assert board.readings == 7


def test_before_the_run_has_begun_nothing_is_placed() -> None:
    board = Board()
    of = stream(board, start_ns=None)
    of.add(*reading(1.0, 2.0))
    assert board.watts == 2.0
    assert board.power.means() == []


def test_the_fastest_arrival_tells_the_age_of_a_reading() -> None:
    """A board's clock is nobody's: 40 s of it pass while records wait for a quiet phase to end."""
    board = Board()
    of = stream(board)
    of.add(*reading(5000.0, 2.0))
    of.arrived(101.0)  # 1 s on its way
    of.add(*reading(5040.0, 2.0))
    of.arrived(170.0)  # it waited for 30 s
    assert board.seen_s == pytest.approx(141.0)
    of.add(*reading(5080.0, 2.0))
    of.arrived(180.2)  # faster than the first: all ages are corrected by 0.8 s from now on
    assert board.seen_s == pytest.approx(180.2)


def test_a_hot_board_is_named_in_words() -> None:
    board = Board()
    of = stream(board)
    of.add(RecordKind.HOST, HostSample(S, temperature_c=81.5, throttle_bits=0x50005).to_bytes())
    assert board.temperature_c == 81.5
    assert board.throttled == "under-voltage, throttled"


def test_a_curve_of_a_day_keeps_to_its_bound_and_its_mean() -> None:
    curve = MeanPowers(width_s=1.0, most=600)
    for second in range(86_400):
        curve.add(second, 2.0 if second < 43_200 else 4.0)
    means = curve.means()
    assert len(means) <= 600
    assert curve.width_s == 256.0
    assert means[0] == 2.0
    assert means[-1] == 4.0
    start, changed = curve.taken() or (-1, [])
    assert (start, changed) == (0, means)
    assert curve.taken() is None
    curve.add(86_400, 4.0)
    assert curve.taken() == (len(means) - 1, [4.0])


def test_a_board_whose_power_was_cut_draws_nothing() -> None:
    boards = [Board(watts=2.0), Board(watts=2.0)]
    of = stream(boards[0], 100 * S)
    dark = DarkBoards(boards, 100 * S)
    for at in range(101, 110):
        of.add(*reading(at, 2.0))
    dark.follow(BoardSwitched(1, 0, False, round(110.2 * S)))
    assert (boards[0].watts, boards[1].watts) == (0.0, 2.0)
    assert boards[0].power.means() == [2.0] * 5
    dark.follow(BatteriesSeen(2, (0.0, 1.0), (), (), (), (0,), at_s=14.5))
    assert boards[0].power.means() == [2.0] * 5 + [0.0] * 3
    dark.follow(BoardSwitched(3, 0, True, 120 * S))
    dark.follow(BatteriesSeen(4, (1.0, 1.0), (), (), (), (), at_s=40.0))
    for at in range(121, 124):
        of.add(*reading(at, 2.0))
    assert boards[0].power.means() == [2.0] * 5 + [0.0] * 5 + [2.0] * 2
    assert boards[1].power.means() == []
