from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.attribution.attribute import attribute
from roambench.energy.clocks.lateness import lateness_prior_s
from roambench.energy.integrate import power_curve
from roambench.energy.readings.samples import PowerSamples

pytestmark = pytest.mark.lengthy

S = 10**9


def timeline(*parts: tuple[Phase, float]) -> list[PhaseSpan]:
    spans, at = [], 0
    for step, (phase, length_s) in enumerate(parts):
        end = at + round(length_s * S)
        spans.append(PhaseSpan("pi", "b", phase, step, at, end))
        at = end
    return spans


def steady(spans: list[PhaseSpan], watts: dict[Phase, float], seed: int = 0) -> PowerSamples:
    """Noise-free windows of known age over the spans, 1 Hz from 0.7 s on."""
    edges = np.array([span.start_ns for span in spans] + [spans[-1].end_ns]) * 1e-9
    powers = np.array([watts[span.phase] for span in spans])
    joules = np.concatenate(([0.0], np.cumsum(np.diff(edges) * powers)))
    at = np.arange(0.7, edges[-1], 1.0)
    ended = at - np.random.Generator(np.random.PCG64(seed)).uniform(0.0, 0.2638, len(at))
    mean = (np.interp(ended, edges, joules) - np.interp(ended - 0.2638, edges, joules)) / 0.2638
    return PowerSamples.of(np.rint(at * 1e9).astype(np.int64), mean)


WATTS = {Phase.IDLE: 2.0, Phase.WAIT: 2.0, Phase.ABSENT: 2.0, Phase.DOWNLOAD: 2.5, Phase.TRAIN: 5.0}


def test_the_energy_of_each_phase_is_true_where_the_trapezoid_is_biased(virtual: ModuleType) -> None:
    # 40 seeds x 20 rounds of idle, download 2 s, train 10 s, upload 2 s, wait, always in this order.
    table = {row.phase: row for row in virtual.fidelity(40, 20, 2.0)}
    for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD):
        assert abs(table[phase].bias) < 0.03
        assert abs(table[phase].net_bias) < 0.03
        assert table[phase].held >= 0.95
        assert table[phase].net_held >= 0.95
    assert table[Phase.DOWNLOAD].naive_net_bias > 0.15
    assert table[Phase.UPLOAD].naive_net_bias > 0.10
    assert table[Phase.TRAIN].naive_net_bias < -0.02


def test_half_second_transfers_stay_unbiased_too(virtual: ModuleType) -> None:
    table = {row.phase: row for row in virtual.fidelity(40, 20, 0.5)}
    for row in table.values():
        assert abs(row.bias) < 0.03
        assert row.held >= 0.9
        assert row.net_held >= 0.9
    assert table[Phase.DOWNLOAD].naive_net_bias > 0.5


def test_lines_that_arrive_late_are_found_out(virtual: ModuleType) -> None:
    # 60 ms late: as an emulation 12 times faster than real time sees 5 ms of the host.
    found = []
    for seed in range(8):
        signal = virtual.rounds_of_one_device(seed, 20, 2.0)
        fit = attribute(virtual.metered(signal, seed, late_s=0.06), signal.spans, fit_lateness=True)
        assert abs(fit.lateness_s - 0.065) < 3.0 * fit.u_lateness_s
        assert fit.u_lateness_s < 0.03
        found.append(fit.lateness_s)
    assert np.mean(found) == pytest.approx(0.065, abs=0.02)


def test_lost_time_beside_a_training_does_not_look_like_lateness(virtual: ModuleType) -> None:
    found = []
    for seed in range(8):
        signal = virtual.rounds_of_one_device(seed, 20, 2.0)
        spans = [
            PhaseSpan(s.device, s.boot_id, Phase.LOST, s.step, s.start_ns, s.end_ns)
            if s.phase is Phase.UPLOAD
            else s
            for s in signal.spans
        ]
        found.append(attribute(virtual.metered(signal, seed), spans, fit_lateness=True).lateness_s)
    assert np.mean(found) == pytest.approx(0.005, abs=0.025)


def test_how_late_lines_may_be_follows_the_pace_of_an_emulation() -> None:
    assert lateness_prior_s(1.0) == 0.03
    assert lateness_prior_s(2.0) == 0.06
    assert lateness_prior_s(12.0) == 0.1


