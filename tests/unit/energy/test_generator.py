"""The generator of worlds in benchmarks/fidelity, against physics computed by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from fidelity.catalogue import WORLDS
from fidelity.generator import DEFAULT, world
from fidelity.signals import DT, ar1, low_pass
from fidelity.world import LOADS

from roambench.contract.phases import Phase


def test_a_low_pass_answers_a_step_as_an_exponential() -> None:
    x = np.zeros(20_000)
    x[5_000:] = 1.0
    t = np.arange(20_000) * DT
    expected = np.where(t >= 5.0, 1.0 - np.exp(-(t - 5.0 + DT) / 0.5), 0.0)
    assert np.abs(low_pass(x, 0.5) - expected).max() < 1e-9


def test_idle_power_wanders_by_what_is_asked_for_and_forgets_in_its_time() -> None:
    noise = ar1(1_000_000, 0.08, 3.0, np.random.default_rng(0))
    assert noise.std() == pytest.approx(0.08, abs=0.008)
    assert np.corrcoef(noise[:-3000], noise[3000:])[0, 1] == pytest.approx(np.exp(-1.0), abs=0.08)


@pytest.mark.parametrize("name", list(WORLDS))
def test_every_world_is_a_timeline_whose_joules_add_up(name: str) -> None:
    drawn = world(name, 1, rounds=3)
    spans, truth = drawn.spans, drawn.truth
    assert all(a.end_ns == b.start_ns for a, b in pairwise(spans))
    assert all(span.end_ns > span.start_ns and Phase(span.phase) for span in spans)
    whole_j = truth.gross(spans[0].start_ns, spans[-1].end_ns)
    assert truth.span_gross.sum() == pytest.approx(whole_j)
    # What was caused is what was drawn, wherever it fell.
    net_j = truth.net(spans[0].start_ns, spans[-1].end_ns)
    assert truth.span_caused.sum() == pytest.approx(net_j, abs=1e-6 * whole_j)
    lines = drawn.readings
    assert (np.diff(lines.arrival_ns) > 0).all()
    assert np.isfinite(lines.watts).all()
    assert len(lines.watts) == len(lines.volts) == len(lines.amps) == len(lines)
    spec = WORLDS[name]
    assert spec["desc"]
    assert spec["holds"] == (spec["cause"] == "")
    assert set(spec["set"]) <= set(DEFAULT)


def test_a_seed_is_one_world_and_another_seed_another() -> None:
    one, same, other = (world("clean_2s", seed, rounds=3).readings for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.arrival_ns, same.arrival_ns)
    np.testing.assert_array_equal(one.watts, same.watts)
    assert len(one) != len(other) or (one.watts != other.watts).any()


def test_what_is_no_parameter_is_refused() -> None:
    with pytest.raises(KeyError, match="colour"):
        world("clean_2s", 1, colour="red")


def test_a_constant_power_costs_its_seconds_and_a_tail_is_known_exactly() -> None:
    clean, lte = world("clean_2s", 2, rounds=5), world("lte", 2, rounds=5)
    length_s = [(s.end_ns - s.start_ns) * 1e-9 for s in clean.spans if s.phase == "download"]
    assert clean.truth.caused("download") == pytest.approx(0.45 * sum(length_s), rel=2e-3)
    assert clean.truth.caused("download") == pytest.approx(clean.truth.inside("download"), abs=0.05)
    length_s = [(s.end_ns - s.start_ns) * 1e-9 for s in lte.spans if s.phase == "upload"]
    tails_s = 11.6 * len(length_s)
    assert lte.truth.caused("upload") == pytest.approx(0.7 * (sum(length_s) + 0.8 * tails_s), rel=0.02)


@pytest.mark.parametrize(("name", "period_s"), [("sp3", 0.1), ("generic_1hz", 1.0)])
def test_an_ideal_meter_whose_windows_lie_end_to_end_sees_every_joule(name: str, period_s: float) -> None:
    drawn = world(
        name, 3, rounds=5, gain=0.0, meter_noise=0.0, idle_noise=0.0, ppm=0, latency=0.0, lsb=0.0001
    )
    lines = drawn.readings
    first, last = len(lines) // 5, 4 * len(lines) // 5
    true_j = float(drawn.truth.gross(int(lines.arrival_ns[first]), int(lines.arrival_ns[last])))
    assert lines.watts[first + 1 : last + 1].sum() * period_s == pytest.approx(true_j, rel=2e-3)


@pytest.mark.parametrize("name", ["clean_2s", "window_1055", "tails_box"])
def test_readings_of_a_meter_that_looks_now_and_then_sum_up_to_what_was_caused(name: str) -> None:
    """With the true idle power subtracted, over seeds: the starts are spread over its period."""
    ratios = []
    for seed in range(24):
        drawn = world(name, seed, rounds=6, gain=0.0, idle_noise=0.0)
        at_ns = drawn.readings.arrival_ns
        idle_w = drawn.truth.idle(drawn.spans[0].start_ns, drawn.spans[0].end_ns) / 60.0
        joules = 0.0
        for span in drawn.spans:
            if span.phase == "upload":
                inside = (at_ns > span.start_ns) & (at_ns <= span.end_ns + 2_600_000_000)
                joules += float((drawn.readings.watts[inside] - idle_w).sum()) * drawn.facts["true_period"]
        ratios.append(joules / drawn.truth.caused("upload"))
    assert np.mean(ratios) == pytest.approx(1.0, abs=3.5 * np.std(ratios) / np.sqrt(24) + 0.002)


def test_a_smart_power_2_prints_steps_of_its_register_about_once_a_second() -> None:
    lines = world("clean_2s", 4).readings
    assert np.diff(np.unique(lines.watts)).min() > 0.0029
    assert np.median(np.diff(lines.arrival_ns)) == pytest.approx(1e9, rel=2e-3)


def test_faults_do_what_their_worlds_say() -> None:
    spacing_s = np.diff(world("lost_10", 1).readings.arrival_ns) * 1e-9
    assert 0.05 < np.mean(spacing_s > 1.5) < 0.16
    steps = np.diff(world("frozen", 1).readings.watts)
    moves = np.flatnonzero(np.concatenate(([1.0], steps, [1.0])))
    assert np.diff(moves).max() > 50
    lines = world("gain_nonlin_w", 1).readings
    hot = lines.watts > 3.2
    told = lines.watts[hot] / (lines.volts * lines.amps)[hot]
    assert told.mean() == pytest.approx(1.004, abs=5e-4)
    locked = world("locked", 1)
    first_ns = int(locked.readings.arrival_ns[0])
    offsets = [(s.start_ns - first_ns) % 10**9 for s in locked.spans if s.phase == "download"]
    assert np.ptp(offsets) < 2e6
    assert {span.phase for span in world("peers", 1).spans} & set(LOADS) == {"train", "exchange"}
