"""Phases whose rest was cut: whose joules are whose, against powers that are known step by step.

Boards and meters as docs/energy.md describes them: a phase draws one power, a line is the mean of a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.energy.account import Method, account_device
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import Ledger
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import EXACT
from samples import sampled

S = 10**9
ROUNDS, REST_S, SEEDS = 20, 4.0, 20
IDLE_W, NOISE_W, STEP_W = 1.9, 0.012, 0.004
#: Seconds and watts above idle.
WORK = {
    Phase.DOWNLOAD: (2.0, 0.45),
    Phase.EVALUATE: (0.15, 2.2),
    Phase.TRAIN: (10.0, 2.6),
    Phase.UPLOAD: (2.0, 0.7),
    Phase.EXCHANGE: (2.0, 0.6),
}
#: Period, window and greatest age of a window in s: a Smart Power 2, one at 10 Hz, Smart Powers 3.
METERS = {
    "sp2": (1.0, 0.264, 0.264),
    "sp2_100": (0.1, 0.264, 0.264),
    "sp3_100": (0.1, 0.069, 0.0),
    "sp3_1000": (1.0, 0.632, 0.0),
}
LEARNING = (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD)
#: Phases of a step, and the one that has its rest cut.
ORDERS = {
    "download to training": (LEARNING, Phase.DOWNLOAD),
    "training to upload": (LEARNING, Phase.TRAIN),
    "two exchanges": ((Phase.TRAIN, Phase.EXCHANGE, Phase.EXCHANGE), Phase.EXCHANGE),
    "a short one between": ((Phase.DOWNLOAD, Phase.EVALUATE, Phase.TRAIN), None),
}


@dataclass(frozen=True)
class Case:
    order: str = "download to training"
    meter: str = "sp2"
    cut: int = 3  # so many rounds
    left_s: float = 0.0  # of each rest that is cut


@dataclass(frozen=True)
class Measured:
    ledger: Ledger
    true_j: dict[Phase, float]
    whole: Energy
    true_whole_j: float

    def energy(self, *phases: Phase) -> Energy:
        return self.ledger.total("net", self.ledger.of_phase(*phases))

    def error_j(self, *phases: Phase) -> float:
        return self.energy(*phases).joules - sum(self.true_j[phase] for phase in phases)


@cache
def measured(case: Case, seed: int) -> Measured:
    draw = np.random.default_rng(seed)
    period_s, window_s, latch_s = METERS[case.meter]
    phases, before_cut = ORDERS[case.order]
    cut = set(draw.permutation(ROUNDS)[: case.cut].tolist())
    parts: list[tuple[Phase, float]] = [(Phase.IDLE, 60.0)]
    for step in range(ROUNDS):
        parts += [(Phase.IDLE, draw.uniform(0.0, 1.0)), (Phase.REST, REST_S / 2)]
        for place, phase in enumerate(phases):
            last = place == len(phases) - 1
            shortened = step in cut and not last and (before_cut in (None, phase))
            parts.append((phase, WORK[phase][0] * draw.uniform(0.85, 1.15)))
            parts += [(Phase.REST, case.left_s if shortened else REST_S)]
    parts = [part for part in [*parts, (Phase.IDLE, 60.0)] if part[1]]
    knots_s = np.concatenate(([0.0], np.cumsum([seconds for _, seconds in parts])))
    watts = np.array([WORK.get(phase, (0.0, 0.0))[1] for phase, _ in parts])
    joules = np.concatenate(([0.0], np.cumsum((watts + IDLE_W) * np.diff(knots_s))))
    lines_s = np.arange(1.0 + draw.uniform(0.0, period_s), knots_s[-1], period_s)
    seen_s = lines_s
    if latch_s:  # conversions run freely; a line shows the one that ended last
        ends_s = draw.uniform(-latch_s, 0.0) + window_s * np.arange(knots_s[-1] / window_s + 2.0)
        seen_s = ends_s[np.searchsorted(ends_s, lines_s, "right") - 1]
    shown = np.diff(np.interp([seen_s - window_s, seen_s], knots_s, joules), axis=0)[0] / window_s
    shown = np.round((shown + draw.normal(0.0, NOISE_W, len(shown))) / STEP_W) * STEP_W
    at_ns = [round(at_s * S) for at_s in knots_s.tolist()]
    spans = [
        PhaseSpan(
            "pi", "b", phase, 0, at_ns[k], at_ns[k + 1], *(("o", "t") if phase in ACTIVE_PHASES else ())
        )
        for k, (phase, _) in enumerate(parts)
    ]
    account = account_device(
        PowerSamples.of(np.rint((lines_s + 0.003) * S).astype(np.int64), shown),
        spans, {}, {}, EXACT, 0, at_ns[-1], period_s, window=MeterWindow(window_s, latch_s), step_w=STEP_W,
    )  # fmt: skip
    assert account.split.method is Method.RESTS
    true_j = {
        each: float(sum(WORK[each][1] * seconds for phase, seconds in parts if phase is each))
        for each in dict.fromkeys(phases)
    }
    whole = account.whole_run  # the board idles before the first line, and behind the last
    true_whole_j = float(joules[-1]) - IDLE_W * (float(knots_s[-1]) - whole.covered_s)
    return Measured(Ledger.of(account.rows), true_j, whole, true_whole_j)


CASES = [
    *(Case(meter=meter, cut=cut) for meter in METERS for cut in (3, 10, ROUNDS)),
    *(Case(order, meter, cut) for order in [*ORDERS][1:] for meter in ("sp2", "sp3_100") for cut in (3, 10)),
    *(Case(cut=cut, left_s=left_s) for cut in (3, 10, ROUNDS) for left_s in (0.3, 1.5)),
]
FEW = [CASES[0], Case(meter="sp3_100", cut=10), *(Case(order) for order in ORDERS), Case(cut=10, left_s=0.3)]


@pytest.mark.parametrize("case", sampled(FEW, CASES), ids=str)
def test_phases_that_share_lines_are_within_their_uncertainty_and_so_is_their_sum(case: Case) -> None:
    runs = [measured(case, seed) for seed in range(SEEDS)]
    phases = [*runs[0].true_j]
    for own in (*([phase] for phase in phases), phases):
        z = np.array([run.error_j(*own) / run.energy(*own).u_joules for run in runs])
        assert (np.abs(z) <= 2.0).sum() >= SEEDS - 2, own
        assert abs(z.mean()) <= 0.75, own


@pytest.mark.parametrize("meter", ["sp2", "sp3_1000"])
def test_what_a_border_moved_is_in_the_whole_run_once(meter: str) -> None:
    u_j = {}
    for cut in (0, ROUNDS):
        runs = [measured(Case(meter=meter, cut=cut), seed) for seed in range(SEEDS)]
        errors = np.array([run.whole.joules - run.true_whole_j for run in runs])
        u_j[cut] = np.mean([run.whole.u_joules for run in runs])
        assert (np.abs(errors) <= 2.0 * u_j[cut]).sum() >= SEEDS - 2, cut
    assert u_j[ROUNDS] < 1.2 * u_j[0]


@pytest.mark.parametrize("meter", list(METERS))
def test_a_share_of_cut_rests_leaves_the_mean_download_where_it_was(meter: str) -> None:
    errors = [
        run.error_j(Phase.DOWNLOAD) / run.true_j[Phase.DOWNLOAD]
        for run in (measured(Case(meter=meter), seed) for seed in range(SEEDS))
    ]
    assert abs(np.mean(errors)) < 0.05


def test_what_a_phase_has_too_much_the_other_has_too_little() -> None:
    """All rests are cut, at ten lines a second: the sum is known far better than its parts."""
    learning, peers = (
        measured(Case(order, "sp3_100", ROUNDS), 1) for order in ("download to training", "two exchanges")
    )
    rows = np.flatnonzero(peers.ledger.of_phase(Phase.EXCHANGE))
    for parts, together in (
        ([learning.energy(phase) for phase in LEARNING[:2]], learning.energy(*LEARNING[:2])),
        (
            [peers.ledger.total("net", rows[first::2]) for first in (0, 1)],
            peers.energy(Phase.EXCHANGE),
        ),
    ):
        assert together.u_joules < 0.35 * min(part.u_joules for part in parts)
