"""The generator of boards and meters in benchmarks/fidelity/physics, against physics computed by hand."""

from functools import cache

import numpy as np
import pytest
from fidelity.physics.board import Scene
from fidelity.physics.catalogue import WORLDS
from fidelity.physics.effects import wander, warmth_of
from fidelity.physics.meters import METERS
from fidelity.physics.power import Signal
from fidelity.physics.run import simulate

pytestmark = pytest.mark.lengthy


@cache
def run_of(world, meter="sp2-1hz", seed=0):
    return simulate(WORLDS[world], METERS[meter], seed)


def seconds(run, ns):
    return (np.asarray(ns) - run.start_ns) / 1e9


def of(run, *phases):
    """Indices of the spans of these phases."""
    return np.array([i for i, span in enumerate(run.spans) if span.phase in phases])


def level(run, phase):
    return run.levels_w[phase]


def lengths(run):
    return np.diff(run.border_ns) / 1e9


def test_a_step_and_a_ramp_integrate_as_on_paper():
    signal = Signal(np.array([[0.0, 2.0, 1.0, 1.0], [1.0, 3.0, 0.0, 2.0]]))
    assert signal.watts([0.5, 1.5, 2.5, 3.5]) == pytest.approx([1.0, 1.5, 1.5, 0.0])
    assert signal.joules([-1.0, 1.0, 1.5, 2.0, 3.0, 9.0]) == pytest.approx([0.0, 1.0, 1.625, 2.5, 4.0, 4.0])


@pytest.mark.parametrize("world", ["clean-2s", "lte", "everything", "stepped-clock", "beacons", "fan"])
def test_true_joules_are_the_fine_numerical_integral_of_power(world):
    run = run_of(world)
    border = seconds(run, run.border_ns)
    for i in [0, *of(run, "download", "train", "upload", "wait")[:8]]:
        edges = np.linspace(border[i], border[i + 1], 100_001)
        mean = run.signal.watts((edges[1:] + edges[:-1]) / 2).mean()
        assert run.true_gross_j[i] == pytest.approx(mean * (border[i + 1] - border[i]), abs=1e-3)


@pytest.mark.parametrize("world", WORLDS)
def test_every_world_makes_a_whole_run(world):
    run = run_of(world)
    assert run.true_gross_j.sum() == pytest.approx(run.true_whole_j, rel=1e-12)
    assert [span.phase for span in run.spans[:5]] == ["idle", "download", "train", "upload", "wait"]
    assert {span.phase for span in run.spans} <= {"idle", "download", "train", "upload", "wait", "absent"}
    assert all(a.end_ns == b.start_ns < b.end_ns for a, b in zip(run.spans, run.spans[1:], strict=False))
    assert lengths(run)[[0, -1]].min() > 59.999
    assert [run.spans[i].step for i in of(run, "train")] == list(range(20))
    assert [t.span for t in run.transfers] == list(of(run, "download", "upload"))
    for t in run.transfers:
        span = run.spans[t.span]
        assert span.start_ns <= t.first_byte_ns < t.last_byte_ns <= span.end_ns
    assert run.ns.dtype == np.int64
    assert run.watts.dtype == np.float64
    assert np.all(np.diff(run.ns) > 0)
    assert len(run.ns) == len(run.watts) == len(run.read_ns) == len(run.window_ns)
    assert np.all(run.window_ns[:, 1] <= run.read_ns)
    assert np.all(run.true_gross_j > run.true_net_j)
    assert np.all(run.true_net_j > -1e-9)
    assert run.tail_j.sum() <= run.tail_of_j.sum() + 1e-9
    assert run.tail_j.sum() == pytest.approx(run.tail_of_j.sum(), abs=0.5)  # but for what outlives the run
    assert run.ns[0] < run.spans[0].start_ns
    assert run.ns[-1] > run.spans[-1].end_ns
    # Whatever the line does, the mean of the readings is the mean power, within the gaps and what 26 % show.
    seen = run.watts.mean() * lengths(run).sum()
    assert seen == pytest.approx(run.true_whole_j, rel=0.06)
    assert run.world.physics.endswith(".")


