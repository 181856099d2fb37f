"""Fleets of boards with shapes, tails and late governors, whose errors do not hide in their number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.contract.phases import Phase, PhaseSpan
from roambench.emulation.electric.power import IDLE, Activity
from roambench.emulation.electric.shapes import REALISTIC
from roambench.emulation.virtual import emulate
from roambench.energy.account import Method, account_device
from roambench.energy.ledger import Ledger, LedgerRow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import EXACT

S = 10**9
BOARDS = 8
FLEETS = 4
ROUNDS = 12


def ledger(fleet: int, board: int, rest_s: float) -> tuple[Method, list[LedgerRow], float]:
    """Rows of the downloads of one board as emulated ones draw, and what they really cost above idle: from
    the beginning of each to the end of the rest behind it, where there is one."""
    draw = generator(fleet, "rounds", board)
    spans, schedule, at_s = [], [], 40.0
    rest = ((Phase.REST, rest_s, IDLE),) if rest_s else ()
    for step in range(ROUNDS):
        for phase, length_s, activity in (
            (Phase.IDLE, 12.0, IDLE),
            (Phase.DOWNLOAD, 1.1, Activity(rx_mbit_s=20.0)),
            *rest,
            (Phase.TRAIN, 14.0, Activity(busy_cores=1.0)),
            *rest,
            (Phase.WAIT, 1.0, Activity(waiting=True)),
            *rest,
            (Phase.UPLOAD, 1.1, Activity(tx_mbit_s=20.0)),
            *rest,
        ):
            start_ns = round(at_s * S)
            at_s += length_s * (1.0 if phase is Phase.REST else draw.uniform(0.95, 1.05))
            end_ns, moved = round(at_s * S), (0, 0, 0)
            if phase in (Phase.DOWNLOAD, Phase.UPLOAD):
                moved = (2_600_000, start_ns + 20_000_000, end_ns - 30_000_000)
                activity = replace(activity, moves_until_ns=moved[2])
            spans.append(PhaseSpan(f"pi-{board}", "b", phase, step, start_ns, end_ns, "", "", *moved))
            schedule.append((start_ns / S, activity))
    schedule.append((at_s, IDLE))
    first = PhaseSpan(f"pi-{board}", "b", Phase.IDLE, -1, 2 * S, spans[0].start_ns)
    last = PhaseSpan(f"pi-{board}", "b", Phase.IDLE, ROUNDS, spans[-1].end_ns, round((at_s + 30.0) * S))
    spans = [first, *spans, last]
    seen = emulate(schedule, at_s + 30.0, fleet, device=board, shape=REALISTIC, tolerance=0.0)
    account = account_device(
        PowerSamples.from_readings(seen.readings()), spans, {}, {}, EXACT, 2 * S, spans[-1].end_ns
    )
    rows, true_j = [], 0.0
    for row, span, after in zip(account.rows, spans, [*spans[1:], last], strict=True):
        if span.phase is Phase.DOWNLOAD:
            end_ns = after.end_ns if after.phase is Phase.REST else span.end_ns
            rows.append(row)
            true_j += seen.truth.energy_j(span.start_ns, end_ns)
            true_j -= seen.truth.watts_at(span.start_ns - 1) * (end_ns - span.start_ns) / S
    return account.split.method, rows, true_j


@pytest.mark.parametrize(("rest_s", "method"), [(4.0, Method.RESTS), (0.0, Method.TOUCHING)])
def test_downloads_of_a_fleet_are_within_what_their_sum_says(rest_s: float, method: Method) -> None:
    """With rests without bias; without, all boards are wrong alike, and the sum says that it may be."""
    off, u = [], []
    for fleet in range(FLEETS):
        methods, rows, joules = zip(*(ledger(fleet, board, rest_s) for board in range(BOARDS)), strict=True)
        assert set(methods) == {method}
        found = Ledger.of([row for own in rows for row in own]).total("net")
        off.append(found.joules / sum(joules) - 1.0)
        u.append(found.u_joules / sum(joules))
    assert (np.abs(off) <= 2.5 * np.array(u)).all()
    if method is Method.RESTS:
        assert abs(np.mean(off)) < 0.04
        assert np.mean(u) < 0.05


def test_a_board_that_rests_is_known_better_than_one_whose_phases_touch() -> None:
    rested, touching = (Ledger.of(ledger(1, 1, rest_s)[1]).total("net") for rest_s in (4.0, 0.0))
    assert rested.u_joules / rested.joules < 0.6 * touching.u_joules / touching.joules
