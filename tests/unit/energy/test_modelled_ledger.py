"""Modelled rows as columns: the rows that are made one by one, to the bit, and their sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.link_power import LinkPower
from roambench.contract.phases import Outcome, Phase
from roambench.energy.device_power import DevicePower
from roambench.energy.link_models import MOHAWK, KnownLink, LinkModel, Provenance
from roambench.energy.modelled import EnergyModel, ModelledRow, Served, modelled_total
from roambench.energy.modelled_ledger import (
    NONE,
    OUTCOMES,
    PHASES,
    ModelledLedger,
    ModelledWork,
    modelled_ledger,
    running_sum,
)
from roambench.energy.modelled_table10 import modelled_table10
from roambench.energy.table10 import table10

NAMES = ["pi-01", "pi-02", "pi-03"]
COVARIANCE = ((4.0, 0.0, -5.0), (0.0, 1.0, 0.0), (-5.0, 0.0, 9.0))
LTE = KnownLink(LinkPower("lte", 438.39, 51.97, 1288.04), COVARIANCE, u_gain=0.05)
WIFI = KnownLink(LinkPower("wifi", 283.17, 137.01, 132.86))
FITTED = LinkModel(
    "own", {"lte": LTE, "wifi": WIFI}, Provenance("test"),
    {"pi-02": KnownLink(LinkPower("own", 100.0, 50.0, 1000.0), COVARIANCE)},
)  # fmt: skip
MODELS = {
    "paper": EnergyModel(MOHAWK, DevicePower(1.9, 0.8)),
    "fitted": EnergyModel(FITTED, DevicePower(1.9, 0.8, 0.1, seed=7), overhead_bytes=40_000),
}


def work(rows: int = 300) -> ModelledWork:
    """Rows of all phases, links, devices and outcomes, some of no training, with figures of many digits."""
    draws = np.random.default_rng(5)
    phase = draws.choice([PHASES.index(p) for p in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD)], rows)
    trains = phase == PHASES.index(Phase.TRAIN)
    device, step = draws.integers(0, 3, rows), np.sort(draws.integers(0, 20, rows))
    served = (draws.random(rows) < 0.9) | trains
    training = np.where(served, 3 * step + device, NONE)
    return ModelledWork(
        NAMES, ["lte", "wifi"], device, step, step + draws.integers(0, 2, rows), phase,
        np.where(served, draws.integers(0, len(OUTCOMES), 60)[training], NONE), training,
        [f"o{number}" for number in range(rows)],
        [f"t{number}" if number != NONE else "" for number in training.tolist()],
        np.where(trains, draws.uniform(1.0, 30.0, rows), 0.0),
        np.where(trains, 0, draws.integers(1, 3_000_000, rows)),
        np.where(trains, 0.0, draws.uniform(7.0, 36.0, rows)), draws.integers(0, 2, rows),
        np.where(trains, 0.0, draws.uniform(1.0, 5000.0, rows)),
    )  # fmt: skip


def one_by_one(done: ModelledWork, model: EnergyModel) -> list[ModelledRow]:
    rows = []
    for i, device in enumerate(done.device.tolist()):
        outcome = int(done.outcome[i])
        served = Served(
            device, NAMES[device], int(done.step[i]), int(done.at_step[i]),
            None if outcome == NONE else OUTCOMES[outcome], done.order_ids[i], done.train_order_ids[i],
        )  # fmt: skip
        phase, link = PHASES[done.phase[i]], done.links[done.link[i]]
        size, mbit_s, far_m = int(done.transferred_bytes[i]), float(done.mbit_s[i]), float(done.distance_m[i])
        rows.append(
            model.training(served, float(done.train_s[i]))
            if phase is Phase.TRAIN
            else model.transfer(served, phase, size, mbit_s, link, far_m)
        )
    return rows


@pytest.mark.parametrize("name", list(MODELS))
def test_columns_hold_the_rows_that_are_made_one_by_one_to_the_bit(name: str) -> None:
    ledger, rows = modelled_ledger(work(), MODELS[name]), one_by_one(work(), MODELS[name])
    assert list(ledger) == rows
    assert (ledger[17], ledger[-2], ledger[3:5]) == (rows[17], rows[-2], tuple(rows[3:5]))
    assert ledger.total_u_j().tolist() == [row.u_j for row in rows]
    assert list(ModelledLedger.of(rows)) == rows
    assert ModelledLedger.of(ledger) is ledger


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("kind", ["gross", "net"])
def test_totals_and_table_10_are_those_of_the_rows_to_the_bit(name: str, kind: str) -> None:
    ledger = modelled_ledger(work(), MODELS[name])
    rows = list(ledger)
    wasted = ledger.wasted(finished=False)
    for chosen, some in (
        (None, rows),
        (wasted, [row for row in rows if row.outcome is Outcome.WASTED]),
        (ledger.of_phase(Phase.UPLOAD), [row for row in rows if row.phase is Phase.UPLOAD]),
    ):
        found, expected = ledger.total(kind, chosen), modelled_total(some, kind)  # type: ignore[arg-type]
        assert found == expected
        assert found.terms == expected.terms
    for finished in (True, False):
        for devices in ((), NAMES, [*NAMES, "pi-04"]):
            arguments = {"rounds": 25, "devices": devices, "finished": finished}
            expected10 = table10(rows, kind, **arguments)  # type: ignore[arg-type]
            assert modelled_table10(ledger, kind, **arguments) == expected10  # type: ignore[arg-type]


def test_a_ledger_by_hand() -> None:
    """20 Mbit at 20 Mbit/s and 20 s of training that are wasted, and a sync for no training."""
    done = ModelledWork(
        NAMES, ["lte"], np.array([0, 0, 1]), np.array([0, 0, 1]), np.array([0, 0, 1]),
        np.array([PHASES.index(p) for p in (Phase.DOWNLOAD, Phase.TRAIN, Phase.DOWNLOAD)]),
        np.array([OUTCOMES.index(Outcome.WASTED)] * 2 + [NONE]), np.array([0, 0, NONE]), ["a", "a", "s"],
        ["a", "a", ""], np.array([0.0, 20.0, 0.0]), np.array([2_500_000, 0, 2_500_000]),
        np.array([20.0, 0.0, 20.0]), np.array([0, 0, 0]), np.array([900.0, 0.0, 300.0]),
    )  # fmt: skip
    ledger = modelled_ledger(done, MODELS["paper"])
    assert ledger.net_j.tolist() == pytest.approx([2.32744, 16.0, 2.32744])
    assert ledger.idle_j.tolist() == pytest.approx([1.9, 38.0, 1.9])
    assert ledger.duration_s.tolist() == [1.0, 20.0, 1.0]
    assert ledger.total("net", ledger.wasted()).joules == pytest.approx(18.32744)
    assert ledger.phases() == [Phase.DOWNLOAD, Phase.TRAIN]
    table = modelled_table10(ledger, "net", rounds=3, devices=NAMES)
    assert table.per_board_consumed.count == 3
    assert table.per_board_consumed.mean == pytest.approx((18.32744 + 2.32744) / 3)
    assert (table.per_training_consumed.count, table.empty_rounds) == (1, 1)


def test_nothing_done_is_nothing_spent() -> None:
    ledger = ModelledLedger.of(())
    assert (len(ledger), list(ledger), ledger.total().joules, ledger.phases()) == (0, [], 0.0, [])
    table = modelled_table10(ledger, devices=NAMES)
    assert (table.per_board_consumed.mean, table.per_board_consumed.count) == (0.0, 3)
    assert math.isnan(table.per_round_consumed.mean)


def test_sums_run_from_the_first_to_the_last() -> None:
    values = np.array([1e16, 1.0, -1e16, 1.0] * 5)
    expected = 0.0
    for value in values.tolist():
        expected += value
    assert running_sum(values) == expected != math.fsum(values.tolist())