def test_what_is_known_of_lateness_sharpens_short_transfers(virtual: ModuleType) -> None:
    signal = virtual.rounds_of_one_device(3, 4, 0.5)  # few borders tell little
    seen = virtual.metered(signal, 3)
    wide, narrow = (
        attribute(seen, signal.spans, fit_lateness=True, late_prior_s=prior_s) for prior_s in (0.1, 0.03)
    )
    assert narrow.u_lateness_s < 0.04
    assert narrow.watts_of(Phase.UPLOAD)[1] < 0.8 * wide.watts_of(Phase.UPLOAD)[1]


def test_half_second_transfers_leave_lateness_uncertain_and_say_so(virtual: ModuleType) -> None:
    for seed in range(4):
        signal = virtual.rounds_of_one_device(seed, 20, 0.5)
        fit = attribute(virtual.metered(signal, seed, late_s=0.06), signal.spans, fit_lateness=True)
        assert abs(fit.lateness_s - 0.065) < 2.0 * fit.u_lateness_s
        assert 0.015 < fit.u_lateness_s < 0.03
        download = fit.levels.index("download")
        # It stands in the power that the lateness is mixed up with.
        assert abs(fit.late_slope_w[download]) > 0.2 * fit.watts_of(Phase.DOWNLOAD)[1]


def test_late_lines_spoil_short_transfers_unless_their_lateness_is_fitted(virtual: ModuleType) -> None:
    def download(fit_lateness: bool) -> tuple[float, float]:
        table = virtual.fidelity(16, 20, 0.5, late_s=0.06, fit_lateness=fit_lateness)
        assert table[0].phase is Phase.DOWNLOAD
        return float(table[0].net_bias), float(table[0].net_held)

    assert download(False)[0] < -0.12
    assert abs(download(True)[0]) < 0.08
    assert download(True)[1] >= 0.9


def test_the_uncertainty_is_not_so_wide_that_it_would_hold_anything(virtual: ModuleType) -> None:
    pulls = []
    for seed in range(30):
        signal = virtual.rounds_of_one_device(seed, 20)
        fit = attribute(virtual.metered(signal, seed), signal.spans)
        watts, u_watts = fit.watts_of(Phase.UPLOAD)
        pulls.append((watts - virtual.POWER_W[Phase.UPLOAD]) / u_watts)
    assert 0.3 < np.std(pulls) < 1.4


def test_powers_are_found_exactly_when_every_reading_lies_in_one_phase() -> None:
    spans = timeline((Phase.IDLE, 20), (Phase.TRAIN, 20), (Phase.WAIT, 20))
    at = [*range(2, 20), *range(22, 40), *range(42, 60)]
    watts = [2.0] * 18 + [5.0] * 18 + [2.0] * 18
    fit = attribute(PowerSamples.of(np.array(at) * S, watts), spans)
    assert fit.levels == ("idle", "train")
    assert fit.watts == pytest.approx([2.0, 5.0], abs=1e-5)
    assert fit.seconds.tolist() == [40.0, 20.0]
    assert fit.readings == pytest.approx([36.0, 18.0])
    assert fit.net_watts_of(Phase.TRAIN)[0] == pytest.approx(3.0, abs=1e-5)


def test_net_energy_is_gross_without_the_idle_level_and_idle_has_none() -> None:
    spans = timeline((Phase.IDLE, 30), (Phase.TRAIN, 30), (Phase.IDLE, 30))
    samples = steady(spans, WATTS)
    parts = attribute(samples, spans).span_energies(power_curve(samples, 0, 90 * S))
    assert parts[1].gross_j == pytest.approx(150.0, rel=2e-3)
    assert parts[1].net_j == pytest.approx(90.0, rel=2e-3)
    assert (parts[0].net_j, parts[0].u_net_j) == (0.0, 0.0)


def test_net_power_keeps_the_covariance_of_its_two_levels(virtual: ModuleType) -> None:
    signal = virtual.rounds_of_one_device(1, 5, 0.5)
    fit = attribute(virtual.metered(signal, 1), signal.spans)
    upload = fit.levels.index("upload")
    c = fit.covariance_w2
    assert fit.net_watts_of(Phase.UPLOAD)[1] ** 2 == pytest.approx(
        float(np.array([-1.0, 1.0]) @ c[np.ix_([0, upload], [0, upload])] @ np.array([-1.0, 1.0]))
    )
    assert fit.net_watts_of(Phase.IDLE) == (0.0, 0.0)


