"""Heat of trainings in idle power: found with its amount and time constant, or left alone."""

from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.idle.heat import TAUS_S, heat_of

S = 10**9
#: Twenty trainings of 10 s, one a minute, and the moments at rest, 4 s after their ends and before the next.
SPANS = [PhaseSpan("pi", "b", Phase.TRAIN, k, (60 * k + 30) * S, (60 * k + 40) * S) for k in range(20)]
BEGAN = [PhaseSpan("pi", "b", Phase.IDLE, 0, 0, 30 * S)]
AT_S = np.arange(0.0, 1200.0)
QUIET_S = AT_S[(AT_S < 30.0) | ((AT_S - 40.0) % 60.0 >= 4.0) & ((AT_S - 40.0) % 60.0 < 50.0)]
NOISE_W = np.random.default_rng(1).normal(0.0, 0.02, len(QUIET_S))


def warmed_w(tau_s: float, watts: float) -> np.ndarray:
    """By the differential equation of a low-pass, in steps of 10 ms."""
    state, fine = 0.0, []
    for k in range(120_000):
        on = 30.0 <= (k * 0.01) % 60.0 < 40.0
        fine.append(state)
        state += (on - state) * 0.01 / tau_s
    return watts * np.array(fine)[np.round(QUIET_S * 100).astype(int)]


@pytest.mark.parametrize("tau_s", [10.0, 20.0, 40.0])
def test_heat_is_found_with_its_amount_and_time_constant(tau_s: float) -> None:
    heat = heat_of(QUIET_S, 2.0 + warmed_w(tau_s, 0.3) + NOISE_W, BEGAN + SPANS)
    assert heat.tau_s == tau_s
    assert abs(heat.idle_w - 0.3) <= 3.0 * heat.u_w
    assert heat.shape(QUIET_S) == pytest.approx(warmed_w(tau_s, 1.0), abs=0.002)


def test_idle_power_that_only_drifts_has_no_heat() -> None:
    assert heat_of(QUIET_S, 2.0 + 1e-4 * QUIET_S + NOISE_W, BEGAN + SPANS).watts == 0.0


def test_few_trainings_tell_no_heat() -> None:
    assert heat_of(QUIET_S, 2.0 + warmed_w(20.0, 0.3), BEGAN + SPANS[:7]).watts == 0.0


def test_what_fades_as_fast_as_a_guard_is_trainings_own_and_not_idle_power() -> None:
    heat = heat_of(QUIET_S, 2.0 + warmed_w(3.0, 0.5) + NOISE_W, BEGAN + SPANS)
    assert heat.is_remnant
    assert (heat.tau_s, heat.idle_w) == (TAUS_S[0], 0.0)


@pytest.mark.parametrize("spans", [BEGAN, BEGAN + SPANS])
def test_long_before_and_without_trainings_there_is_no_heat(
    spans: list[PhaseSpan],
) -> None:
    moments_s = np.array([-1e5, 0.0, 10.0, 29.0])
    assert np.array_equal(heat_of(QUIET_S, 2.0 + NOISE_W, spans).shape(moments_s), np.zeros(4))