def test_a_seed_fixes_a_run_and_nothing_else_repeats_it():
    make = simulate
    clean, other = WORLDS["clean-2s"], WORLDS["fading"]
    slow, fast = METERS["sp2-1hz"], METERS["sp2-100ms"]
    one, again = make(clean, slow, 7), make(clean, slow, 7)
    for field in ("ns", "watts", "border_ns", "true_net_j", "true_gross_j", "window_ns"):
        assert np.array_equal(getattr(one, field), getattr(again, field))
    assert one.spans == again.spans
    assert one.transfers == again.transfers
    for different in (make(clean, slow, 8), make(other, slow, 7), make(clean, fast, 7)):
        assert different.true_whole_j != one.true_whole_j


def test_clean_spans_draw_their_level_for_their_time_and_idle_nothing_above_idle():
    run = run_of("clean-2s")
    for phase in ("download", "train", "upload"):
        i = of(run, phase)
        assert run.true_net_j[i] == pytest.approx(level(run, phase) * lengths(run)[i])
    assert np.abs(run.true_net_j[of(run, "idle", "wait", "absent")]).max() < 1e-9
    idle = (run.true_gross_j - run.true_net_j) / lengths(run)
    assert idle == pytest.approx(level(run, "idle"), abs=0.02)  # background: 23.5 mW by 66 ms


def test_dead_time_leaves_the_energy_between_first_and_last_byte():
    run = run_of("dead-1s")
    span = np.array([t.span for t in run.transfers])
    byte = np.array([[t.first_byte_ns, t.last_byte_ns] for t in run.transfers])
    watts = np.array([level(run, run.spans[i].phase) for i in span])
    assert run.true_net_j[span] == pytest.approx(watts * np.diff(byte / 1e9)[:, 0], abs=1.1e-3)
    dead = (byte - np.stack([run.border_ns[span], run.border_ns[span + 1]], 1)) / 1e6
    assert np.all((dead[:, 0] >= 20) & (dead[:, 0] <= 61))
    assert np.all((dead[:, 1] >= -30) & (dead[:, 1] <= -9))


@pytest.mark.parametrize(("world", "s"), [("burst-2s", 2.0), ("burst-0.6s", 0.6)])
def test_a_burst_adds_twice_the_level_for_its_0_4_s(world, s):
    run = run_of(world)
    for phase in ("download", "upload"):
        i = of(run, phase)
        extra = run.true_net_j[i] / level(run, phase) - lengths(run)[i]
        assert np.all((extra >= 2 * 0.38 - 1e-9) & (extra <= 2 * 0.42 + 1e-9))
        assert lengths(run)[i] == pytest.approx(s, rel=0.151)


def test_slow_start_draws_what_its_six_round_trips_add_up_to():
    run = run_of("slow-start-2s")
    for t in run.transfers:
        rtt = (t.first_byte_ns - run.border_ns[t.span]) / 1e9  # stamped within 1 ms
        # 0.3, then 0.3 + 0.7 (1/32 + 1/16 + 1/8 + 1/4 + 1/2) over five, then 1
        expected = lengths(run)[t.span] - 6 * rtt + (6 * 0.3 + 0.7 * 31 / 32) * rtt
        assert run.true_net_j[t.span] == pytest.approx(
            expected * level(run, run.spans[t.span].phase), abs=4e-3
        )


def test_slow_transfers_cost_the_constant_more_and_the_same_bytes_the_same_slope():
    run = run_of("bandwidth")
    i = of(run, "upload")
    # J = level (0.4 s + 0.6 s0) with s0 = 2 s +- 15 %, the time at the nominal rate
    nominal = (run.true_net_j[i] / level(run, "upload") - 0.4 * lengths(run)[i]) / 0.6
    assert np.all((nominal > 1.69) & (nominal < 2.31))
    assert np.std(np.log(lengths(run)[i])) > 0.2
    assert len({t.bytes for t in run.transfers}) == 1