def test_energy_is_attributed_to_the_covered_part_of_a_span_only() -> None:
    spans = timeline((Phase.IDLE, 30), (Phase.TRAIN, 30), (Phase.IDLE, 30))
    samples = steady(spans, WATTS)
    kept = (samples.ns < 40 * S) | (samples.ns > 50 * S)
    samples = PowerSamples(samples.ns[kept], samples.watts[kept])
    part = attribute(samples, spans).span_energies(power_curve(samples, 0, 90 * S))[1]
    # Lines at 39.7 and 50.7 are left around the gap.
    assert part.covered_s == pytest.approx(19.0)
    assert part.gross_j == pytest.approx(19.0 * 5.0, rel=2e-3)


def test_lost_time_and_readings_that_touch_it_are_left_out() -> None:
    spans = timeline((Phase.IDLE, 30), (Phase.LOST, 10), (Phase.TRAIN, 30))
    samples = steady(spans, {**WATTS, Phase.LOST: 50.0})
    fit = attribute(samples, spans)
    assert fit.watts == pytest.approx([2.0, 5.0], abs=1e-3)
    lost = fit.span_energies(power_curve(samples, 0, 70 * S))[1]
    assert (lost.gross_j, lost.net_j, lost.resolved) == (0.0, 0.0, False)
    # The lines of 30.7 .. 39.7 s look at it.
    assert fit.used_readings == len(samples) - 10


def test_waiting_and_absence_within_the_work_are_no_idling() -> None:
    """0.2 W more while waiting and 0.4 W less while absent change nothing about idling or training."""
    spans = timeline(
        (Phase.IDLE, 30),
        (Phase.TRAIN, 30),
        (Phase.WAIT, 30),
        (Phase.ABSENT, 30),
        (Phase.TRAIN, 30),
        (Phase.IDLE, 30),
    )
    fit = attribute(steady(spans, {**WATTS, Phase.ABSENT: 1.6, Phase.WAIT: 2.2}), spans)
    assert fit.levels == ("idle", "train", "wait", "absent")
    assert fit.watts == pytest.approx([2.0, 5.0, 2.2, 1.6], abs=5e-3)


def test_a_wait_before_and_after_all_work_is_the_baseline() -> None:
    spans = timeline((Phase.ABSENT, 30), (Phase.TRAIN, 30), (Phase.WAIT, 30))
    assert attribute(steady(spans, {**WATTS, Phase.WAIT: 2.0, Phase.ABSENT: 2.0}), spans).levels == (
        "idle",
        "train",
    )


def test_a_long_span_may_have_a_level_of_its_own() -> None:
    # The clock of a warm Pi 3B+ goes down: the second training draws less.
    spans = timeline((Phase.IDLE, 30), (Phase.TRAIN, 30), (Phase.IDLE, 30), (Phase.TRAIN, 30))
    samples = steady(spans, WATTS)
    samples = PowerSamples(samples.ns, np.where(samples.ns > 90 * S, samples.watts - 1.0, samples.watts))
    fit = attribute(samples, spans, own_level_s=20.0)
    parts = fit.span_energies(power_curve(samples, 0, 120 * S))
    assert fit.levels == ("idle", "train[1]", "train[3]")
    assert parts[1].gross_j == pytest.approx(150.0, rel=0.01)
    assert parts[3].gross_j == pytest.approx(120.0, rel=0.02)


@pytest.mark.parametrize(
    ("lengths", "resolved"),
    [((4.9,), False), ((5.1,), True), ((2.5, 2.5, 2.5), False), ((2.6, 2.6, 2.6, 2.6), True)],
)
def test_a_phase_is_resolved_from_5_seconds_on_or_from_10_seconds_of_repeats(
    lengths: tuple[float, ...], resolved: bool
) -> None:
    parts: list[tuple[Phase, float]] = [(Phase.IDLE, 20.0)]
    for length in lengths:
        parts += [(Phase.TRAIN, length), (Phase.IDLE, 20.3)]
    spans = timeline(*parts)
    samples = steady(spans, WATTS)
    energies = attribute(samples, spans).span_energies(power_curve(samples, 0, spans[-1].end_ns))
    assert energies[1].resolved is resolved


def test_a_phase_that_no_reading_saw_stays_physical_and_says_that_it_is_unknown() -> None:
    # 20 ms of download between two readings, as over 1000 Mbit/s Wi-Fi.
    spans = timeline((Phase.IDLE, 20.0), (Phase.DOWNLOAD, 0.02), (Phase.TRAIN, 20.0), (Phase.IDLE, 20.0))
    samples = steady(spans, WATTS)
    fit = attribute(samples, spans)
    watts, u_watts = fit.watts_of(Phase.DOWNLOAD)
    assert 0.0 < watts < 7.0
    assert u_watts > 1.5
    part = fit.span_energies(power_curve(samples, 0, spans[-1].end_ns))[1]
    assert not part.resolved
    assert part.u_gross_j > 0.03


