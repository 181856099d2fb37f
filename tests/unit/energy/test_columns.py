"""Ledgers of both bases: what sums over columns are, against the same rows added one by one, to the bit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from roambench.contract.link_power import LinkPower
from roambench.contract.phases import ACTIVE_PHASES, Outcome, Phase
from roambench.energy.energy_value import Energy, Term, UncertaintyPart, total
from roambench.energy.ledger import (
    EVERY,
    KINDS,
    NONE,
    OUTCOMES,
    PHASES,
    Kind,
    Ledger,
    LedgerRow,
    running_sum,
)
from roambench.energy.links.models import MOHAWK, KnownLink, LinkModel, Provenance
from roambench.energy.modelled.device_power import DevicePower
from roambench.energy.modelled.ledger import EnergyModel, ModelledWork, modelled_ledger
from roambench.report.table10 import MeanSd, basis_of, factors_between, table10

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


def one_by_one(done: ModelledWork, model: EnergyModel) -> list[tuple[float, list[Term]]]:
    """Net joules and uncertainty of every row by Eq. 1 written out."""
    rows: list[tuple[float, list[Term]]] = []
    for i, device in enumerate(done.device.tolist()):
        if PHASES[done.phase[i]] is Phase.TRAIN:
            rows.append((model.power.of(device).train_w * float(done.train_s[i]), []))
            continue
        mbit = (int(done.transferred_bytes[i]) + model.overhead_bytes) * 8e-6
        up = PHASES[done.phase[i]] is Phase.UPLOAD
        amounts = (
            (mbit, 0.0, mbit / float(done.mbit_s[i])) if up else (0.0, mbit, mbit / float(done.mbit_s[i]))
        )
        known, root = model.known(done.links[done.link[i]], NAMES[device])
        *axes, gain = model.sources(done.links[done.link[i]], NAMES[device])
        net_j, *axes_j = (
            1e-3 * (a * amounts[0] + b * amounts[1] + c * amounts[2])
            for a, b, c in (known.values.tolist(), *root.T.tolist())
        )
        terms = zip((*axes, gain), (*axes_j, known.u_gain * net_j), strict=True)
        rows.append((net_j, [(UncertaintyPart.MODEL, source, u_j) for source, u_j in terms]))
    return rows


def measured_rows(rows: int = 300) -> list[LedgerRow]:
    """Rows of all phases and outcomes on three boards, two of them calibrated against one reference."""
    draws = np.random.default_rng(6)

    def row() -> LedgerRow:
        phase, device = PHASES[draws.integers(len(PHASES))], int(draws.integers(3))
        training = f"t{draws.integers(40)}" if phase in ACTIVE_PHASES and draws.random() < 0.9 else ""
        outcome = OUTCOMES[int(training[1:]) % 3] if training else None
        seconds, watts = sorted(draws.uniform(0.5, 30.0, 2)), draws.uniform(0.0, 0.2, 1)
        return LedgerRow(
            NAMES[device], int(draws.integers(20)), phase, outcome, training, seconds[1],
            seconds[draws.integers(2)], *draws.uniform(1.0, 90.0, 2), draws.uniform(5.0, 20.0), 0.0,
            0.02, watts[0], *draws.uniform(0.0, 5.0, 3), 0.01, f"dmm{device // 2}",
        )  # fmt: skip

    return [row() for _ in range(rows)]


def energy(row: LedgerRow, kind: Kind) -> Energy:
    joules = row.gross_j if kind == "gross" else row.net_j
    return Energy(joules, 0.0, row.covered_s, row.duration_s - row.covered_s, tuple(row.terms(kind)))


@pytest.mark.parametrize("name", list(MODELS))
def test_a_modelled_ledger_is_equation_1_for_every_row_to_the_bit(name: str) -> None:
    done, ledger, rows = work(), modelled_ledger(work(), MODELS[name]), one_by_one(work(), MODELS[name])
    assert ledger.net_j.tolist() == [net_j for net_j, _ in rows]
    idle_w = [MODELS[name].power.of(device).idle_w for device in done.device.tolist()]
    assert ledger.idle_j.tolist() == (idle_w * ledger.duration_s).tolist()
    assert ledger.errors["net"].each().tolist() == [math.hypot(*(u for *_, u in terms)) for _, terms in rows]
    for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD):
        chosen = ledger.of_phase(phase)
        found = ledger.total("net", chosen)
        own = [rows[i] for i in np.flatnonzero(chosen)]
        seconds = ledger.duration_s[chosen].tolist()
        expected = total(Energy(j, 0.0, s, 0.0, tuple(t)) for (j, t), s in zip(own, seconds, strict=True))
        assert (found, found.terms) == (expected, expected.terms)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_measured_rows_are_those_of_the_rows_one_by_one_to_the_bit(kind: Kind) -> None:
    rows = measured_rows()
    ledger = Ledger.of(rows)
    for phase in (None, *Phase):
        chosen = EVERY if phase is None else ledger.of_phase(phase)
        expected = total(energy(row, kind) for row in rows if phase in (None, row.phase))
        found = ledger.total(kind, chosen)
        assert (found, found.terms) == (expected, expected.terms)
    assert list(ledger.by_phase(kind)) == list(dict.fromkeys(row.phase for row in rows))


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("devices", [(), NAMES, [*NAMES, "pi-04"]])
def test_table_10_is_what_a_loop_over_the_rows_finds(finished: bool, devices: Sequence[str]) -> None:
    rows = measured_rows()
    found = table10(Ledger.of(rows), "net", rounds=25, devices=devices, finished=finished)
    active = [row for row in rows if row.phase in ACTIVE_PHASES]
    lost = [Outcome.WASTED, Outcome.PENDING] if finished else [Outcome.WASTED]
    used: dict[str, dict[object, float]] = {"training": {}, "board": dict.fromkeys(devices, 0.0), "round": {}}
    wasted = {group: dict(values) for group, values in used.items()}
    for row in active:
        keys = {"training": (row.device, row.train_order_id), "board": row.device, "round": row.step}
        for group, key in keys.items():
            if group != "training" or row.train_order_id:
                used[group][key] = used[group].get(key, 0.0) + row.net_j
                waste_j = row.net_j if row.outcome in lost else 0.0
                wasted[group][key] = wasted[group].get(key, 0.0) + waste_j
    for group in used:
        assert getattr(found, f"per_{group}_consumed") == MeanSd.of(list(used[group].values()))
        assert getattr(found, f"per_{group}_wasted") == MeanSd.of(list(wasted[group].values()))
    assert found.cumulative_consumed == total(energy(row, "net") for row in active)
    assert found.cumulative_wasted == total(energy(row, "net") for row in active if row.outcome in lost)
    assert (found.basis, found.empty_rounds) == ("measured", 25 - len(used["round"]))


def test_measured_and_modelled_joules_are_not_compared() -> None:
    measured, modelled = (
        table10(Ledger.of(measured_rows())),
        table10(modelled_ledger(work(), MODELS["paper"])),
    )
    assert (basis_of([measured]), basis_of([modelled, modelled])) == ("measured", "modelled")
    with pytest.raises(ValueError, match="measured and modelled joules"):
        factors_between(measured, modelled)


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
    table = table10(ledger, "net", rounds=3, devices=NAMES)
    assert table.per_board_consumed.count == 3
    assert table.per_board_consumed.mean == pytest.approx((18.32744 + 2.32744) / 3)
    assert (table.per_training_consumed.count, table.empty_rounds) == (1, 1)


def test_nothing_done_is_nothing_spent() -> None:
    ledger = Ledger.of(())
    assert (ledger.total(), ledger.by_phase(), ledger.by_step()) == (Energy(), {}, {})
    table = table10(ledger, devices=NAMES)
    assert (table.per_board_consumed.mean, table.per_board_consumed.count) == (0.0, 3)
    assert math.isnan(table.per_round_consumed.mean)


def test_sums_run_from_the_first_to_the_last() -> None:
    values = np.array([1e16, 1.0, -1e16, 1.0] * 5)
    expected = 0.0
    for value in values.tolist():
        expected += value
    assert running_sum(values) == expected != math.fsum(values.tolist())
