"""Of each figure of a run one verdict: whether it holds, how wide it is, how far from a known truth."""

from __future__ import annotations

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
from roambench.report.summaries.trust import FigureTrust, Verdict, trust_of, trust_sentence
from roambench.report.summaries.truth_checks import TruthByKind, TruthCheck

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
    assert found["training"].sentence == "training ± 2 %"
    transfers = found["transfers"]
    assert transfers.verdict is Verdict.WIDE
    assert transfers.share == pytest.approx(2.0 * (0.4**2 + 0.6**2) ** 0.5 / 10.0)


def test_transfers_that_touch_trainings_or_leave_a_tail_do_not_hold(energy: EnergySummary) -> None:
    touching = replace(RESTED, method=Method.TOUCHING)
    assert judged(energy, touching)["transfers"].verdict is Verdict.NO
    assert judged(energy, touching)["whole run"].verdict is not Verdict.NO
    tail = replace(RESTED, checks=RestChecks({Phase.UPLOAD: Tail(0.2, 9.0, 8.0)}))
    assert judged(energy, tail)["transfers"].verdict is Verdict.NO
    assert judged(energy, tail)["training"].verdict is Verdict.HOLDS


def test_what_its_uncertainty_hides_does_not_hold(energy: EnergySummary) -> None:
    hidden = judged(energy, download=(0.1, 0.4, None), upload=(0.1, 0.4, None))["transfers"]
    assert hidden.verdict is Verdict.NO


def test_the_distance_from_a_known_truth_is_that_of_the_very_figure(energy: EnergySummary) -> None:
    found = judged(energy, download=(4.0, 0.1, 5.0), upload=(6.0, 0.1, 5.0), train=(100.0, 1.0, 80.0))
    assert found["transfers"].error == pytest.approx(0.0)
    assert found["training"].sentence == "training ± 2 % (+25.00 % off truth)"


def test_one_line_has_those_that_hold_first() -> None:
    found = [
        FigureTrust("transfers", Verdict.WIDE, 0.14, None),
        FigureTrust("whole run", Verdict.HOLDS, 0.009, None),
        FigureTrust("training", Verdict.HOLDS, 0.011, None),
    ]
    assert trust_sentence(found) == "holds: whole run ± 0.9 %, training ± 1.1 %; wide: transfers ± 14 %"


def test_a_run_without_meters_has_nothing_to_trust(energy: EnergySummary) -> None:
    assert trust_of(None) == ()
    assert trust_of(replace(energy, measured=False)) == ()
