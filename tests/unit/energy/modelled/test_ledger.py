"""Modelled energy by hand-computed numbers: 20 Mbit over LTE, training at 0.8 W above 1.9 W."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from roambench.contract.link_power import LinkPower
from roambench.contract.phases import Outcome, Phase
from roambench.energy.ledger import OUTCOMES, PHASES, Codes, Numbers, coded
from roambench.energy.links.models import MOHAWK, KnownLink, LinkModel, Provenance
from roambench.energy.modelled.device_power import DevicePower, drawn_step_s
from roambench.energy.modelled.ledger import EnergyModel, ModelledLedger, ModelledWork, modelled_ledger
from roambench.extras.papers import mohawk as paper
from roambench.report.table10 import table10
from roambench.runs.modelled.to_threshold import communication_to_threshold

PI = DevicePower(1.9, 0.8)


@dataclass(frozen=True)
class Done:
    """What a device did for its training of a step, over LTE."""

    phase: Phase
    device: int = 0
    step: int = 0
    at_step: int = 0
    outcome: Outcome = Outcome.AGGREGATED
    size: int = 0
    mbit_s: float = 0.0
    distance_m: float = 0.0
    train_s: float = 0.0


#: 20 Mbit at 20 Mbit/s: 1 s. 20 s of training. 20 Mbit at 10 Mbit/s: 2 s.
DOWN = Done(Phase.DOWNLOAD, size=2_500_000, mbit_s=20.0, distance_m=900.0)
TRAINED = Done(Phase.TRAIN, train_s=20.0)
UP = Done(Phase.UPLOAD, size=2_500_000, mbit_s=10.0, distance_m=300.0)


def ledger(model: EnergyModel, *done: Done) -> ModelledLedger:
    def codes(values: Iterable[int]) -> Codes:
        return np.array(list(values), np.int64)

    def numbers(name: str) -> Numbers:
        return np.array([getattr(item, name) for item in done], float)

    trainings = [f"t{item.device}/{item.step}" for item in done]
    work = ModelledWork(
        [f"pi-{number:02d}" for number in range(1, 10)], ["lte"], codes(item.device for item in done),
        codes(item.step for item in done), codes(item.at_step for item in done),
        codes(PHASES.index(item.phase) for item in done),
        codes(OUTCOMES.index(item.outcome) for item in done), coded(trainings)[1],
        trainings, trainings, numbers("train_s"), codes(item.size for item in done),
        numbers("mbit_s"), np.zeros(len(done), np.int64), numbers("distance_m"),
    )  # fmt: skip
    return modelled_ledger(work, model)


def test_a_transfer_costs_what_equation_1_says_and_the_idling_of_its_seconds() -> None:
    model = EnergyModel(MOHAWK, PI)
    found = ledger(model, DOWN, UP)
    assert found.duration_s.tolist() == [1.0, 2.0]
    assert found.net_j[0] == pytest.approx((51.97 * 20 + 1288.04) * 1e-3 * 1.0)  # 2.32744 J
    assert found.net_j[1] == pytest.approx((438.39 * 10 + 1288.04) * 1e-3 * 2.0)  # 11.34388 J
    assert found.idle_j.tolist() == [1.9, 3.8]
    assert found.gross_j[1] == pytest.approx(15.14388)


def test_training_costs_assumed_power_times_modelled_seconds() -> None:
    found = ledger(EnergyModel(MOHAWK, PI), TRAINED)
    assert (found.net_j[0], found.idle_j[0], found.gross_j[0]) == (16.0, 38.0, 54.0)
    assert (found.basis, found.phases(), found.total().terms) == ("modelled", [Phase.TRAIN], ())


def test_the_paper_tells_no_uncertainty_so_none_is_told() -> None:
    assert ledger(EnergyModel(MOHAWK, PI), DOWN, TRAINED, UP).total().u_joules == 0.0


def fitted(u_gain: float = 0.0, device: bool = False) -> LinkModel:
    """Variances 4, 1, 9 with beta against alpha_up -5: (mW per Mbit/s, mW per Mbit/s, mW)."""
    covariance = ((4.0, 0.0, -5.0), (0.0, 1.0, 0.0), (-5.0, 0.0, 9.0))
    known = KnownLink(LinkPower("own", 100.0, 50.0, 1000.0), covariance, u_gain=u_gain)
    devices = {"pi-01": known} if device else {}
    return LinkModel("own", {"any": known}, Provenance("test"), devices)


def test_the_link_models_covariance_gives_the_uncertainty() -> None:
    errors = ledger(EnergyModel(fitted(), PI), UP).errors["net"]
    # d/d alpha_up = 20 Mbit, d/d beta = 2 s: 4*400 + 9*4 - 2*5*20*2 = 1236 mJ^2
    assert errors.each().tolist() == pytest.approx([math.sqrt(1236.0) * 1e-3])


def test_a_fit_of_few_boards_is_as_wide_as_students_t_says() -> None:
    """One degree of freedom: t = 12.7062, of which k = 2 counts 12.7062 / 1.95996."""
    known = replace(fitted().links["any"], dof=1.0)
    model = EnergyModel(LinkModel("own", {"any": known}, Provenance("test")), PI)
    expected = 12.7062 / 1.95996 * math.sqrt(1236.0) * 1e-3
    assert ledger(model, UP).total("net").u_joules == pytest.approx(expected, rel=1e-4)


def test_errors_of_one_model_add_linearly_over_transfers_and_boards() -> None:
    model = EnergyModel(fitted(), PI)
    sent = ledger(model, *(replace(UP, device=device) for device in range(3)))
    assert sent.total("net").u_joules == pytest.approx(3 * math.sqrt(1236.0) * 1e-3)
    # Down and up share beta: 20^2*4 + 20^2*1 + 3^2*9 - 2*5*20*3 over 20 Mbit each and 3 s.
    both = ledger(model, UP, replace(DOWN, device=1))
    assert both.total().u_joules == pytest.approx(math.sqrt(1600 + 400 + 81 - 600) * 1e-3)


def test_a_meters_gain_moves_all_transfers_together() -> None:
    model = EnergyModel(fitted(u_gain=0.5), PI)
    sent = ledger(model, UP).total("net")
    assert sent.joules == pytest.approx(4.0)  # (100 * 10 + 1000) mW over 2 s
    assert sent.u_joules == pytest.approx(math.hypot(2.0, math.sqrt(1236.0) * 1e-3))


def test_boards_with_fits_of_their_own_are_independent() -> None:
    model = EnergyModel(fitted(device=True), PI)
    u_j = math.sqrt(1236.0) * 1e-3
    assert ledger(model, UP, replace(UP, device=1)).total().u_joules == pytest.approx(math.hypot(u_j, u_j))
    assert ledger(model, UP, UP).total().u_joules == pytest.approx(2 * u_j)


def test_two_boards_with_fits_of_their_own_share_neither_fit_nor_gain() -> None:
    known = fitted(u_gain=0.5).links["any"]
    links = LinkModel("own", {"any": known}, Provenance("test"), {"pi-01": known, "pi-02": known})
    model = EnergyModel(links, PI)
    one_j2 = 2.0**2 + 1236.0e-6  # half of 4 J, and the fit's part
    assert ledger(model, UP, replace(UP, device=1)).total().u_joules == pytest.approx(math.sqrt(2 * one_j2))
    assert ledger(model, UP, UP).total().u_joules == pytest.approx(2 * math.sqrt(one_j2))


def test_devices_draw_their_own_power_and_speed_within_the_spread_and_always_the_same() -> None:
    power = DevicePower(2.0, 1.0, 0.1, seed=5)
    idle = [power.of(device).idle_w for device in range(200)]
    train = [power.of(device).train_w for device in range(200)]
    steps = [drawn_step_s(0.4, 0.1, 5, device) for device in range(200)]
    for values, middle in ((idle, 2.0), (train, 1.0), (steps, 0.4)):
        assert 0.9 * middle <= min(values) < 0.92 * middle
        assert 1.08 * middle < max(values) <= 1.1 * middle
    assert power.of(7) == power.of(7) == DevicePower(idle[7], train[7])
    assert DevicePower(2.0, 1.0, 0.1, seed=6).of(7) != power.of(7)
    assert [i / 2 for i in idle] != train  # two draws, not one
    assert drawn_step_s(0.4, 0.0, 5, 3) == 0.4
    model = EnergyModel(MOHAWK, power)
    trained = ledger(model, replace(TRAINED, device=7, train_s=10.0))
    assert trained.gross_j[0] == pytest.approx(10.0 * (idle[7] + train[7]))


def a_run() -> ModelledLedger:
    """pi-01's training of step 0 is aggregated in step 1, pi-02's is wasted and never uploaded."""
    lost = {"device": 1, "outcome": Outcome.WASTED}
    done = DOWN, TRAINED, replace(DOWN, **lost), replace(TRAINED, **lost), replace(UP, at_step=1)
    return ledger(EnergyModel(MOHAWK, PI), *done)


def test_table_10_of_modelled_rows() -> None:
    gross, net = table10(a_run(), "gross"), table10(a_run(), "net")
    assert net.cumulative_wasted.joules == pytest.approx(2.32744 + 16.0)
    assert net.cumulative_consumed.joules == pytest.approx(2 * 18.32744 + 11.34388)
    assert gross.cumulative_wasted.joules == pytest.approx(18.32744 + 21 * 1.9)
    assert gross.per_training_consumed.mean == pytest.approx((2 * 18.32744 + 11.34388 + 44 * 1.9) / 2)
    assert gross.per_round_consumed.count == 1  # the upload of step 1 belongs to the training of step 0


def test_communication_to_threshold_sums_the_rounds_means_over_those_who_were_aggregated() -> None:
    """pi-01's model is aggregated in round 1, with its download of round 0; pi-02 only downloads."""
    until = communication_to_threshold(a_run(), 1, 5)
    assert until.joules_per_client == pytest.approx(2.32744 + 11.34388)
    # Round 0: two devices at 2.32744 J, round 1: one at 11.34388 J. Training is no communication.
    assert until.joules_per_participant == pytest.approx(2.32744 + 11.34388)
    assert until.total_j == pytest.approx(2 * 2.32744 + 11.34388)
    assert (until.reached, until.rounds, until.transfers) == (True, 2, 3)
    assert until.mean_distance_m == pytest.approx((900 + 900 + 300) / 3)