def test_a_transfer_that_is_paused_says_where_no_byte_moved():
    run = run_of("retransmissions")
    stalls = [(t, begin, end) for t in run.transfers for begin, end in t.stalls_ns]
    assert 5 < len({t for t, _, _ in stalls}) < 28  # of 40, two in five
    assert max(len(t.stalls_ns) for t in run.transfers) > 1
    for t, begin, end in stalls:
        assert t.first_byte_ns < begin < end <= t.last_byte_ns
        doubled = np.log2((end - begin) / 0.2e9)  # 10-50 ms longer, stamped within 1 ms
        assert doubled - np.floor(doubled + 0.01) < np.log2(1.27)
        inside = np.linspace(*seconds(run, [begin + 2e6, end - 2e6]), 1000)
        above = run.signal.watts(inside).mean() - level(run, "idle")
        assert above == pytest.approx(0.15 * level(run, run.spans[t.span].phase), abs=0.03)
    assert not any(t.stalls_ns for t in run_of("clean-2s").transfers + run_of("bandwidth").transfers)


def test_a_radios_tail_is_booked_to_its_cause_and_to_where_it_falls():
    run = run_of("radio-tail")
    causes = of(run, "download", "upload")
    assert np.all((run.tail_of_j[causes] >= 0.2 * 0.35) & (run.tail_of_j[causes] <= 0.35))
    assert run.tail_j[causes + 1] == pytest.approx(run.tail_of_j[causes])
    train = of(run, "train")
    assert run.true_net_j[train] - run.tail_j[train] == pytest.approx(
        level(run, "train") * lengths(run)[train]
    )
    assert run.true_net_j[of(run, "wait")] == pytest.approx(run.tail_j[of(run, "wait")])


def test_an_lte_stick_falls_silent_when_the_next_transfer_begins():
    run = run_of("lte")
    assert np.abs(run.tail_j[of(run, "download", "upload")]).max() < 1e-9
    assert run.tail_of_j[of(run, "upload")].max() > 0.5 * 0.6


def test_threads_that_spin_on_add_the_trainings_power_to_the_upload():
    run = run_of("train-spins-on")
    upload = of(run, "upload")
    spun = run.tail_j[upload] / level(run, "train")
    assert np.all((spun > 0.1) & (spun < 0.311))
    assert np.ptp(spun) < 0.011  # a board's own block time
    assert run.true_net_j[upload] - run.tail_j[upload] == pytest.approx(
        level(run, "upload") * lengths(run)[upload]
    )


def test_what_a_training_suppresses_is_lacking_in_its_net():
    run = run_of("polling")
    train = of(run, "train")
    polls = level(run, "train") - run.true_net_j[train] / lengths(run)[train]
    assert polls == pytest.approx(0.08 * 0.8, abs=0.02)
    assert polls.mean() == pytest.approx(0.064, abs=0.004)


def test_warmth_follows_the_trainings_by_a_first_order_lag():
    scene = Scene(WORLDS["clean-2s"], np.random.default_rng(1))
    t, warmth = warmth_of(scene, 100.0)
    step, state = 0.01, 0.0
    training = [(a, b) for _, a, b in scene.of("train")]
    seen = {}
    for k, now in enumerate(np.arange(t[0], 200.0, step)):
        if k % 5000 == 0:
            seen[round(float(now), 6)] = state
        state += step / 100.0 * (any(a <= now < b for a, b in training) - state)
    for now, value in seen.items():
        assert warmth[np.searchsorted(t, now - 1e-6)] == pytest.approx(value, abs=2e-3)
    assert max(seen.values()) > 0.1


