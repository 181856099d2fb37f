"""Sums over boards of one kind, which are wrong together where an assumption decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.account import account_device
from roambench.energy.clocks.lateness import lateness_prior_s
from roambench.energy.ledger import Ledger, LedgerRow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import EXACT
from roambench.meters.emulator.electric.power import IDLE, Activity
from roambench.meters.emulator.electric.shapes import REALISTIC
from roambench.meters.emulator.virtual import emulate

S = 10**9
BOARDS = 8
FLEETS = 6
ROUNDS = 12


def ledger(fleet: int, board: int) -> tuple[list[LedgerRow], float]:
    """Rows of the downloads of one board as emulated ones draw, and their true net joules above idle."""
    draw = generator(fleet, "rounds", board)
    spans, schedule, at_s = [], [], 40.0
    for step in range(ROUNDS):
        for phase, length_s, activity in (
            (Phase.IDLE, 12.0, IDLE),
            (Phase.DOWNLOAD, 1.1, Activity(rx_mbit_s=20.0)),
            (Phase.TRAIN, 14.0, Activity(busy_cores=1.0)),
            (Phase.WAIT, 1.0, Activity(waiting=True)),
            (Phase.UPLOAD, 1.1, Activity(tx_mbit_s=20.0)),
        ):
            start_ns, at_s = round(at_s * S), at_s + length_s * draw.uniform(0.95, 1.05)
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
    # Four times faster than real time, as the demo runs: no clock is looked for.
    account = account_device(
        PowerSamples.from_readings(seen.readings()), spans, {}, {}, EXACT, 2 * S, spans[-1].end_ns,
        late_prior_s=lateness_prior_s(4.0),
    )  # fmt: skip
    rows, true_j = [], 0.0
    for row, span in zip(account.rows, spans, strict=True):
        if span.phase is Phase.DOWNLOAD:
            rows.append(row)
            true_j += seen.truth.energy_j(span.start_ns, span.end_ns)
            true_j -= seen.truth.watts_at(span.start_ns - 1) * span.duration_s
    return rows, true_j


def test_what_all_boards_do_otherwise_than_assumed_is_within_the_sums_uncertainty():
    """Downloads that end hashing before trainings whose governor is late: too cheap on every board."""
    off, u, alone = [], [], []
    for fleet in range(FLEETS):
        rows, joules = zip(*(ledger(fleet, board) for board in range(BOARDS)), strict=True)
        every = [row for own in rows for row in own]
        assert all(row.design_based for row in every)
        found = Ledger.of(every).total("net")
        off.append(found.joules / sum(joules) - 1.0)
        u.append(found.u_joules / sum(joules))
        apart = [replace(row, u_border_shared_w=0.0) for row in every]
        alone.append(Ledger.of(apart).total("net").u_joules / sum(joules))
    assert np.mean(off) < -0.03  # a bias, which no number of boards averages away
    assert (np.abs(off) <= 2.0 * np.array(u)).all()
    assert (np.abs(off) > 2.0 * np.array(alone)).any()  # as if boards were wrong independently


def test_one_board_alone_is_as_uncertain_as_before():
    row = LedgerRow(
        "pi", 1, Phase.UPLOAD, None, "t", 2.0, 2.0, 4.0, 1.0, 0.1, 0.1, 4.0,
        u_level_w=0.03, u_net_level_w=0.03, edge_w=0.02, net_edge_w=0.02, u_idle_w=0.01,
    )  # fmt: skip
    shared = replace(row, late_shared=0.6, u_idle_shared_w=0.008, u_border_shared_w=0.02)
    for kind in ("gross", "net"):
        assert Ledger.of([shared, shared]).total(kind).u_joules == pytest.approx(
            Ledger.of([row, row]).total(kind).u_joules
        )
    twins = [shared, replace(shared, device="pj")]
    assert (
        Ledger.of(twins).total("net").u_joules
        > Ledger.of([row, replace(row, device="pj")]).total("net").u_joules
    )
