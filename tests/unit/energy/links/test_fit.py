"""Fitting alpha_up, alpha_down and beta: known lines are found, and the intervals mean what they say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.energy.links.fit import LinkPoint, fit_link, points_of, pooled
from roambench.energy.links.sweep import SweepPoint, SweepWindow
from roambench.energy.links.windows import WindowPower

TRUE = {"up": 0.010, "down": 0.005}
BETA_W = 0.2


def window(index, direction, rate, net_w, u_w=0.002, repeats=10):
    point = SweepPoint(direction, 4_000_000, rate)
    seconds = repeats * point.transfer_s
    moved = repeats * point.size_bytes
    return WindowPower(SweepWindow(index, point, repeats), net_w, u_w, 1.9, seconds, moved)


def line_points(noise=None, rates=(2.0, 5.0, 10.0, 20.0), sizes=(8.0, 32.0), beta=None, u_w=0.002):
    beta = {"up": BETA_W, "down": BETA_W} if beta is None else beta
    points = []
    for way in ("up", "down"):
        for size in sizes:
            for rate in rates:
                off = 0.0 if noise is None else float(noise.standard_normal()) * u_w
                watts = TRUE[way] * rate + beta[way] + off
                points.append(LinkPoint(way, size, rate, rate, watts, u_w, 5, 50, 60.0))
    return points


def test_points_on_a_line_give_its_parameters():
    fit = fit_link("x", line_points(), u_gain=0.0)
    assert fit.known.values == pytest.approx([10.0, 5.0, 200.0])
    assert fit.known.dof == 77.0  # 16 points of 5 windows, 3 parameters
    assert fit.residual_w == pytest.approx(np.zeros(16), abs=1e-9)
    assert fit.r_squared == pytest.approx(1.0)
    assert fit.beta_difference_mw == pytest.approx(0.0, abs=1e-6)
    assert fit.shares_beta


def test_the_intervals_hold_the_truth_as_often_as_they_say():
    """1000 draws: 95 % and a little more, for a scatter smaller than told by chance narrows no interval."""
    noise = np.random.default_rng(8)
    fits = [fit_link("x", line_points(noise), u_gain=0.0) for _ in range(1000)]
    off = np.array([np.abs(fit.known.values - [10.0, 5.0, 200.0]) <= fit.known.half_widths() for fit in fits])
    assert np.all(off.mean(axis=0) > 0.94)
    assert np.all(off.mean(axis=0) < 0.99)


def test_what_rounding_hides_is_shared_by_the_points_of_one_rate():
    """More sizes at the same rates do not make a rounded power better known; more rates do."""
    few = fit_link("x", line_points(u_w=1e-6, sizes=(8.0,)), u_gain=0.0, rounding_w=0.0015)
    many = fit_link("x", line_points(u_w=1e-6, sizes=(1.0, 2.0, 4.0, 8.0)), u_gain=0.0, rounding_w=0.0015)
    assert many.known.u[:2] == pytest.approx(few.known.u[:2], rel=0.15)
    rates = (2.0, 3.0, 5.0, 7.0, 10.0, 13.0, 16.0, 20.0)
    wide = fit_link("x", line_points(u_w=1e-6, rates=rates, sizes=(8.0,)), u_gain=0.0, rounding_w=0.0015)
    assert np.all(wide.known.u[:2] < 0.85 * few.known.u[:2])


def test_a_board_that_is_no_straight_line_gets_wider_intervals_and_says_so():
    bent = [replace(point, net_w=point.net_w + 0.02 * (i % 2)) for i, point in enumerate(line_points())]
    fit = fit_link("x", bent, u_gain=0.0)
    straight = fit_link("x", line_points(), u_gain=0.0)
    assert fit.chi2_per_dof > 5.0
    assert np.all(fit.known.u > 2.0 * straight.known.u)


def test_a_fixed_part_that_differs_by_direction_is_noticed():
    fit = fit_link("x", line_points(beta={"up": 0.25, "down": 0.15}), u_gain=0.0)
    assert fit.beta_difference_mw == pytest.approx(100.0)
    assert not fit.shares_beta


def test_the_meters_gain_widens_the_interval_but_not_the_covariance():
    exact, gained = (fit_link("x", line_points(), u_gain=u) for u in (0.0, 0.0136))
    assert gained.known.covariance == exact.known.covariance
    expected = np.hypot(exact.known.half_widths(), 1.95996 * 0.0136 * np.array([10.0, 5.0, 200.0]))
    assert gained.known.half_widths() == pytest.approx(expected, rel=1e-4)


def test_a_point_is_the_mean_of_its_windows_but_one_that_a_job_spoilt():
    powers = [window(i, "up", 10.0, w) for i, w in enumerate((0.300, 0.301, 0.299, 0.302, 0.900))]
    (point,) = points_of(powers)
    assert point.net_w == pytest.approx(0.3005)
    assert point.windows == 4
    assert point.transfers == 40
    assert point.u_net_w == pytest.approx(np.std([0.300, 0.301, 0.299, 0.302], ddof=1) / 2.0)
    assert point.mbit_s == pytest.approx(10.0)


def test_the_intervals_are_those_of_ordinary_least_squares_over_the_windows():
    noise = np.random.default_rng(11)
    rates = (2.0, 5.0, 10.0, 20.0)
    powers = [
        window(i, way, rate, TRUE[way] * rate + BETA_W + 0.01 * noise.standard_normal(), repeats=50)
        for i in range(5)
        for way in TRUE
        for rate in rates
    ]
    rows = [
        (p.mbit_s, 0.0, 1.0) if p.window.point.direction == "up" else (0.0, p.mbit_s, 1.0) for p in powers
    ]
    design, watts = np.array(rows), np.array([p.net_w for p in powers])
    values, (left,), *_ = np.linalg.lstsq(design, watts, rcond=None)
    covariance = left / (len(watts) - 3) * np.linalg.inv(design.T @ design)
    known = fit_link("x", points_of(powers), u_gain=0.0).known
    assert known.dof == len(watts) - 3
    assert known.values == pytest.approx(1e3 * values)
    assert known.u == pytest.approx(1e3 * np.sqrt(np.diag(covariance)))


def test_what_is_wrong_of_the_idle_power_under_all_points_is_in_beta_alone():
    exact, lifted = (fit_link("x", line_points(), u_gain=0.0, u_idle_w=u) for u in (0.0, 0.003))
    assert lifted.known.u[:2] == pytest.approx(exact.known.u[:2])
    assert lifted.known.u[2] == pytest.approx(math.hypot(exact.known.u[2], 3.0))


def test_windows_below_ten_seconds_are_in_no_point():
    """4 MB at 20 Mbit/s is 1.6 s: six of them are 9.6 s, seven 11.2 s (rule R7)."""
    short = [window(i, "up", 20.0, 0.9, repeats=6) for i in range(5)]
    long = [window(i, "up", 20.0, 0.4, repeats=7) for i in range(5, 7)]
    (point,) = points_of([*short, *long])
    assert (point.windows, point.net_w) == (2, pytest.approx(0.4))
    assert points_of(short) == []
    exact = SweepWindow(0, SweepPoint("up", 1_250_000, 20.0), 20)  # 0.5 s each, ten seconds in all
    assert len(points_of([WindowPower(exact, 0.4, 0.002, 1.9, 9.9999999, 25_000_000)])) == 1


def test_windows_that_scatter_more_than_they_say_are_believed_less():
    noise = np.random.default_rng(3).standard_normal((9, 4))
    calm, restless = (
        points_of(
            [
                window(i, "up", rate, 0.3 + scatter * noise[i, k], u_w=0.002)
                for i in range(9)
                for k, rate in enumerate((2.0, 5.0, 10.0, 20.0))
            ]
        )
        for scatter in (0.001, 0.02)
    )
    assert restless[0].u_net_w == pytest.approx(20.0 * calm[0].u_net_w)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [p for p in line_points() if p.direction == "up"],
        [p for p in line_points() if p.asked_mbit_s == 5.0],
    ],
)
def test_too_little_to_fit_is_said(points):
    with pytest.raises(ConfigError, match="two rates or more in each direction"):
        fit_link("x", points, u_gain=0.0)


def test_one_device_pooled_is_itself():
    fit = fit_link("x", line_points(), u_gain=0.01)
    known, between = pooled("bench", [fit])
    assert known.values == pytest.approx(fit.known.values)
    assert known.half_widths() == pytest.approx(fit.known.half_widths())
    assert all(math.isnan(sd) for sd in between)


def test_another_device_is_as_uncertain_as_devices_differ_and_their_mean_is():
    """Boards at 180, 200 and 220 mW: sd 20, so u = 20 * sqrt(1 + 1/3) and t(2) = 4.303."""
    fits = [fit_link("x", line_points(beta={"up": b, "down": b}), u_gain=0.0) for b in (0.18, 0.20, 0.22)]
    known, between = pooled("bench", fits)
    assert known.values == pytest.approx([10.0, 5.0, 200.0])
    assert between[2] == pytest.approx(20.0)
    assert known.dof == 2.0
    assert known.half_widths()[2] == pytest.approx(4.3027 * 20.0 * math.sqrt(4.0 / 3.0), rel=1e-3)


def test_devices_that_agree_by_chance_are_not_known_better_than_each_was_measured():
    fits = [fit_link("x", line_points(), u_gain=0.01)] * 4
    known, _ = pooled("bench", fits)
    assert known.u == pytest.approx(fits[0].known.u * math.sqrt(1.25), rel=1e-6)


@pytest.mark.parametrize("boards", [2, 4, 16])
def test_pooled_intervals_hold_another_board_as_often_as_they_say(boards):
    """Of 300 benches, boards with a beta within 10 % (sd) of 200 mW; 95 % less three sd of the draws."""
    noise = np.random.default_rng(5)
    held = []
    for _ in range(300):
        betas = BETA_W * (1.0 + 0.1 * noise.standard_normal(boards + 1))
        fits = [
            fit_link("x", line_points(noise, beta={"up": beta, "down": beta}), u_gain=0.0)
            for beta in betas[1:]
        ]
        known, _ = pooled("bench", fits)
        other = [10.0, 5.0, 1e3 * betas[0]]
        held.append(np.abs(known.values - other) <= known.half_widths())
    assert np.all(np.mean(held, axis=0) > 0.91)
    assert np.mean(held, axis=0)[2] < 0.99