def test_what_came_after_the_threshold_does_not_count() -> None:
    until = communication_to_threshold(a_run(), 0, 5)
    assert (until.joules_per_client, until.rounds) == (0.0, 1)  # nothing was aggregated in round 0
    assert until.joules_per_participant == pytest.approx(2.32744)


def test_two_transfers_of_a_device_in_a_round_are_one_participants() -> None:
    alone = replace(DOWN, device=1, outcome=Outcome.WASTED)
    until = communication_to_threshold(ledger(EnergyModel(MOHAWK, PI), UP, DOWN, alone), 0, 1)
    assert until.joules_per_client == pytest.approx(11.34388 + 2.32744)
    assert until.joules_per_participant == pytest.approx((11.34388 + 2 * 2.32744) / 2)


def test_an_upload_that_broke_off_belongs_to_the_round_that_aggregated_its_model() -> None:
    done = ledger(EnergyModel(MOHAWK, PI), DOWN, replace(UP, at_step=1), replace(UP, at_step=2))
    assert communication_to_threshold(done, 1, 5).joules_per_client == pytest.approx(2.32744 + 11.34388)
    whole = communication_to_threshold(done, 2, 5).joules_per_client
    assert whole == pytest.approx(2.32744 + 2 * 11.34388)


@pytest.mark.parametrize("setting", sorted(paper.JOULES))
def test_table_6_is_table_4_times_what_one_aggregated_device_sends_and_gets(
    setting: tuple[str, str, int],
) -> None:
    """The paper's own rounds in a world like its own: LTE at middle speed (24 Mbit/s down, 12 up), one device
    aggregated per round and seven that only download. The figure has to come out as the paper printed it."""
    size = 4 * (659_242 if setting[0] == "mnist" else 659_818)  # float32 parameters of its CNN
    model = EnergyModel(MOHAWK, PI)
    for printed_j, rounds in zip(paper.JOULES[setting], paper.ROUNDS[setting], strict=True):
        done = []
        for step in range(1, rounds + 1):
            done += [
                Done(Phase.DOWNLOAD, 0, step - 1, step - 1, size=size, mbit_s=24.0),
                Done(Phase.UPLOAD, 0, step - 1, step, size=size, mbit_s=12.0),
            ]
            lost = Done(Phase.DOWNLOAD, 1, step, step, Outcome.WASTED, size, 24.0)
            done += [replace(lost, device=other) for other in range(1, 8)]
        until = communication_to_threshold(ledger(model, *done), rounds, rounds + 1)
        assert until.joules_per_client == pytest.approx(13.74 * rounds, rel=1e-2)
        assert until.joules_per_client == pytest.approx(printed_j, rel=0.12)
        assert until.joules_per_participant < 0.4 * printed_j


def test_without_reaching_the_threshold_the_whole_run_counts_and_is_told_so() -> None:
    until = communication_to_threshold(a_run(), None, 5)
    assert (until.reached, until.rounds) == (False, 5)
    nothing = communication_to_threshold(ledger(EnergyModel(MOHAWK, PI)), None, 2)
    assert nothing.joules_per_client == 0.0
    assert math.isnan(nothing.mean_distance_m)


def test_protocol_overhead_is_charged_with_every_transfer_and_is_none_of_its_bytes() -> None:
    plain, burdened = EnergyModel(MOHAWK, PI), EnergyModel(MOHAWK, PI, overhead_bytes=250_000)
    found = [ledger(model, replace(UP, size=750_000)) for model in (plain, burdened)]
    # 6 and 8 Mbit at (438.39 x 10 + 1288.04) mW over 10 Mbit/s.
    assert [one.net_j[0] for one in found] == pytest.approx([5.67194 * 0.6, 5.67194 * 0.8])
    assert [one.duration_s[0] for one in found] == pytest.approx([0.6, 0.8])
    assert [one.work.transferred_bytes[0] for one in found] == [750_000, 750_000]
