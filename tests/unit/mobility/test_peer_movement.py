"""Movement of devices in decentralised learning, with any model."""

from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.contacts import neighbours_of
from roambench.mobility.peer_movement import (
    GRID_MODELS,
    aware_positions,
    grid_movement,
    mean_speeds_m,
    reflected_movement,
    trace_movement,
)
from roambench.mobility.trace import Trace
from roambench.mobility.walks.grid_walk import GridWalkParameters
from roambench.mobility.walks.reflected_walk import ReflectedWalkParameters

GRID = GridWalkParameters(devices=8, mobile=2, grid=9, reach=3.0, steps=12)
COUNTS = np.eye(8, 4, dtype=np.int64) * 10 + 1


def fixes(steps: int, rows: list[tuple[int, int, float, float]], devices: int) -> Trace:
    columns = list(zip(*rows, strict=True))
    return Trace(
        steps=steps,
        step_s=1.0,
        device_names=tuple(f"d{number}" for number in range(devices)),
        step=np.array(columns[0], np.int32),
        device=np.array(columns[1], np.int32),
        x_m=np.array(columns[2]),
        y_m=np.array(columns[3]),
        ap_names=("ap",),
        ap_x_m=np.zeros(1),
        ap_y_m=np.zeros(1),
    )


def places(model: str) -> np.ndarray:
    trace = grid_movement(model, GRID, 3.0, COUNTS, 7).trace
    return np.stack((trace.x_m, trace.y_m), axis=1).reshape(GRID.steps, GRID.devices, 2)


@pytest.mark.parametrize("model", GRID_MODELS)
def test_all_grid_models_start_everybody_at_the_same_points(model: str) -> None:
    assert np.array_equal(places(model)[0], places("static")[0])


@pytest.mark.parametrize("model", GRID_MODELS)
def test_only_the_mobile_devices_move_and_none_further_than_its_reach(model: str) -> None:
    at = places(model)
    ways = np.linalg.norm(np.diff(at, axis=0), axis=2)
    assert ways[:, 2:].max() == 0.0
    assert ways.max() <= 3.0
    assert bool(ways[:, :2].max() > 0.0) is (model != "static")


def test_static_has_nobody_of_high_mobility_and_no_speeds() -> None:
    moved = grid_movement("static", GRID, 3.0, COUNTS, 7)
    assert not moved.high_mobility.any()
    assert moved.speeds.tolist() == [0.0] * 8


def test_movers_speed_is_their_reach_and_without_a_limit_the_diagonal() -> None:
    assert grid_movement("dam", GRID, 3.0, COUNTS, 7).speeds[:3].tolist() == [3.0, 3.0, 0.0]
    free = GridWalkParameters(devices=8, mobile=2, grid=9, reach=0.0, steps=12)
    assert grid_movement("random", free, 3.0, COUNTS, 7).speeds[0] == pytest.approx(8 * 2**0.5)


def test_without_a_limit_a_distribution_aware_mover_is_at_its_destination_after_one_step() -> None:
    free = GridWalkParameters(devices=8, mobile=2, grid=9, reach=0.0, steps=30)
    at = aware_positions("dam", free, 3.0, COUNTS, 7, "random")
    # Every move draws a new destination and reaches it: the way is as long as it may be.
    ways = np.linalg.norm(np.diff(at[:, :2], axis=0), axis=2)
    assert ways.max() > 3.0


@pytest.mark.parametrize("model", ["dam", "dcm"])
def test_a_mover_goes_by_its_own_samples_and_not_by_another_movers(model: str) -> None:
    others = COUNTS.copy()
    others[0] = [0, 0, 0, 5000]
    grid = GridWalkParameters(devices=8, mobile=2, grid=9, reach=0.0, steps=40)
    before, after = (aware_positions(model, grid, 2.0, counts, 7, "random") for counts in (COUNTS, others))
    assert not np.array_equal(before[:, 0], after[:, 0])
    assert np.array_equal(before[:, 1:], after[:, 1:])


def test_cluster_centre_movers_only_ever_rest_at_centres_when_they_reach_them() -> None:
    free = GridWalkParameters(devices=8, mobile=2, grid=9, reach=0.0, steps=40)
    at = aware_positions("dcm", free, 2.0, COUNTS, 7, "random")
    rested = {tuple(point) for point in at[1:, :2].reshape(-1, 2).tolist()}
    assert len(rested) <= 6  # never more centres than static devices


@pytest.mark.parametrize("ties", ["random", "most_static"])
def test_both_tie_rules_move_the_same_way_twice(ties: str) -> None:
    one, other = (aware_positions("dcm", GRID, 3.0, COUNTS, 7, ties) for _ in range(2))  # type: ignore[arg-type]
    assert np.array_equal(one, other)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of static, random, dam, dcm"):
        grid_movement("swim", GRID, 3.0, COUNTS, 7)


def test_walkers_are_alone_at_the_start_and_the_fast_ones_are_of_high_mobility() -> None:
    moved = reflected_movement(ReflectedWalkParameters(devices=10, fast_share=0.3, steps=5), 200.0, 7)
    assert moved.neighbours(0).nnz == 0
    assert moved.neighbours(1).nnz > 0
    assert np.flatnonzero(moved.high_mobility).tolist() == [0, 1, 2]
    assert moved.speeds[:3].min() >= 40.0
    assert moved.speeds[3:].max() <= 10.0


def test_a_replayed_device_is_as_fast_as_the_mean_of_its_ways_between_steps_in_a_row() -> None:
    # Device 0: 3 m and 5 m; device 1 stands; device 2 is never there twice in a row.
    rows = [
        (0, 0, 0.0, 0.0), (0, 1, 9.0, 9.0), (0, 2, 1.0, 0.0),
        (1, 0, 3.0, 0.0), (1, 1, 9.0, 9.0),
        (2, 0, 3.0, 5.0), (2, 1, 9.0, 9.0), (2, 2, 50.0, 0.0),
    ]  # fmt: skip
    trace = fixes(3, rows, 3)
    assert mean_speeds_m(trace).tolist() == [4.0, 0.0, 0.0]
    moved = trace_movement(trace, 2.0, "at_step")
    assert moved.high_mobility.tolist() == [True, False, False]
    assert neighbours_of(moved.neighbours(0), 0).tolist() == [2]
    assert neighbours_of(moved.neighbours(1), 0).tolist() == []
