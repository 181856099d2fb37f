"""The meter's own conversion clock: found, and then a witness for or against transfers of constant power."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribution.attribute import attribute
from roambench.energy.attribution.attribution import Attribution
from roambench.energy.attribution.constant_powers import ReadingArrays, constant_powers
from roambench.energy.attribution.design_based import in_doubt
from roambench.energy.attribution.near_transfers import Fitted, near_transfers
from roambench.energy.attribution.pieces import STARTING, STARTING_S, TAIL, pieces_of
from roambench.energy.attribution.steadiness import NoClock
from roambench.energy.clocks.conversion_clock import ConversionClock
from roambench.energy.clocks.lateness import BOARD_LATENESS_S
from roambench.energy.readings.occupancy import SP2_STEP_W, SP2_WINDOW
from roambench.energy.readings.samples import PowerSamples

S = 10**9
WINDOW_S = 0.2571
ROUNDS = 20
TRANSFERS = (Phase.DOWNLOAD, Phase.UPLOAD)


def run(
    burst_s: float = 0.0,
    wander: float = 0.0,
    transfer_s: float = 1.0,
    seed: int = 3,
    late_s: float = 0.0,
    spent_s: float = 0.0,
):
    """Spans of 20 rounds, and 1 Hz lines of a meter that converts back to back every 257.1 ms.

    A transfer begins with `burst_s` of three times its power, a training with `late_s` of half its power
    and ends with `spent_s` of it; the clock's pace drifts by `wander`.
    """
    draw = np.random.Generator(np.random.PCG64(seed))
    spans, edges, powers, at = [], [0.0], [], 0.0
    phases = (Phase.IDLE, Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD, Phase.WAIT)
    for step in range(ROUNDS):
        for phase in phases:
            length = {Phase.TRAIN: 9.0, Phase.DOWNLOAD: transfer_s, Phase.UPLOAD: transfer_s}.get(phase, 3.0)
            length += draw.uniform(-0.4, 0.4) * min(length, 1.0)
            if (phase is Phase.IDLE and not step) or (phase is Phase.WAIT and step == ROUNDS - 1):
                length += 60.0
            spans.append(PhaseSpan("pi", "b", phase, step, round(at * S), round((at + length) * S)))
            net = {Phase.TRAIN: 2.7, Phase.DOWNLOAD: 0.45, Phase.UPLOAD: 0.75}.get(phase, 0.0)
            if phase in TRANSFERS and burst_s:
                edges.append(at + burst_s)
                powers.append(1.9 + 3.0 * net)
            if phase is Phase.TRAIN and late_s:
                edges.append(at + late_s)
                powers.append(1.9 + 0.5 * net)
            at += length
            if phase is Phase.TRAIN and spent_s:
                edges.append(at - spent_s)
                powers.append(1.9 + net)
                net *= 0.5
            edges.append(at)
            powers.append(1.9 + net)
    joules = np.concatenate(([0.0], np.cumsum(np.diff(edges) * powers)))
    pace = WINDOW_S * (1.0 + wander * np.linspace(-0.5, 0.5, int(at / WINDOW_S) + 20))
    ends = 0.1 + np.cumsum(pace)
    reads = np.arange(1.3, at - 1.0, 1.0) + draw.uniform(0.0, 0.004, int(np.ceil(at - 2.3)))
    last = np.searchsorted(ends, reads, "right") - 1
    mean = (np.interp(ends[last], edges, joules) - np.interp(ends[last] - pace[last], edges, joules)) / pace[
        last
    ]
    watts = np.round((mean + draw.normal(0.0, 0.01, len(mean))) / 0.0038) * 0.0038
    arrivals = reads + 0.004 + draw.exponential(0.0015, len(reads))
    return spans, PowerSamples.of(np.rint(arrivals * 1e9).astype(np.int64), watts), ends


def fitted(spans: list[PhaseSpan], samples: PowerSamples, **more: float) -> Attribution:
    settings = {"fit_lateness": True, "late_prior_s": BOARD_LATENESS_S, **more}
    return attribute(samples, spans, **settings)  # type: ignore[arg-type]


def test_the_clock_of_steady_transfers_is_found_to_milliseconds() -> None:
    spans, samples, ends = run()
    told = fitted(spans, samples).steadiness
    assert told is not None
    assert told.bears_out
    assert told.clock.window_s == pytest.approx(WINDOW_S, rel=1e-4)
    found = told.clock.end_s + np.rint((ends - told.clock.end_s) / told.clock.window_s) * told.clock.window_s
    assert np.abs(found - ends)[5:-25].max() < 0.02


def test_known_ages_tell_half_second_transfers_apart_from_trainings() -> None:
    """Of 0.6 s, by a clock; half a second in the worlds of `benchmarks`: 2 u is a quarter of what it was."""
    spans, samples, _ = run(transfer_s=0.6)
    known = fitted(spans, samples)
    unknown = fitted(spans, samples, late_prior_s=2.0 * BOARD_LATENESS_S)
    assert unknown.steadiness is None
    (watts, u_watts), (_, u_unknown) = (fit.net_watts_of(Phase.UPLOAD) for fit in (known, unknown))
    assert abs(watts - 0.75) < 2.5 * u_watts
    assert u_watts < 0.8 * u_unknown
    assert not known.contradicted


def test_bursts_are_told_and_leave_transfers_to_the_estimate_without_a_model() -> None:
    spans, samples, _ = run(burst_s=0.4)
    fit = fitted(spans, samples)
    assert fit.unsteady
    assert fit.contradicted
    assert in_doubt(fit) >= set(TRANSFERS)
    assert Phase.TRAIN not in in_doubt(replace(fit, misfit=None))


def test_a_training_borders_on_a_transfer_where_it_begins_not_where_its_steady_power_does() -> None:
    spans, samples, ends = run(late_s=STARTING_S)
    readings = ReadingArrays(
        0, samples.ns * 1e-9, samples.watts, SP2_WINDOW, SP2_STEP_W, BOARD_LATENESS_S, 0.0
    )
    told = constant_powers(pieces_of(spans, apart={STARTING}), readings, None)
    assert told.apart(STARTING)
    assert told.powers is not None
    used, pieces = told.design.used, [told.cut.spans[i] for i in told.design.fitted.tolist()]
    waits = [told.cut.parts[i] not in (None, TAIL) for i in told.design.fitted.tolist()]
    whole = told.levels, SP2_STEP_W, readings.at_s[used], told.late_s, told.cut.amid[told.design.fitted]
    seen = (samples.watts[used], pieces, waits, *whole)
    near = near_transfers(Fitted(told.design, told.fit, told.powers, *seen), SP2_WINDOW.window_s)
    trainings_s = np.array([span.start_ns * 1e-9 for span in spans if span.phase is Phase.TRAIN])
    told_at = near.borders[0]
    own = np.abs(told_at.at_s[:, None] - trainings_s).min(axis=1) < 0.5
    assert own.sum() >= 4
    assert np.abs(told_at.at_s[own][:, None] - trainings_s).min(axis=1) == pytest.approx(0.0, abs=1e-6)
    # What a border tells is when a window ended.
    off_s = np.abs(told_at.at_s + told_at.behind * SP2_WINDOW.window_s - ends[:, None]).min(axis=0)
    assert np.median(off_s[own]) < 0.05


def test_known_ages_tell_how_trainings_end() -> None:
    fit = fitted(*run(spent_s=0.2, seed=6)[:2])
    assert fit.steadiness is not None
    assert fit.steadiness.bears_out
    ending, rest = (fit.levels.index(name) for name in ("train ending", "train"))
    u_w = np.sqrt(np.diag(fit.covariance_w2))
    assert fit.watts[ending] < fit.watts[rest] - 2.0 * u_w[ending]
    assert abs(fit.watts[ending] - 1.9 - 0.5 * 2.7) < 2.5 * u_w[ending]
    assert fit.watts[rest] - 1.9 == pytest.approx(2.7, rel=0.02)


def test_a_clock_that_does_not_keep_its_pace_is_not_believed() -> None:
    """2 % over the run: no clock of constant pace; figures then rest on no assumption, and say how wide."""
    told = fitted(*run(wander=0.02)[:2]).steadiness
    assert told is not None
    assert not told.clock.found
    assert not told.bears_out


def test_where_hosts_do_not_agree_on_the_time_no_clock_is_looked_for() -> None:
    spans, samples, _ = run()
    fit = fitted(spans, samples, u_clock_s=0.02)
    assert fit.steadiness is None
    assert fit.no_clock is NoClock.HOSTS
    assert in_doubt(fit) >= set(TRANSFERS)


def test_why_no_clock_bears_out_the_transfers_is_told() -> None:
    spans, samples, _ = run()
    assert fitted(spans, samples).no_clock is None
    assert fitted(spans, samples, late_prior_s=0.1).no_clock is NoClock.FASTER
    assert fitted(*run(wander=0.02)[:2]).no_clock is NoClock.UNCLEAR
    few = spans[: next(i for i, span in enumerate(spans) if span.phase is Phase.TRAIN) + 1]
    told = fitted(
        few, PowerSamples(*(part[samples.ns < few[-1].end_ns] for part in (samples.ns, samples.watts)))
    )
    assert told.no_clock is NoClock.FEW


def test_lines_near_an_update_may_show_the_value_before_it() -> None:
    clock = ConversionClock(0.25, 10.0, 0.005, 50.0, 50.0, -20.0)
    at_s = np.array([10.02, 10.1, 10.254, 9.0])
    np.testing.assert_allclose(clock.ends_s(at_s), [10.0, 10.0, 10.0, 8.75])
    np.testing.assert_array_equal(clock.ambiguous(at_s), [True, False, True, True])


def test_a_board_that_wanders_at_rest_is_restless_and_a_steady_one_is_not() -> None:
    spans, samples, _ = run()
    assert not fitted(spans, samples).restless
    slow = np.cumsum(np.random.Generator(np.random.PCG64(1)).normal(0.0, 0.03, len(samples)))
    wandering = slow - np.convolve(slow, np.ones(25) / 25, "same")
    assert "idle" in fitted(spans, PowerSamples(samples.ns, samples.watts + wandering)).restless


def test_single_readings_far_off_at_rest_are_restless() -> None:
    spans, samples, _ = run()
    watts = samples.watts.copy()
    idle = [
        i
        for i, ns in enumerate(samples.ns)
        if any(s.phase is Phase.WAIT and s.start_ns + 6e8 < ns < s.end_ns for s in spans)
    ]
    watts[idle[::9]] += 0.4
    assert "idle" in fitted(spans, PowerSamples(samples.ns, watts)).restless
