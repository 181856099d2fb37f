"""Whole runs of few lines, whose work comes in bursts without rests: as sure as they say.

Boards and meters are drawn here with numpy alone: bursts above an idle power that wavers, a window of an
unknown age once a period, a gain, rounded watts, lines that come late, and a gap in the middle without a
reader. Kinder than a meter: no line is lost alone, repeated or damaged, and phases are stamped exactly.
"""

from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.account import Method, account_device
from roambench.energy.readings.occupancy import MeterWindow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import MeterCalibration, with_meter

pytestmark = pytest.mark.lengthy

S = 10**9
DRAWS = 300
IDLE_W = 1.9
STEP_S = 0.004  # of the drawn power
BEFORE_S = 3.0  # drawn before the run begins
CALIBRATION = MeterCalibration(u_gain=0.011, u_offset_w=0.0)
SMARTPOWER2 = (1.0, MeterWindow(0.264, 0.264), 3.8e-3)
INA219 = (0.1, MeterWindow(0.068, 0.068), 4e-3)


def bursts(
    draw: np.random.Generator, rounds: int, train_s: tuple[float, float]
) -> list[tuple[Phase, float, float]]:
    """Phases one after the other, with their seconds and watts."""
    train_w = draw.uniform(1.0, 3.2)
    phases = [(Phase.IDLE, 3.0, IDLE_W)]
    for _ in range(rounds):
        phases += [
            (Phase.DOWNLOAD, draw.uniform(0.05, 0.4), IDLE_W + 0.4),
            (Phase.TRAIN, draw.uniform(*train_s), IDLE_W + train_w * draw.uniform(0.9, 1.1)),
            (Phase.WAIT, draw.uniform(0.8, 2.0), IDLE_W + 0.03),
            (Phase.UPLOAD, draw.uniform(0.05, 0.4), IDLE_W + 0.5),
            (Phase.WAIT, draw.uniform(0.8, 2.0), IDLE_W + 0.03),
        ]
    return [*phases, (Phase.IDLE, 3.0, IDLE_W)]


def off(
    draw: np.random.Generator,
    rounds: int,
    train_s: tuple[float, float],
    meter: tuple[float, MeterWindow, float],
    gap: bool,
) -> float:
    """How many of its standard uncertainties the energy of one run is off the truth of the covered time."""
    nominal_s, window, step_w = meter
    phases = bursts(draw, rounds, train_s)
    borders_s = np.concatenate(([0.0], np.cumsum([seconds for _, seconds, _ in phases])))
    end_s = float(borders_s[-1])
    at_s = np.arange(-BEFORE_S, end_s + 3.0, STEP_S)
    of = np.searchsorted(borders_s, at_s, "right") - 1
    power_w = np.array([*(watts for _, _, watts in phases), IDLE_W])[of]  # -1: before it
    power_w = power_w + np.repeat(draw.normal(0.0, 0.03, len(at_s) // 50 + 1), 50)[: len(at_s)]
    sums = np.concatenate(([0.0], np.cumsum(power_w)))

    def sum_until(seconds: np.ndarray) -> np.ndarray:
        return np.asarray(sums[np.round((seconds + BEFORE_S) / STEP_S).astype(int)])

    due_s = np.arange(-1.5, end_s + 2.0, nominal_s * (1.0 + draw.normal(0.0, 2e-4))) + draw.uniform(
        0.0, nominal_s
    )
    seen_s = due_s - draw.uniform(0.0, window.latch_s, len(due_s))
    mean_w = (sum_until(seen_s) - sum_until(seen_s - window.window_s)) / round(window.window_s / STEP_S)
    watts = np.round(mean_w * (1.0 + draw.normal(0.0, CALIBRATION.u_gain)) / step_w) * step_w
    arrived_s = due_s + np.abs(draw.normal(0.0, 0.01 * nominal_s, len(due_s)))
    died_s = draw.uniform(0.3, 0.6) * end_s
    back_s = died_s + gap * draw.uniform(5.0, 10.0)
    read = (arrived_s < died_s) | (arrived_s > back_s)
    spans = [
        PhaseSpan("pi", "b", phase, 0, round(borders_s[k] * S), round(borders_s[k + 1] * S))
        for k, (phase, _, _) in enumerate(phases)
    ]
    samples = PowerSamples.of(np.round(arrived_s[read] * S).astype(np.int64), watts[read])
    account = account_device(
        samples, spans, {}, {}, CALIBRATION, 0, spans[-1].end_ns, nominal_s, window=window, step_w=step_w
    )
    assert account.split.method is Method.TOUCHING
    whole = with_meter(account.whole_run, CALIBRATION, "meter")
    covered_s = np.array(account.curve.covered_intervals()) / S
    true_j = float(np.diff(sum_until(covered_s), axis=1).sum()) * STEP_S
    return (whole.joules - true_j) / whole.u_joules


@pytest.mark.parametrize("gap", [True, False])
@pytest.mark.parametrize("meter", [SMARTPOWER2, INA219], ids=["smartpower2", "ina219"])
@pytest.mark.parametrize("rounds", [3, 12])
@pytest.mark.parametrize("train_s", [(0.1, 0.5), (0.3, 1.0), (1.0, 5.0)])
def test_95_of_100_short_runs_are_within_two_of_their_uncertainties(
    train_s: tuple[float, float], rounds: int, meter: tuple[float, MeterWindow, float], gap: bool
) -> None:
    draw = np.random.default_rng(3)
    z = np.array([off(draw, rounds, train_s, meter, gap) for _ in range(DRAWS)])
    assert np.mean(np.abs(z) <= 2.0) >= 0.93
    assert np.mean(np.abs(z) > 3.0) <= 0.025
    assert abs(z.mean()) < 0.25
    # And it is not so wide that it would hold anything.
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.25