def test_without_any_reading_nothing_is_measured_and_nothing_crashes() -> None:
    spans = timeline((Phase.IDLE, 20), (Phase.TRAIN, 20))
    none = PowerSamples.of(np.empty(0, dtype=np.int64), np.empty(0))
    parts = attribute(none, spans).span_energies(power_curve(none, 0, 40 * S))
    assert [(p.covered_s, p.gross_j, p.u_gross_j, p.resolved) for p in parts] == [(0.0, 0.0, 0.0, False)] * 2
    assert attribute(none, []).span_energies(power_curve(none, 0, S)) == []
    with pytest.raises(KeyError, match="upload"):
        attribute(none, spans).watts_of(Phase.UPLOAD)


def test_scatter_between_readings_widens_the_uncertainty_and_slow_drift_is_followed() -> None:
    spans = timeline((Phase.IDLE, 300), (Phase.TRAIN, 300))
    at = np.arange(1.0, 600.0) * S
    draw = np.random.Generator(np.random.PCG64(1))
    white = draw.normal(0.0, 0.2, len(at))
    slow = np.convolve(white, np.ones(10), "same") / np.sqrt(10.0)
    level = np.where(at < 300 * S, 2.0, 5.0)
    u_white = attribute(PowerSamples.of(at, level + white), spans).watts_of(Phase.TRAIN)[1]
    u_slow = attribute(PowerSamples.of(at, level + slow), spans).watts_of(Phase.TRAIN)[1]
    # White: sd / sqrt(n) = 0.2 / sqrt(300). Slow: neighbours differ by sd sqrt(0.2), what they tell is kept.
    assert u_white == pytest.approx(0.0115, rel=0.2)
    assert u_slow == pytest.approx(u_white * np.sqrt(0.1), rel=0.2)


def test_spans_of_one_type_that_differ_keep_their_own_power(virtual: ModuleType) -> None:
    # The board throttles: the second and the fourth training draw 1 W less than the others.
    parts = [(Phase.IDLE, 20.0), (Phase.TRAIN, 20.0)] * 4 + [(Phase.IDLE, 20.0)]
    spans = timeline(*parts)
    edges = np.array([span.start_ns for span in spans] + [spans[-1].end_ns])
    power = np.array([2.0 if s.phase is Phase.IDLE else 5.0 - (i % 4 == 3) for i, s in enumerate(spans)])
    joules = np.concatenate(([0.0], np.cumsum(np.diff(edges) * power)))
    at = np.arange(0.7, edges[-1] / S, 1.0) * 1e9
    mean = (np.interp(at - 0.1e9, edges, joules) - np.interp(at - 0.3638e9, edges, joules)) / 0.2638e9
    samples = PowerSamples.of(np.rint(at).astype(np.int64), mean)
    fit = attribute(samples, spans)
    found = [row.gross_j for row in fit.span_energies(power_curve(samples, 0, spans[-1].end_ns))][1::2]
    assert found == pytest.approx([100.0, 80.0, 100.0, 80.0], rel=0.005)
    assert fit.between_sd_w[1] == pytest.approx(0.577, rel=0.1)  # sd of 5, 4, 5, 4 W with n - 1


def test_a_single_span_is_fitted_too() -> None:
    spans = timeline((Phase.TRAIN, 20))
    at = np.arange(1, 20)
    samples = PowerSamples.of(at * S, np.full(len(at), 5.0))
    part = attribute(samples, spans).span_energies(power_curve(samples, 0, 20 * S))[0]
    assert part.gross_j == pytest.approx(5.0 * part.covered_s, rel=1e-3)
    assert part.covered_s > 18.0


def test_one_half_second_transfer_in_a_whole_run_is_held_by_its_uncertainty(virtual: ModuleType) -> None:
    held = pulls = 0.0
    for seed in range(60):
        signal = virtual.rounds_of_one_device(seed, 1, 0.5)
        seen = virtual.metered(signal, seed)
        fit = attribute(seen, signal.spans)
        part = fit.span_energies(power_curve(seen, signal.start_ns, signal.end_ns))[2]
        pull = (part.gross_j - signal.true_j_of(Phase.DOWNLOAD)) / part.u_gross_j
        held += abs(pull) <= 2.0
        pulls += pull**2
        assert not part.resolved
    assert held / 60 >= 0.93
    assert (pulls / 60) ** 0.5 > 0.5
