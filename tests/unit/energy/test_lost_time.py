"""Time in which nobody said what the board did: its joules are as uncertain as what was sampled of them.

Power and meter are drawn here with numpy alone, from the meter's notes: a window of 264 ms, printed once a
second at an age of up to 264 ms. Kinder than a meter: no crystal, no steps, no late or missing lines.
"""

from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.account import account_device
from roambench.energy.ledger import Ledger, LedgerRow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import EXACT

S = 10**9
IDLE_S, LOST_S = 60, 100
END_S = 2 * IDLE_S + LOST_S
STEP_S = 0.004  # of the drawn power
WINDOW = 66  # of these steps


def lost_row(power_w: np.ndarray, draw: np.random.Generator) -> tuple[LedgerRow, float]:
    """What the ledger says of the lost time, and its true joules. `power_w` begins 2 s before the run."""
    sums = np.concatenate(([0.0], np.cumsum(power_w)))
    arrivals_s = np.arange(-1.0, END_S + 1.0) + draw.uniform(0.0, 1.0)
    ends = np.round((arrivals_s + 2.0 - draw.uniform(0.0, 0.264, len(arrivals_s))) / STEP_S).astype(int)
    ends = ends[ends <= len(power_w)]
    watts = (sums[ends] - sums[ends - WINDOW]) / WINDOW
    borders_s = (0, IDLE_S, IDLE_S + LOST_S, END_S)
    spans = [
        PhaseSpan("pi", "b", phase, 0, borders_s[k] * S, borders_s[k + 1] * S)
        for k, phase in enumerate((Phase.IDLE, Phase.LOST, Phase.IDLE))
    ]
    samples = PowerSamples.of(np.round(arrivals_s[: len(ends)] * S).astype(np.int64), watts)
    row = account_device(samples, spans, {}, {}, EXACT, 0, END_S * S).rows[1]
    first, last = (round((at + 2.0) / STEP_S) for at in (IDLE_S, IDLE_S + LOST_S))
    return row, float(power_w[first:last].sum() * STEP_S)


def telegraph(draw: np.random.Generator) -> np.ndarray:
    """Idle at 1.9 W, restless by 0.1 W; in the lost time it works now and then: 3 W for some seconds."""
    count = round((END_S + 6.0) / STEP_S)
    at_s = np.arange(count) * STEP_S - 2.0
    restless = np.repeat(draw.normal(0.0, 0.1, count // 50 + 1), 50)[:count]  # anew every 0.2 s
    borders = np.cumsum(draw.exponential(4.0, 400))
    works = (np.searchsorted(borders, at_s) % 2 == 1) & (at_s >= IDLE_S) & (at_s < IDLE_S + LOST_S)
    return np.asarray(1.9 + restless + 1.1 * works)


def restless(draw: np.random.Generator) -> np.ndarray:
    count = round((END_S + 6.0) / STEP_S)
    return np.asarray(1.9 + np.repeat(draw.normal(0.0, 0.1, count // 50 + 1), 50)[:count])


@pytest.mark.parametrize("world", [restless, telegraph])
def test_its_joules_hold_the_truth_as_often_as_their_uncertainty_says(world):
    draw = np.random.default_rng(4)
    found = [lost_row(world(draw), draw) for _ in range(40)]
    errors = np.array([row.gross_j - true_j for row, true_j in found])
    u = np.array([row.u_gross_j for row, _ in found])
    assert all(row.covered_s == pytest.approx(LOST_S) for row, _ in found)
    assert np.mean(np.abs(errors) <= 2.0 * u) >= 0.88
    assert 0.6 < np.std(errors / u) < 1.3  # not simply wide
    assert u.min() > 0.1  # a power that scatters by 0.1 W, looked at a hundred times


def test_the_sum_over_boards_and_phases_has_it_too():
    draw = np.random.default_rng(5)
    row, _ = lost_row(restless(draw), draw)
    assert Ledger.of([row]).total().u_joules == pytest.approx(row.u_gross_j)
    assert Ledger.of([row]).total("net").u_joules == pytest.approx(row.u_net_j)
    assert row.u_net_j > row.u_gross_j > 0.1  # net leaves out an idle power that is uncertain itself
