"""Transfers that stall: one power for all that moves, waiting for the rest, and nothing counted twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribution.attribute import attribute
from roambench.energy.attribution.attribution import Attribution
from roambench.energy.attribution.constant_powers import ReadingArrays, constant_powers
from roambench.energy.attribution.pieces import pieces_of
from roambench.energy.attribution.transfer_kinds import kinds_of
from roambench.energy.integrate import power_curve
from roambench.energy.readings.occupancy import SP2_STEP_W, SP2_WINDOW
from roambench.energy.readings.samples import PowerSamples

S = 10**9
IDLE_W, MOVING_W, STALLED_W = 2.0, 3.0, 2.1


def run(
    rounds: int = 30, transfer_s: float = 3.0, stall_s: float = 0.8, seed: int = 1
) -> tuple[list[PhaseSpan], PowerSamples]:
    """Idle and uploads by turns, half of which stall; a meter that averages 0.26 s of each second."""
    draws = np.random.default_rng(seed)
    spans, power, at = [], [], 0.0

    def add(phase: Phase, seconds: float, *stretches: tuple[float, float], **stamps: object) -> None:
        nonlocal at
        spans.append(PhaseSpan("pi", "b", phase, 0, round(at * S), round((at + seconds) * S), **stamps))
        power.extend(stretches)
        at += seconds

    for number in range(rounds):
        idle_s = 60.0 if number == 0 else float(draws.uniform(4.0, 7.0))
        add(Phase.IDLE, idle_s, (idle_s, IDLE_W))
        stalls = number % 2 == 1
        before_s = float(draws.uniform(0.5, transfer_s - 0.5))
        first, last = at, at + transfer_s + stalls * stall_s
        stretches = [(before_s, MOVING_W), (stalls * stall_s, STALLED_W), (transfer_s - before_s, MOVING_W)]
        stall = ((round((at + before_s) * S), round((at + before_s + stall_s) * S)),) if stalls else ()
        add(
            Phase.UPLOAD,
            last - first,
            *stretches,
            transferred_bytes=2_600_000,
            first_byte_ns=round(first * S),
            last_byte_ns=round(last * S),
            stalls_ns=stall,
        )
    add(Phase.IDLE, 60.0, (60.0, IDLE_W))
    lengths, watts = np.array(power).T
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    joules = np.concatenate([[0.0], np.cumsum(lengths * watts)])
    at_s = np.arange(1.0, at, 1.0) + draws.uniform(0.0, 0.004, len(np.arange(1.0, at, 1.0)))
    ended_s = at_s - draws.uniform(0.0, 0.264, len(at_s))
    mean_w = (np.interp(ended_s, edges, joules) - np.interp(ended_s - 0.264, edges, joules)) / 0.264
    return spans, PowerSamples.of(np.rint(at_s * S), mean_w + draws.normal(0.0, 0.01, len(at_s)))


def without_stalls(spans: list[PhaseSpan]) -> list[PhaseSpan]:
    return [replace(span, stalls_ns=()) for span in spans]


def test_the_moving_level_is_that_of_moving_alone() -> None:
    spans, samples = run()
    fit = attribute(samples, spans)
    assert fit.levels == ("idle", "upload", "tail", "upload waiting")
    told = dict(zip(fit.levels, fit.watts, strict=True))
    assert told["upload"] == pytest.approx(MOVING_W, abs=0.03)
    assert told["upload waiting"] == pytest.approx(STALLED_W, abs=0.15)
    blind = attribute(samples, without_stalls(spans))
    assert dict(zip(blind.levels, blind.watts, strict=True))["upload"] < MOVING_W - 0.06


def energies(fit: Attribution, spans: list[PhaseSpan], samples: PowerSamples) -> list[tuple[float, float]]:
    found = fit.span_energies(power_curve(samples, 0, spans[-1].end_ns))
    return [
        (one.net_j, one.u_net_j) for one, span in zip(found, spans, strict=True) if span.phase is Phase.UPLOAD
    ]


def test_a_transfer_that_stalled_costs_its_moving_and_its_waiting() -> None:
    spans, samples = run()
    found = energies(attribute(samples, spans), spans, samples)
    for (net_j, u_j), span in zip(found, [s for s in spans if s.phase is Phase.UPLOAD], strict=True):
        true_j = 3.0 * (MOVING_W - IDLE_W) + len(span.stalls_ns) * 0.8 * (STALLED_W - IDLE_W)
        assert net_j == pytest.approx(true_j, abs=max(2.5 * u_j, 0.02))
        assert u_j < 0.2


def test_stalls_of_no_time_change_nothing() -> None:
    spans, samples = run()
    still = without_stalls(spans)
    stamped = [
        replace(span, stalls_ns=((span.first_byte_ns + S,) * 2,) if span.last_byte_ns else ())
        for span in still
    ]
    one, other = attribute(samples, still), attribute(samples, stamped)
    assert one.levels == other.levels
    np.testing.assert_array_equal(one.watts, other.watts)
    assert energies(one, still, samples) == energies(other, stamped, samples)


def fitted(spans: list[PhaseSpan], samples: PowerSamples, own_level_s: float | None = None):
    readings = ReadingArrays(0, samples.ns * 1e-9, samples.watts, SP2_WINDOW, SP2_STEP_W, None, 0.0)
    return constant_powers(pieces_of(spans), readings, own_level_s)


def test_what_moves_before_and_after_a_stall_is_one_unit_of_one_power() -> None:
    spans, samples = run()
    told = fitted(spans, samples)
    cut, powers = told.cut, told.powers
    assert powers is not None
    goes_on = np.flatnonzero(cut.power_of != np.arange(len(cut.spans)))
    assert len(goes_on) == 15
    for column in (powers.watts, powers.variance_w2, powers.own_share, powers.with_idle_w2):
        np.testing.assert_array_equal(column[goes_on], column[cut.power_of[goes_on]])
    assert len(set(powers.unit_of.tolist())) == len(cut.spans) - 15


def test_a_transfer_as_uncertain_alone_is_not_made_surer_by_a_stall() -> None:
    """Two pieces of one unknown power are wrong together: a stall of 1 ms takes no root of two away."""
    spans, samples = run(rounds=12, transfer_s=1.2, stall_s=0.001)
    stalled = energies(attribute(samples, spans), spans, samples)
    whole = energies(attribute(samples, without_stalls(spans)), spans, samples)
    for (_, u_j), (_, same_j) in zip(stalled, whole, strict=True):
        assert u_j == pytest.approx(same_j, rel=0.05)


def test_long_transfers_of_a_level_of_their_own_keep_it_over_a_stall() -> None:
    spans, samples = run(rounds=4, transfer_s=11.0)
    told = fitted(spans, samples, own_level_s=10.0)
    names = [told.levels[level] for level in told.level_of_span]
    moving = [
        name for name, part in zip(names, told.cut.parts, strict=True) if part is None and "upload" in name
    ]
    assert len(moving) == 6
    assert len(set(moving)) == 4
    assert attribute(samples, spans, own_level_s=10.0).resolution_of(Phase.UPLOAD) == "resolved"


def test_the_rate_of_a_transfer_is_its_bytes_over_the_seconds_in_which_they_moved() -> None:
    spans, _ = run(stall_s=3.0)  # as long as it moves: half the rate, were it counted
    kinds = kinds_of(pieces_of(spans))
    assert set(kinds) == {"", "upload"}
    few = [replace(span, transferred_bytes=3 * bool(span.last_byte_ns)) for span in spans]
    assert set(kinds_of(pieces_of(few))) == {
        "",
        "upload",
    }  # a piece without a whole byte has its transfer's rate


def test_what_moves_on_is_no_beginning_when_rounds_are_asked_whether_they_are_locked() -> None:
    """Uploads begin at one instant of the meter's second; where they stalled has nothing to do with it."""
    spans, samples = run()
    offset = {
        id(span): round(k * 10 * S + 0.5 * S)
        for k, span in enumerate(s for s in spans if s.phase is Phase.UPLOAD)
    }
    locked, at = [], 0
    for span in spans:
        if id(span) in offset:
            start = 60 * S + offset[id(span)]
            by = start - span.start_ns
            locked.append(PhaseSpan("pi", "b", Phase.IDLE, 0, at, start))
            stalls = tuple((a + by, b + by) for a, b in span.stalls_ns)
            at = span.end_ns + by
            locked.append(
                replace(
                    span, start_ns=start, end_ns=at, first_byte_ns=start, last_byte_ns=at, stalls_ns=stalls
                )
            )
    locked.append(PhaseSpan("pi", "b", Phase.IDLE, 0, at, at + 60 * S))
    lines = np.arange(1, at // S + 60)
    samples = PowerSamples.of(
        lines * S, np.full(len(lines), 2.0) + np.random.default_rng(1).normal(0, 0.01, len(lines))
    )
    fit = attribute(samples, locked)
    assert "upload" in fit.locked
    assert fit.offsets <= 2
