"""Sums over boards of one kind, in worlds that share nothing with the split."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roambench.contract.phases import Phase
from roambench.energy.ledger import LedgerRow, total

pytestmark = pytest.mark.lengthy

BOARDS = 8
FLEETS = 5


def test_what_all_boards_do_otherwise_than_assumed_is_within_the_sums_uncertainty(worlds, monkeypatch):
    """Radios that draw nothing before the first byte, on every board: +2 % on each, and on the sum of all.

    On meters whose conversion clock is not found: with it, the readings tell what such radios draw.
    """
    monkeypatch.setattr("roambench.energy.attribute.steadiness", lambda *_: None)
    held = in_quadrature = 0
    for fleet in range(FLEETS):
        rows, true_j = [], {Phase.DOWNLOAD: 0.0, Phase.UPLOAD: 0.0}
        for board in range(BOARDS):
            run, account = worlds.accounted("dead-1s", "sp2-1hz", BOARDS * fleet + board)
            for row, joules in zip(account.rows, run.true_net_j.tolist(), strict=True):
                if row.phase in true_j:
                    rows.append(replace(row, device=f"pi-{board:02d}"))
                    true_j[row.phase] += joules
        for phase, joules in true_j.items():
            own = [row for row in rows if row.phase is phase]
            held += off(own, joules) <= 2.0
            apart = [replace(row, late_shared=0.0, u_idle_shared_w=0.0, u_wait_shared_w=0.0) for row in own]
            in_quadrature += off(apart, joules) <= 2.0
    assert held >= 2 * FLEETS - 1
    assert in_quadrature <= FLEETS  # as if boards were wrong independently


def off(rows: list[LedgerRow], true_j: float) -> float:
    found = total(rows, "net")
    return abs(found.joules - true_j) / found.u_joules


def test_one_board_alone_is_as_uncertain_as_before():
    row = LedgerRow(
        "pi", 1, Phase.UPLOAD, None, "t", 2.0, 2.0, 4.0, 1.0, 0.1, 0.1, 4.0,
        u_level_w=0.03, u_net_level_w=0.03, edge_w=0.02, net_edge_w=0.02, u_idle_w=0.01,
    )  # fmt: skip
    shared = replace(row, late_shared=0.6, u_idle_shared_w=0.008, u_wait_shared_w=0.02)
    for kind in ("gross", "net"):
        assert total([shared, shared], kind).u_joules == pytest.approx(total([row, row], kind).u_joules)
    twins = [shared, replace(shared, device="pj")]
    assert total(twins, "net").u_joules > total([row, replace(row, device="pj")], "net").u_joules
