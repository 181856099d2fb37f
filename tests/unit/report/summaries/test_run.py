"""A run summed up: numbers that were done in the head first."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace

import pytest

from roambench.contract.errors import RunError
from roambench.contract.events import EventKind
from roambench.contract.phases import Outcome, Phase
from roambench.contract.records import AgentEvent
from roambench.energy.comparison.transfer import ModelBasis
from roambench.meters.traits import MeterDescription
from roambench.report.report import report
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.flags import _energy_flags
from roambench.report.summaries.run import comparison_flags, improvements, summarise
from roambench.rounds.records import (
    FleetEvent,
    OrderAnswered,
    OrderGiven,
    ReplayPaused,
    ReplayResumed,
    RunResumed,
)
from roambench.runs.info import RunState


def summary_of(path):
    (run,) = read_runs([path])
    return summarise(run)


def test_joules_of_a_board_at_constant_power_are_watts_times_seconds(hand_made):
    """2 W: board 1 is active 4 + 20 + 4 = 28 s (56 J, aggregated), board 2 24 s (48 J, wasted)."""
    energy = summary_of(hand_made()).measured
    assert energy is not None
    assert energy.whole_run.joules == pytest.approx(400.0)
    assert energy.whole_run.covered_s == pytest.approx(200.0)
    assert energy.whole_run.coverage == 1.0
    # Two meters with 1 % of gain error each, 200 J each: sqrt(2) * 2 J; the meter's step adds 0.2 %.
    assert energy.whole_run.budget.gain_j == pytest.approx(2.0 * math.sqrt(2.0))
    assert energy.whole_run.u_joules == pytest.approx(2.0 * math.sqrt(2.0), rel=5e-3)
    assert energy.gross.cumulative_consumed.joules == pytest.approx(104.0)
    assert energy.gross.cumulative_wasted.joules == pytest.approx(48.0)
    assert energy.gross.per_training_consumed.mean == pytest.approx(52.0)
    assert energy.net.cumulative_consumed.joules == pytest.approx(0.0, abs=1e-6)
    by_phase = {item.phase: item for item in energy.phases}
    assert by_phase[Phase.TRAIN].gross.joules == pytest.approx(80.0)
    assert by_phase[Phase.UPLOAD].duration_s == pytest.approx(4.0)
    assert math.fsum(item.duration_s for item in energy.phases) == pytest.approx(200.0)
    assert energy.wasted_by_phase == pytest.approx({Phase.DOWNLOAD: 8.0, Phase.TRAIN: 40.0})
    assert energy.consumed_by_step == pytest.approx({0: 104.0})  # the upload serves step 0's training


def test_measured_equals_true_and_a_gain_of_3_percent_shows_as_3_percent(hand_made):
    exact = summary_of(hand_made("exact")).measured
    high = summary_of(hand_made("high", gain=1.03)).measured
    assert exact is not None
    assert high is not None
    assert exact.truth is not None
    assert high.truth is not None
    assert exact.truth.true_j == pytest.approx(400.0)
    assert exact.truth.error == pytest.approx(0.0, abs=1e-9)
    assert high.truth.error == pytest.approx(0.03, abs=1e-9)


def test_a_calibrated_gain_is_corrected(hand_made):
    config = {"energy": {"gain": 1.03, "u_gain": 0.001}}
    run = summary_of(hand_made(gain=1.03, config=config)).measured
    assert run is not None
    assert run.whole_run.joules == pytest.approx(400.0)


def test_an_old_calibration_and_one_filed_under_a_board_are_flagged(hand_made):
    """Two boards with meters of their own and a run made today; a calibration of 2020 and one of today."""
    described = MeterDescription("smartpower2", "/dev/x", "smartpower2", serial="A7").to_event(
        100_000_000_000
    )
    entry = {"gain": 1.0, "u_gain": 0.01, "u_offset_w": 0.0}
    today = dt.datetime.now(dt.UTC).date()
    meters = {"A7": {**entry, "date": "2020-03-01"}, "pi-02": {**entry, "date": today.isoformat()}}
    flags = summary_of(hand_made("old", events=[described], config={"energy": {"meters": meters}})).flags
    (old,) = (flag for flag in flags if "more than a year" in flag)
    assert old.startswith("calibrate again (roambench meter calibrate): meters of pi-01 (2020-03-01), ")
    assert not any("filed under the board's name" in flag or "have no date" in flag for flag in flags)
    flags = summary_of(
        hand_made("undated", events=[described], config={"energy": {"meters": {"A7": entry}}})
    ).flags
    (undated,) = (flag for flag in flags if "have no date" in flag)
    assert "those of pi-01 (A7), pi-02 (A7) have no date" in undated
    by_board = {"energy": {"meters": {"pi-01": meters["pi-02"]}}}
    flags = summary_of(hand_made("misfiled", events=[described], config=by_board)).flags
    (misfiled,) = (flag for flag in flags if "filed under the board's name" in flag)
    assert "pi-01 (serial A7)" in misfiled
    assert not any("more than a year" in flag for flag in flags)


def test_a_stall_of_5_s_is_a_gap_that_holds_no_joules_and_raises_a_flag(hand_made):
    """Readings of seconds 60..64 are missing: 59 to 65 is one gap of 6 s on each of two boards."""
    run = summary_of(hand_made(stall_s=(60.0, 5.0)))
    assert run.measured is not None
    assert run.measured.whole_run.gap_s == pytest.approx(12.0)
    assert run.measured.whole_run.coverage == pytest.approx(188.0 / 200.0)
    assert run.measured.whole_run.joules == pytest.approx(376.0)
    assert run.measured.truth is not None
    assert run.measured.truth.true_j == pytest.approx(376.0)  # over the same covered time
    assert any("coverage 94.0%: 12 board-seconds" in flag for flag in run.flags)


def test_a_gap_in_the_only_upload_is_flagged_although_the_whole_run_is_covered(hand_made):
    energy = summary_of(hand_made()).measured
    assert energy is not None
    assert not [flag for flag in _energy_flags(energy) if "was not measured" in flag.sentence]
    half = [
        replace(row, gross=replace(row.gross, covered_s=row.duration_s / 2, gap_s=row.duration_s / 2))
        if row.phase is Phase.UPLOAD
        else row
        for row in energy.phases
    ]
    flags = [flag.sentence for flag in _energy_flags(replace(energy, phases=tuple(half)))]
    assert any("50.0% of upload was not measured, and their joules are too low" in flag for flag in flags)


def test_measured_and_modelled_communication_by_hand(hand_made):
    """2.5 MB are 20 Mbit. LTE down at 20 Mbit/s: (51.97*20 + 1288.04) mW for 1 s = 2.32744 J, twice.
    Up at 10 Mbit/s: (438.39*10 + 1288.04) mW for 2 s = 11.34388 J. Really it took 4 s: 5 Mbit/s."""
    run = summary_of(hand_made())
    assert run.modelled_from_log_j["down"] == pytest.approx(2 * 2.32744)
    assert run.modelled_from_log_j["up"] == pytest.approx(11.34388)
    assert run.measured is not None
    compared = run.measured.comparison
    assert (compared.download.transfers, compared.upload.transfers) == (2, 1)
    assert compared.total.modelled_j(ModelBasis.PLACEMENT) == pytest.approx(2 * 2.32744 + 11.34388)
    assert compared.upload.modelled_j(ModelBasis.ACTUAL) == pytest.approx(4.0 * (438.39 * 5 + 1288.04) * 1e-3)


def test_the_threshold_counts_from_the_first_cloud_aggregation_that_reaches_it(hand_made):
    """Step 0 is above the threshold already, but the cloud aggregates in step 1 only."""
    run = summary_of(hand_made(accuracies=(0.9, 0.85)))
    assert run.learning.threshold == 0.8
    assert run.learning.threshold_step == 1
    assert run.learning.final_accuracy == 0.85
    assert run.learning.best_accuracy == 0.9
    assert summary_of(hand_made("low", accuracies=(0.1, 0.79))).learning.threshold_step is None


def test_devices_per_step_leave_out_the_first_step_and_distances_are_per_pair(hand_made):
    run = summary_of(hand_made())
    assert run.learning.aggregated_per_step == 1.0
    assert run.distance is not None
    assert (run.distance.mean_m, run.distance.sd_m, run.distance.pairs) == (900.0, 0.0, 4)


def test_trainings_by_outcome_and_orders_by_status(hand_made):
    run = summary_of(
        hand_made(
            extra=[
                OrderGiven(1, 1, "r/1/1/train", "train", 0),
                OrderAnswered(1, 1, "r/1/1/train", "lost", "session ended"),
                OrderGiven(1, 0, "r/1/0/train", "train", 0),
                FleetEvent(1, 1, "pi-02", EventKind.SESSION_LOST, "ended without goodbye"),
                FleetEvent(1, 1, "pi-02", EventKind.SESSION_OPENED, "again"),
            ]
        )
    )
    trainings = run.trainings
    assert (trainings.ordered, trainings.aggregated, trainings.wasted, trainings.pending) == (4, 1, 1, 2)
    assert trainings.reasons == {"absent": 1}
    assert trainings.wasted_reappeared == 1
    assert trainings.reached_cloud == 1
    assert trainings.by_order["r/0/0/train"].outcome is Outcome.AGGREGATED
    assert run.orders.answers == {("train", "done"): 2, ("train", "lost"): 1, ("upload", "done"): 1}
    assert run.orders.unanswered == 1
    (trouble,) = run.orders.troubles
    assert (trouble.device, trouble.status, trouble.reason) == ("pi-02", "lost", "session ended")
    (incident,) = run.incidents
    assert (incident.device, incident.kind) == ("pi-02", EventKind.SESSION_LOST)


def test_improvement_factors_are_the_other_run_over_mohawk(hand_made):
    """HierFAVG wastes both trainings: 24 s on each board, 96 J, where MOHAWK wastes 48 J."""
    paths = [
        hand_made("demo-hierfavg", system="hierfavg", aggregated=()),
        hand_made("demo-mohawk"),
    ]
    made = report(paths)
    factors = improvements(made.summaries)
    assert list(factors) == ["demo-hierfavg"]
    assert factors["demo-hierfavg"]["gross"]["cumulative_wasted_j"] == pytest.approx(2.0)
    assert factors["demo-hierfavg"]["gross"]["cumulative_consumed_j"] == pytest.approx(96.0 / 104.0)


def test_a_run_in_which_nothing_is_wasted_has_no_factor_but_infinity(hand_made):
    made = report([hand_made("demo-mohawk", aggregated=(0, 1)), hand_made("b", system="hierfavg")])
    assert made.summaries[0].measured.gross.cumulative_wasted.joules == 0.0
    assert math.isinf(improvements(made.summaries)["b"]["gross"]["cumulative_wasted_j"])


def test_a_run_without_readings_has_no_joules_rather_than_zero(hand_made):
    run = summary_of(hand_made(readings=False))
    assert run.measured is None
    assert any("no meter readings" in flag for flag in run.flags)


def test_a_rehearsal_has_neither_energy_nor_trouble(hand_made):
    run = summary_of(hand_made(readings=False, phases=False))
    assert run.energy is None
    assert run.trainings.ordered == 2


def test_an_interrupted_run_counts_pending_models_as_outstanding_not_wasted(hand_made):
    extra = [
        OrderGiven(1, 0, "r/1/0/train", "train", 0),
    ]
    run = summary_of(hand_made(state=RunState.INTERRUPTED, extra=extra))
    assert run.flags[0] == "the run is interrupted: Ctrl-C"
    assert run.trainings.pending == 1
    assert run.measured is not None
    assert run.measured.gross.cumulative_wasted.joules == pytest.approx(48.0)


def test_a_run_whose_process_vanished_is_read_to_its_last_stamp(hand_made):
    run = summary_of(hand_made(state=None))
    assert run.info.state is RunState.INTERRUPTED
    assert run.measured is not None
    assert run.measured.whole_run.joules == pytest.approx(400.0)


def test_emulation_that_came_late_is_flagged(hand_made):
    late = [
        OrderGiven(1, 0, "x", "train", 0),
        OrderAnswered(1, 0, "x", "done", late_s=9.0),
    ]
    run = summary_of(hand_made(extra=late))
    assert any("could not keep up" in flag for flag in run.flags)
    assert not any("could not keep up" in flag for flag in summary_of(hand_made("b")).flags)


def test_an_agent_that_died_in_training_keeps_the_time_it_was_seen_in_that_training(hand_made):
    """Its training began at 60 s and was never recorded as finished; it came back at 80 s."""
    s = 1_000_000_000
    run = summary_of(
        hand_made(
            "died",
            phases=False,
            extra=[OrderGiven(1, 0, "r/9/train", "train", 0), OrderGiven(1, 1, "r/9b/train", "train", 0)],
            events=[
                AgentEvent(EventKind.AGENT_STARTED, 100 * s, ""),
                AgentEvent(EventKind.TRAIN_STARTED, 160 * s, "r/9/train"),
                AgentEvent(EventKind.METER_OK, 170 * s, ""),
                AgentEvent(EventKind.AGENT_STARTED, 180 * s, ""),
            ],
        )
    )
    assert run.energy is not None
    by_phase = {item.phase: item for item in run.energy.phases}
    assert by_phase[Phase.TRAIN].duration_s == pytest.approx(20.0)  # 160 to 170 s on both boards
    assert by_phase[Phase.LOST].duration_s == pytest.approx(180.0)


def test_runs_that_should_not_be_compared_say_so(hand_made):
    runs = [summary_of(hand_made("a")), summary_of(hand_made("b", trace_hash="cd", state=RunState.FAILED))]
    flags = comparison_flags(runs)
    assert any("different traces" in flag for flag in flags)
    assert any("not finished" in flag and "b" in flag for flag in flags)
    assert comparison_flags([runs[0], runs[0]]) == ()


def test_runs_of_one_name_are_told_apart(hand_made, tmp_path):
    one, two = hand_made("x/demo"), hand_made("y/demo")
    assert [run.label for run in read_runs([one, two])] == ["x/demo", "y/demo"]
    assert [run.label for run in read_runs([one, one])] == ["demo", "demo (2)"]


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(RunError, match="at least one run folder"):
        read_runs([])
    with pytest.raises(RunError, match="not a run folder"):
        report([tmp_path])


def test_a_pause_on_boards_is_told_with_its_length_and_one_of_virtual_devices_is_not(hand_made):
    held = [ReplayPaused(0), ReplayResumed(0, 7, 12_500_000_007, "device")]
    more = [*held, ReplayPaused(1), ReplayResumed(1, 0, 2_500_000_000, "device")]
    virtual = [ReplayPaused(0), ReplayResumed(0, 0, 9_000_000_000, "host")]
    told = [
        [flag for flag in summary_of(hand_made(name, extra=extra)).flags if "paused" in flag]
        for name, extra in (("one", held), ("two", more), ("none", virtual))
    ]
    ends = "of device time: the boards drew idle power meanwhile, and whole-run energies include it"
    assert told == [
        [f"the replay was paused once, for 12.5 s {ends}"],
        [f"the replay was paused 2 times, for 15.0 s {ends}"],
        [],
    ]


def test_a_run_on_agents_that_was_resumed_says_what_it_lost_and_one_on_virtual_devices_need_not(hand_made):
    again = [
        RunResumed(1, 9_000_000_000, 4.0, 2_000_000_000),
        RunResumed(1, 12_000_000_000, 1.0, 2_000_000_000),
    ]
    told = [
        [flag for flag in summary_of(hand_made(name, extra=extra)).flags if "resumed" in flag]
        for name, extra in (("one", again[:1]), ("two", again), ("none", [RunResumed(1, 0, 5.0)]))
    ]
    ends = (
        "s of device time, from the last checkpoint to where it went on, count as lost; what had been done "
        "of a step was done again"
    )
    assert told == [
        [f"the run was resumed once, after 4 s without a controller in all: 7.0 {ends}"],
        [f"the run was resumed 2 times, after 5 s without a controller in all: 10.0 {ends}"],
        [],
    ]