def test_warmth_counts_as_idle_and_is_given_apart():
    run = run_of("self-heating")
    train = of(run, "train")
    assert run.true_net_j[train] == pytest.approx(level(run, "train") * lengths(run)[train])
    idle = (run.true_gross_j - run.true_net_j - run.warm_j) / lengths(run)
    assert idle == pytest.approx(level(run, "idle"), abs=0.02)
    assert run.warm_j[train[-1]] > 0.03 * lengths(run)[train[-1]]


def test_correlated_idle_noise_has_80_mw_and_a_memory_of_20_s():
    at = np.arange(0.0, 400.0, 20.0)
    idle = [Scene(WORLDS["clean-2s"], np.random.default_rng(seed)) for seed in range(20)]
    noise = []
    for scene in idle:
        scene.pieces["idle"].clear()
        wander(0.08, 20.0, scene)
        noise.append(Signal(scene.pieces["idle"][0]).watts(at))
    noise = np.array(noise)
    assert noise.std() == pytest.approx(0.08, rel=0.1)
    assert np.mean(noise[:, 1:] * noise[:, :-1]) / noise.var() == pytest.approx(np.exp(-1), abs=0.1)


@pytest.mark.parametrize("world", ["clean-2s", "beacons", "everything"])
def test_a_reading_is_the_mean_of_16_slots_of_current_that_an_ina231_converts(world):
    run = run_of(world)
    start, end = seconds(run, run.window_ns).T
    slot = (end - start) / 32
    assert np.all((slot > 0.96 * 0.008244 * 0.999) & (slot < 1.075 * 0.008244 * 1.001))
    fine = (np.arange(200) + 0.5) / 200
    at = start[:, None, None] + slot[:, None, None] * (2 * np.arange(16)[:, None] + fine)
    expected = run.signal.watts(at).mean(axis=(1, 2)) * run.gain
    rest = run.watts - expected
    assert rest.std() == pytest.approx(np.hypot(0.004, 0.00381687 / np.sqrt(12)), rel=0.15)  # noise and step
    assert rest.mean() == pytest.approx(0.0, abs=6e-4)
    assert run.gain == pytest.approx(1.00059, abs=1e-5)
    steps = run.watts / 0.00381687
    assert np.abs(steps - np.rint(steps)).max() < 0.14  # three decimals of a whole register


def test_conversions_run_back_to_back_and_a_read_shows_one_that_ended_up_to_a_window_ago():
    run = run_of("clean-2s")
    start, end = seconds(run, run.window_ns).T
    window = np.median(end - start)
    count = (end - end[0]) / window
    assert np.abs(count - np.rint(count)).max() < 1e-4
    age = seconds(run, run.read_ns) - end
    assert age.min() >= 0.0
    assert age.max() < window
    assert age.mean() == pytest.approx(window / 2, rel=0.1)
    late = seconds(run, run.ns) - seconds(run, run.read_ns)
    assert late.min() > 0.0026  # 30 bytes at 115200 baud
    assert late.mean() == pytest.approx(run.lateness_s, abs=1e-9)
    assert run.lateness_s < 0.01


def test_at_100_ms_every_conversion_is_printed_two_or_three_times():
    run = run_of("clean-2s", "sp2-100ms")
    _, times = np.unique(run.window_ns[:, 1], return_counts=True)
    assert set(times[1:-1]) <= {2, 3}
    same = np.diff(run.window_ns[:, 1]) == 0
    assert np.all(np.diff(run.watts)[same] == 0)


