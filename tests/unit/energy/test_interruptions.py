"""Runs of a board that reads its own meter, with what interrupts them: gaps in its lines, an agent that
dies, time without power. Joules are the true ones within what is said of them, no wider than need be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drawn_boards import EXACT, Board, accounted, rounds, smart_power_2
from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy
from roambench.rounds.records import BoardSwitched
from roambench.runs.measured.accounts import DeviceEnergy

S = 10**9
SEEDS = 8


def net(device: DeviceEnergy, *phases: Phase) -> Energy:
    return device.ledger.total("net", device.ledger.of_phase(*phases))


def test_a_gap_in_one_training_leaves_the_others_as_sure_as_they_were(tmp_path: Path) -> None:
    held = []
    for seed in range(SEEDS):
        draw = np.random.default_rng(seed)
        board = Board()
        board.add(Phase.IDLE, 60.0)
        rounds(board, draw)
        board.add(Phase.IDLE, 60.0)
        at_s, watts = smart_power_2(board, draw)
        (_, start_s, end_s) = [span for span in board.spans if span[0] is Phase.TRAIN][10]
        from_s = 0.5 * (start_s + end_s) - 4.0
        seen = (at_s <= from_s) | (at_s >= from_s + 8.0)
        without = accounted(tmp_path / f"without-{seed}", board, (at_s, watts))
        device = accounted(tmp_path / f"gap-{seed}", board, (at_s[seen], watts[seen]))
        rows = [
            row for row in device.rows if row.phase is Phase.TRAIN and row.covered_s > 0.99 * row.duration_s
        ]
        assert len(rows) == 19
        of_all = [row.u_own_j for row in without.rows if row.phase is Phase.TRAIN]
        assert max(row.u_own_j for row in rows) < 1.3 * max(of_all)
        assert device.whole_run.u_joules < 1.3 * without.whole_run.u_joules
        caused_j = sum(3.0 * row.duration_s for row in rows)
        u_j = float(np.linalg.norm([row.u_net_j for row in rows]))
        held.append(abs(sum(row.net_j for row in rows) - caused_j) <= 2.0 * u_j)
        covered_s = np.array(device.account.curve.covered_intervals()) / S
        true_j = float(np.diff(board.joules(covered_s), axis=1).sum())
        held.append(abs(device.whole_run.joules - true_j) <= 2.0 * device.whole_run.u_joules)
    assert sum(held) >= len(held) - 2


@pytest.mark.parametrize("rested_s", [0.0, 0.5])
@pytest.mark.parametrize("phase", [Phase.UPLOAD, Phase.TRAIN])
def test_joules_of_lost_time_are_not_those_of_the_phase_before_it(
    tmp_path: Path, phase: Phase, rested_s: float
) -> None:
    """Twice the agent dies at the end of a phase or in the rest behind it; its board boots at 1.5 W more."""
    held, errors = [], []
    for seed in range(SEEDS):
        draw = np.random.default_rng(seed)
        whole = Board()
        whole.add(Phase.IDLE, 60.0)
        rounds(whole, draw)
        whole.add(Phase.IDLE, 60.0)
        board, seen = Board(), 0
        for k, ((kind, start_s, end_s), watts) in enumerate(zip(whole.spans, whole.watts, strict=True)):
            after = whole.spans[k - 1][0] if k else None
            seen += after is phase
            dies = after is phase and seen in (6, 13)
            if dies and rested_s:
                board.add(Phase.REST, rested_s)
            if dies:
                board.add(Phase.LOST, 20.0, 1.5)
                board.add(Phase.IDLE, 5.0)
            else:
                board.add(kind, end_s - start_s, watts - whole.idle_w)
        device = accounted(tmp_path / str(seed), board, smart_power_2(board, draw))
        found = net(device, phase)
        held.append(abs(found.joules - board.caused(phase)) <= 2.0 * found.u_joules)
        errors.append(found.joules / board.caused(phase) - 1.0)
        rows = device.ledger.total()
        assert rows.joules == pytest.approx(device.whole_run.joules, rel=0.004)
    assert sum(held) >= SEEDS - 1
    assert abs(np.mean(errors)) < (0.03 if phase is Phase.UPLOAD else 0.005)


@pytest.mark.parametrize("prints_zeros", [False, True])
def test_time_without_power_costs_nothing_and_is_unsure_only_where_it_was_read(
    tmp_path: Path, prints_zeros: bool
) -> None:
    draw = np.random.default_rng(1)
    board = Board()
    board.add(Phase.IDLE, 60.0)
    rounds(board, draw, 5)
    off_s = board.now_s
    board.add(Phase.OFF, 600.0)
    on_s = board.now_s
    board.add(Phase.IDLE, 20.0)
    rounds(board, draw, 5)
    board.add(Phase.IDLE, 60.0)
    at_s, watts = smart_power_2(board, draw)
    if not prints_zeros:
        printed = (at_s < off_s) | (at_s > on_s + 0.3)
        at_s, watts = at_s[printed], watts[printed]
    log = [BoardSwitched(0, 0, False, round(off_s * S)), BoardSwitched(0, 0, True, round(on_s * S))]
    device = accounted(tmp_path / "run", board, (at_s, watts), energy=EXACT | {"u_offset_w": 0.0098}, log=log)
    (off,) = [row for row in device.rows if row.phase is Phase.OFF]
    assert (off.duration_s, off.covered_s) == (pytest.approx(600.0), pytest.approx(600.0))
    assert off.gross_j == pytest.approx(0.0, abs=3.0)
    assert off.net_j == 0.0
    true_j = sum(board.caused(phase) for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD))
    found = device.ledger.total("net")
    assert found.joules == pytest.approx(true_j, abs=2.0 * found.u_joules)
    assert found.u_joules < 0.05 * true_j
    whole_j = float(board.joules(np.array(board.now_s)))
    assert device.whole_run.joules == pytest.approx(whole_j, abs=2.0 * device.whole_run.u_joules)
    read_s = board.now_s - (0.0 if prints_zeros else 600.0)
    assert device.whole_run.budget.offset_j == pytest.approx(0.0098 * read_s, rel=0.01)
    assert off.u_gross_j < (8.0 if prints_zeros else 0.2)
