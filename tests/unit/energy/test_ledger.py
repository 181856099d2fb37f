from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.energy.account import account_device
from roambench.energy.ledger import KINDS, Ledger, LedgerRow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import EXACT, MeterCalibration

S = 10**9


def row(phase: Phase, joules: float, **changes: object) -> LedgerRow:
    plain = LedgerRow("a", 0, phase, None, "", 10.0, 10.0, joules, joules / 2, 0.0, joules)
    return replace(plain, **changes)  # type: ignore[arg-type]


def three_rounds() -> tuple[PowerSamples, list[PhaseSpan]]:
    """Train in rounds 0 and 1 (20 s each at 5 W), the first is uploaded in round 2 (20 s at 3 W)."""
    spans, at = [], 0
    for phase, step, training in (
        (Phase.IDLE, 0, ""),
        (Phase.TRAIN, 0, "t0"),
        (Phase.IDLE, 1, ""),
        (Phase.TRAIN, 1, "t1"),
        (Phase.WAIT, 1, ""),
        (Phase.UPLOAD, 2, "t0"),
        (Phase.ABSENT, 2, ""),
    ):
        spans.append(PhaseSpan("a", "b", phase, step, at, at + 20 * S, training, training))
        at += 20 * S
    levels = {Phase.TRAIN: 5.0, Phase.UPLOAD: 3.0}
    stamps = [t * S for t in range(145) if t % 20 >= 1 or t == 0]
    watts = [levels.get(spans[min(t // S // 20, 6)].phase, 2.0) for t in stamps]
    return PowerSamples.of(stamps, watts), spans


def test_every_span_has_a_row_with_its_joules_outcome_and_the_round_of_its_training() -> None:
    samples, spans = three_rounds()
    rows = account_device(
        samples, spans, {"t0": Outcome.AGGREGATED}, {"t0": 0, "t1": 1}, EXACT, 0, 140 * S
    ).rows
    assert [(r.phase, r.step, r.outcome, r.train_order_id) for r in rows] == [
        (Phase.IDLE, 0, None, ""),
        (Phase.TRAIN, 0, Outcome.AGGREGATED, "t0"),
        (Phase.IDLE, 1, None, ""),
        (Phase.TRAIN, 1, Outcome.PENDING, "t1"),
        (Phase.WAIT, 1, None, ""),
        (Phase.UPLOAD, 0, Outcome.AGGREGATED, "t0"),
        (Phase.ABSENT, 2, None, ""),
    ]
    assert [r.gross_j for r in rows] == pytest.approx([40, 100, 40, 100, 40, 60, 40], rel=2e-3)
    assert [r.net_j for r in rows] == pytest.approx([0, 60, 0, 60, 0, 20, 0], rel=5e-3, abs=1e-5)
    assert [r.duration_s for r in rows] == [20.0] * 7
    assert sum(r.covered_s for r in rows) == pytest.approx(140.0)


def test_a_transfer_of_no_training_is_consumed_and_has_no_outcome() -> None:
    samples, spans = three_rounds()
    spans = [replace(s, train_order_id="") if s.phase is Phase.UPLOAD else s for s in spans]
    rows = account_device(
        samples, spans, {"t0": Outcome.AGGREGATED}, {"t0": 0, "t1": 1}, EXACT, 0, 140 * S
    ).rows
    (synced,) = [row for row in rows if row.phase is Phase.UPLOAD]
    assert (synced.outcome, synced.step) == (None, 2)
    assert synced.gross_j == pytest.approx(60.0, rel=2e-3)


def test_rows_add_up_to_the_whole_run(virtual: ModuleType) -> None:
    signal = virtual.rounds_of_one_device(3, 30)
    account = account_device(
        virtual.metered(signal, 3), signal.spans, {}, {}, EXACT, signal.start_ns, signal.end_ns
    )
    split = Ledger.of(account.rows).total()
    assert split.joules == pytest.approx(account.whole_run.joules, rel=0.01)
    assert split.covered_s == pytest.approx(account.whole_run.covered_s)
    assert split.joules == pytest.approx(signal.true_j([(signal.start_ns, signal.end_ns)]), rel=0.003)


def test_a_gain_of_3_percent_shows_in_every_row_unless_it_is_calibrated() -> None:
    samples, spans = three_rounds()
    high = PowerSamples(samples.ns, samples.watts * 1.03)
    plain = account_device(samples, spans, {}, {}, EXACT, 0, 140 * S).rows
    raw = account_device(high, spans, {}, {}, EXACT, 0, 140 * S).rows
    known = account_device(high, spans, {}, {}, MeterCalibration(1.03, 0.0, 0.001, 0.0), 0, 140 * S).rows
    assert [a.gross_j / b.gross_j for a, b in zip(raw, plain, strict=True)] == pytest.approx(
        [1.03] * 7, abs=1e-4
    )
    assert [a.gross_j / b.gross_j for a, b in zip(known, plain, strict=True)] == pytest.approx(
        [1.0] * 7, abs=1e-4
    )


def test_gross_carries_the_meters_gain_and_offset_and_net_only_the_gain() -> None:
    samples, spans = three_rounds()
    exact = account_device(samples, spans, {}, {}, EXACT, 0, 140 * S).rows[1]
    meter = MeterCalibration(u_gain=0.02, u_offset_w=0.1)
    coarse = account_device(samples, spans, {}, {}, meter, 0, 140 * S).rows[1]
    # 100 J: gain 2 J, offset 0.1 W * 20 s = 2 J; net 60 J: gain 1.2 J.
    assert coarse.u_gross_j**2 - exact.u_gross_j**2 == pytest.approx(8.0, rel=1e-2)
    assert coarse.u_net_j**2 - exact.u_net_j**2 == pytest.approx(1.44, rel=1e-2)


def test_lost_time_keeps_what_the_meter_saw_and_splits_nothing() -> None:
    samples, spans = three_rounds()
    spans[3] = replace(spans[3], phase=Phase.LOST, train_order_id="", order_id="")
    lost = account_device(samples, spans, {}, {}, EXACT, 0, 140 * S).rows[3]
    assert (lost.phase, lost.outcome) == (Phase.LOST, None)
    assert lost.gross_j == pytest.approx(lost.naive_j)
    assert lost.gross_j == pytest.approx(100.0, rel=0.02)


def test_a_device_without_readings_has_rows_without_joules() -> None:
    _, spans = three_rounds()
    none = PowerSamples.of(np.empty(0, dtype=np.int64), np.empty(0))
    rows = account_device(none, spans, {}, {}, MeterCalibration(), 0, 140 * S).rows
    assert [(r.gross_j, r.covered_s, r.u_gross_j) for r in rows] == [(0.0, 0.0, 0.0)] * 7
    assert Ledger.of(rows).total().coverage == 0.0


def test_the_gain_of_one_meter_adds_linearly_and_of_two_meters_in_quadrature() -> None:
    one = [row(Phase.TRAIN, 100.0, u_gain=0.03), row(Phase.UPLOAD, 100.0, u_gain=0.03)]
    two = [one[0], replace(one[1], device="b")]
    assert Ledger.of(one).total().u_joules == pytest.approx(6.0)
    assert Ledger.of(two).total().u_joules == pytest.approx(3.0 * 2**0.5)
    # In net the same relative gain applies to the smaller joules.
    assert Ledger.of(one).total("net").u_joules == pytest.approx(3.0)


def test_a_power_where_phases_touch_is_wrong_in_all_spans_of_its_phase_together() -> None:
    """On all boards: what stands at the borders of a phase is much the same on boards of one kind."""
    one, twin = row(Phase.TRAIN, 100.0, u_level_j=3.0), row(Phase.TRAIN, 100.0, u_level_j=3.0, device="b")
    for kind in KINDS:
        assert Ledger.of([one, one]).total(kind).u_joules == pytest.approx(6.0)
        assert Ledger.of([one, twin]).total(kind).u_joules == pytest.approx(6.0)
        other = row(Phase.UPLOAD, 100.0, u_level_j=3.0)
        assert Ledger.of([one, other]).total(kind).u_joules == pytest.approx(3.0 * 2**0.5)


def test_what_phases_that_share_lines_may_take_of_each_other_is_not_in_their_sum() -> None:
    one = row(Phase.TRAIN, 100.0, u_level_j=3.0, sharing="train, upload")
    other = row(Phase.UPLOAD, 100.0, u_level_j=-3.0, sharing="train, upload", device="b")
    for kind in KINDS:
        assert Ledger.of([one, one]).total(kind).u_joules == pytest.approx(6.0)
        assert Ledger.of([one, other]).total(kind).u_joules == 0.0


def test_idle_power_is_wrong_in_all_spans_of_a_board_together_and_in_gross_by_the_guards_share() -> None:
    one = row(Phase.TRAIN, 100.0, u_idle_j=3.0, u_idle_gross_j=1.0)
    other = row(Phase.UPLOAD, 100.0, u_idle_j=4.0, u_idle_gross_j=1.0)
    for kind, same, apart in (("net", 7.0, 5.0), ("gross", 2.0, 2**0.5)):
        assert Ledger.of([one, other]).total(kind).u_joules == pytest.approx(same)
        assert Ledger.of([one, replace(other, device="b")]).total(kind).u_joules == pytest.approx(apart)


def test_what_is_a_rows_own_falls_with_the_root_of_their_number() -> None:
    rows = [row(Phase.UPLOAD, 10.0, u_own_j=0.5)] * 16
    assert Ledger.of(rows).total().u_joules == pytest.approx(2.0)  # 5 % of one, 1.25 % of 16
    assert rows[0].u_gross_j == rows[0].u_net_j == pytest.approx(0.5)


def test_offsets_of_one_meter_add_linearly_in_gross_and_vanish_in_net() -> None:
    rows = [row(Phase.TRAIN, 100.0, u_offset_w=0.1)] * 2
    assert Ledger.of(rows).total().u_joules == pytest.approx(2.0)
    assert Ledger.of(rows).total("net").u_joules == 0.0


def test_sums_by_phase() -> None:
    rows = [
        row(Phase.TRAIN, 100.0, outcome=Outcome.WASTED),
        row(Phase.UPLOAD, 10.0, outcome=Outcome.AGGREGATED),
        row(Phase.TRAIN, 50.0, outcome=Outcome.AGGREGATED),
        row(Phase.IDLE, 7.0, covered_s=4.0),
    ]
    by_phase = Ledger.of(rows).by_phase("net")
    assert {phase: energy.joules for phase, energy in by_phase.items()} == {
        Phase.TRAIN: 75.0,
        Phase.UPLOAD: 5.0,
        Phase.IDLE: 3.5,
    }
    assert by_phase[Phase.IDLE].gap_s == 6.0