@pytest.mark.parametrize(("meter", "window_ms"), [("sp3-5ms", 2), ("sp3-50ms", 25), ("sp3-100ms", 50)])
def test_a_smart_power_3_averages_half_as_many_samples_as_milliseconds(meter, window_ms):
    run = run_of("clean-2s", meter)
    start, end = seconds(run, run.window_ns).T
    assert np.all((end - start >= window_ms / 1000.0 - 1e-6) & (end - start <= window_ms / 600.0 + 1e-6))
    at = start[:, None] + (end - start)[:, None] * (np.arange(40) + 0.5) / 40
    rest = run.watts - run.signal.watts(at).mean(axis=1)
    assert rest.std() == pytest.approx(0.02 / np.sqrt(window_ms), rel=0.1)
    step = np.diff(seconds(run, run.read_ns))
    assert np.median(step) == pytest.approx(run.meter.interval_s, rel=0.02)
    assert step.max() > run.meter.interval_s + 0.03
    clock = np.polyfit(run.device_ms / 1e3, seconds(run, run.read_ns), 1)
    rest = seconds(run, run.read_ns) - np.polyval(clock, run.device_ms / 1e3)
    assert np.abs(rest).max() < 6e-4  # whole milliseconds
    assert abs(clock[0] - 1) < 16e-6


def test_the_baselines_readings_scatter_by_about_13_mw():
    for seed in range(4):
        run = run_of("clean-2s", seed=seed)
        first = run.ns < run.spans[0].end_ns
        assert 0.009 < run.watts[first].std() < 0.018


def test_rounds_on_the_clock_meet_the_meters_second_at_the_same_offset():
    def spread(world):
        run = run_of(world)
        begin = run.border_ns[of(run, "download")] / 1e9 % 1
        tick = np.median(run.read_ns / 1e9 % 1)
        return np.abs(np.exp(2j * np.pi * (begin - tick)).mean())

    assert spread("locked") > 0.999
    assert spread("clean-2s") < 0.6
    run = run_of("locked")
    begin = seconds(run, run.border_ns[of(run, "download")])
    assert np.all(begin % 20 < 0.0031)


def test_lines_and_stamps_are_as_wrong_as_their_worlds_say():
    for seed in range(3):
        run = run_of("clock-50ppm", seed=seed)
        ticks = seconds(run, run.read_ns)
        assert abs(np.polyfit(np.arange(len(ticks)), ticks, 1)[0] - 1) == pytest.approx(50e-6, abs=2e-6)
    apart = np.diff(seconds(run_of("line-jitter"), run_of("line-jitter").read_ns))
    assert 0.895 < apart.min() < 0.92
    assert 1.28 < apart.max() < 1.305
    assert run_of("late-100ms").lateness_s == pytest.approx(0.105, abs=0.002)
    run = run_of("late-borders")
    late = (np.array([span.start_ns for span in run.spans]) - run.border_ns[:-1]) / 1e6
    assert late.min() >= 5
    assert late.max() <= 30
    run = run_of("lost-and-doubled")
    twice = np.diff(run.read_ns) == 0
    assert 0.01 < twice.mean() < 0.06
    assert np.all(np.diff(run.watts)[twice] == 0)
    assert 1 - len(set(run.read_ns)) / (lengths(run).sum() + 6) == pytest.approx(0.05, abs=0.03)
    assert np.count_nonzero(np.diff(run_of("outages").ns) > 5e9) >= 2
    run = run_of("stalls")
    assert np.diff(run.ns).max() > 2e9
    assert np.count_nonzero(np.diff(run.read_ns) < 4e6) >= 6  # all that was due, at once
    gains = [run_of("gain", seed=seed).gain for seed in range(40)]
    assert 0.980 < min(gains) < 0.985
    assert 1.016 < max(gains) < 1.021


def test_a_wandering_conversion_clock_leaves_its_grid():
    run = run_of("conversion-wander")
    end = seconds(run, run.window_ns[:, 1])
    best = min(
        np.abs((count := (end - end[0]) / window) - np.rint(count)).mean()
        for window in np.linspace(0.995, 1.005, 401) * np.median(np.diff(run.window_ns) / 1e9)
    )
    assert best > 0.02  # of a window; a steady clock leaves less than 1e-4
