"""Of each figure of a run one verdict: whether it holds, how wide it is, how far from a known truth."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from roambench.contract.phases import Phase
from roambench.energy.account import Method, Split
from roambench.energy.energy_value import Energy
from roambench.energy.rest_checks import RestChecks, Tail
from roambench.report.summaries.energy import EnergySummary
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.run import summarise
from roambench.report.summaries.trust import FigureTrust, Verdict, trust_of
from roambench.report.summaries.truth_checks import TruthByKind, TruthCheck
from roambench.report.tables.trust import trust_table

RESTED = Split(Method.RESTS, 4.0, 2.6, 2.0, {}, RestChecks())


@pytest.fixture
def energy(hand_made) -> EnergySummary:
    (found,) = read_runs([hand_made()])
    summary = summarise(found).energy
    assert summary is not None
    return summary


def judged(energy: EnergySummary, split: Split = RESTED, **net: Any) -> dict[str, FigureTrust]:
    """The figures of a run whose phases have these net energies, u and truth."""
    phases = []
    for item in energy.phases:
        joules, u_joules, true_j = net.get(item.phase.value, (10.0, 0.1, None))
        check = None if true_j is None else TruthCheck(2, 2, joules, u_joules, true_j)
        truth = None if check is None else TruthByKind(check, check)
        phases.append(replace(item, net=Energy(joules, u_joules, 10.0), truth=truth))
    boards = tuple(replace(board, split=split) for board in energy.boards)
    found = trust_of(replace(energy, phases=tuple(phases), boards=boards))
    return {item.quantity: item for item in found}


def test_a_figure_holds_within_a_tenth_and_is_wide_beyond(energy: EnergySummary) -> None:
    found = judged(energy, download=(4.0, 0.4, None), upload=(6.0, 0.6, None), train=(100.0, 1.0, None))
    assert found["training"].verdict is Verdict.HOLDS
    assert found["training"].text == "yes, ± 2 %"
    transfers = found["transfers"]
    assert transfers.verdict is Verdict.WIDE
    assert transfers.share == pytest.approx(2.0 * (0.4**2 + 0.6**2) ** 0.5 / 10.0)


def test_transfers_that_touch_trainings_or_leave_a_tail_do_not_hold(energy: EnergySummary) -> None:
    touching = replace(RESTED, method=Method.TOUCHING)
    assert judged(energy, touching)["transfers"].verdict is Verdict.NO
    assert judged(energy, touching)["boards in all"].verdict is not Verdict.NO
    tail = replace(RESTED, checks=RestChecks({Phase.UPLOAD: Tail(0.2, 9.0, 8.0)}))
    assert judged(energy, tail)["transfers"].verdict is Verdict.NO
    assert judged(energy, tail)["training"].verdict is Verdict.HOLDS


def test_what_its_uncertainty_hides_does_not_hold(energy: EnergySummary) -> None:
    hidden = judged(energy, download=(0.1, 0.4, None), upload=(0.1, 0.4, None))["transfers"]
    assert hidden.verdict is Verdict.NO


def test_the_distance_from_a_known_truth_is_that_of_the_very_figure(energy: EnergySummary) -> None:
    found = judged(energy, download=(4.0, 0.1, 5.0), upload=(6.0, 0.1, 5.0), train=(100.0, 1.0, 80.0))
    assert found["transfers"].error == pytest.approx(0.0)
    assert found["training"].text == "yes, ± 2 %, off +25.00 %"


@pytest.mark.parametrize(
    ("share", "error", "text"),
    [
        (0.0085, -0.0001, "wide, ± 0.85 %, off -0.01 %"),
        (4.04, math.nan, "wide, ± 400 %"),  # the truth is no more than noise
        (123.4, None, "wide, ± 12,000 %"),
    ],
)
def test_a_width_has_two_digits_and_a_truth_that_says_nothing_is_left_out(share, error, text) -> None:
    assert FigureTrust("transfers", Verdict.WIDE, share, error).text == text


def test_what_was_wasted_is_held_against_its_own_truth(hand_made) -> None:
    """The second board's training of 48 J; its meter reads a tenth too much and says so to 1 % only."""
    (found,) = read_runs([hand_made(gain=1.1)])
    energy = summarise(found).energy
    assert energy is not None
    assert energy.wasted_truth is not None
    assert energy.wasted_truth.true_j == pytest.approx(48.0)
    (wasted,) = [item for item in trust_of(energy) if item.quantity == "wasted"]
    assert wasted.error == pytest.approx(0.1)


def test_the_screen_has_a_line_for_each_figure(hand_made) -> None:
    table = trust_table([summarise(found) for found in read_runs([hand_made()])])
    assert table is not None
    assert table.head == ("does it hold?", "demo-mohawk")
    assert [row[0] for row in table.rows] == ["boards in all", "wasted"]
    assert table.caption.startswith("± is 2 u as a share of the figure, wide above 10 %; off: ")


def test_a_run_without_meters_has_nothing_to_trust(energy: EnergySummary) -> None:
    assert trust_of(None) == ()
    assert trust_of(replace(energy, measured=False)) == ()
