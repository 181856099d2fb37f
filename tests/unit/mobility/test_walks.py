"""Every walking model against numbers worked out by hand, and what holds for all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.association import NearestAp, RecordedAp, RingWalkAp
from roambench.mobility.files import content_hash
from roambench.mobility.trace import Trace
from roambench.mobility.walks import GENERATORS
from roambench.mobility.walks.community import CommunityParameters, community, home_cells
from roambench.mobility.walks.edge_hopping import EdgeHoppingParameters, edge_hopping, hops
from roambench.mobility.walks.grid_walk import GridWalkParameters, grid_positions, grid_walk
from roambench.mobility.walks.reflected_walk import (
    ReflectedWalkParameters,
    folded,
    headings,
    reflected_walk,
    speeds_m,
)
from roambench.mobility.walks.ring_walk import RingWalkParameters, ring_steps, ring_walk
from roambench.mobility.walks.walkers import presences
from roambench.mobility.walks.waypoints import WaypointParameters, positions

WALKS = ("community", "edge-hopping", "grid-walk", "random-waypoint", "reflected-walk", "ring-walk")


def paths(trace: Trace) -> dict[str, list[tuple[object, ...]]]:
    """What each device does: (step, x, y, recorded AP)."""
    found: dict[str, list[tuple[object, ...]]] = {name: [] for name in trace.device_names}
    aps = [-1] * len(trace.step) if trace.ap is None else trace.ap.tolist()
    for step, device, x_m, y_m, ap in zip(
        trace.step.tolist(), trace.device.tolist(), trace.x_m.tolist(), trace.y_m.tolist(), aps, strict=True
    ):
        found[trace.device_names[device]].append((step, x_m, y_m, ap))
    return found


@pytest.mark.parametrize("name", WALKS)
def test_a_seed_fixes_everything_and_another_seed_changes_it(name):
    row = GENERATORS.load(name)
    given = {"devices": 7, "steps": 30}
    one, again, other = row.generate(3, given), row.generate(3, given), row.generate(4, given)
    assert content_hash(one) == content_hash(again) != content_hash(other)
    assert (one.steps, len(one.device_names), one.provenance["seed"]) == (30, 7, 3)


@pytest.mark.parametrize("name", WALKS)
def test_another_device_changes_nobodys_path(name):
    row = GENERATORS.load(name)
    # The deal of devices to edges depends on their number: one edge more per device keeps it.
    few = {"steps": 40, "devices": 6} | ({"aps": 6} if name in ("edge-hopping", "ring-walk") else {})
    many = few | {"devices": 9}
    if name == "reflected-walk":
        few, many = few | {"fast_share": 0.0}, many | {"fast_share": 0.0}
    if name in ("edge-hopping", "ring-walk"):
        # Where a device starts is a share of all; how far it goes from there is its own.
        one, other = row.generate(5, few), row.generate(5, many)
        gone = [(trace.ap.reshape(40, -1) - trace.ap.reshape(40, -1)[0])[:, :6] % 6 for trace in (one, other)]
        assert (gone[0] == gone[1]).all()
        assert gone[0].any()
        return
    before, after = paths(row.generate(5, few)), paths(row.generate(5, many))
    assert len(before) == 6
    assert all(after[name] == path for name, path in before.items())


@pytest.mark.parametrize("name", ["community", "edge-hopping", "random-waypoint", "ring-walk"])
def test_absence_changes_who_is_seen_and_not_where(name):
    row = GENERATORS.load(name)
    given = {"devices": 20, "steps": 100}
    everybody = paths(row.generate(8, given))
    seen = row.generate(8, given | {"presence": 0.5, "stay_steps": 3.0})
    assert 800 < len(seen.step) < 1200
    for name_, path in paths(seen).items():
        assert set(path) < set(everybody[name_])


def test_presence_is_the_share_asked_for_in_stays_of_the_length_asked_for():
    there = presences(400, 500, 0.25, 4.0, seed=1)
    # 200,000 device-steps; a stay of mean 4 makes them worth at least 200,000 / 8 independent ones:
    # sd sqrt(.25 * .75 / 25,000) = .0027, five of them are .0137.
    assert there.mean() == pytest.approx(0.25, abs=0.0137)
    ends = (there[:-1] & ~there[1:]).sum()
    # Each of ~50,000 present steps ends its stay with chance 1/4: sd .0019 of the share, five are .0097.
    assert ends / there[:-1].sum() == pytest.approx(0.25, abs=0.0097)
    assert presences(3, 5, 1.0, 1.0, seed=1).all()


def test_a_leg_is_walked_evenly_and_followed_by_its_pause():
    # From (0, 0) to (30, 40), 50 m at 5 m/s: 10 s; pause 4 s; then to (30, 140): 20 s; pause; back to 0, 0.
    corners = np.array([[30.0, 40.0], [30.0, 140.0], [0.0, 0.0], [0.0, 0.0]])
    x_m, y_m = positions(
        np.zeros((1, 2)),
        lambda leg, draws: corners[[min(leg, 3)]],
        WaypointParameters(speed_min_m_s=5.0, speed_max_m_s=5.0, pause_min_s=4.0, pause_max_s=4.0),
        np.array([0.0, 5.0, 10.0, 12.0, 14.0, 24.0, 34.0, 38.0]),
        seed=1,
        purpose="test",
    )
    assert x_m[:, 0].tolist() == pytest.approx([0, 15, 30, 30, 30, 30, 30, 30])
    assert y_m[:, 0].tolist() == pytest.approx([0, 20, 40, 40, 40, 90, 140, 140])


def test_nobody_walks_faster_than_allowed_or_out_of_the_box():
    row = GENERATORS.load("random-waypoint")
    trace = row.generate(2, {"devices": 30, "steps": 200, "step_s": 10.0, "speed_max_m_s": 1.5})
    x_m, y_m = trace.x_m.reshape(200, 30), trace.y_m.reshape(200, 30)
    way_m = np.hypot(np.diff(x_m, axis=0), np.diff(y_m, axis=0))
    assert way_m.max() <= 15.0 + 1e-9
    assert way_m.max() > 14.0  # ... but one nearly does
    assert 0 <= min(x_m.min(), y_m.min()) < 100 < 1900 < max(x_m.max(), y_m.max()) <= 2000


def test_warmed_up_walkers_crowd_the_middle():
    # Random waypoint's known uneven spread: the middle quarter of the area holds far more than a quarter.
    trace = GENERATORS.load("random-waypoint").generate(2, {"devices": 300, "steps": 40, "pause_max_s": 0.0})
    middle = (np.abs(trace.x_m - 1000) < 500) & (np.abs(trace.y_m - 1000) < 500)
    assert 0.38 < middle.mean() < 0.52


def test_a_community_stays_at_home_when_it_never_roams():
    parameters = CommunityParameters(devices=50, steps=100, stay_local=1.0)
    trace = community(parameters, 6)
    home_m = home_cells(parameters, 6)
    x_m, y_m = trace.x_m.reshape(100, 50), trace.y_m.reshape(100, 50)
    for at_m, corner_m in ((x_m, home_m[:, 0]), (y_m, home_m[:, 1])):
        assert (at_m >= corner_m).all()
        assert (at_m <= corner_m + 400.0).all()
    assert len({tuple(corner) for corner in home_m.tolist()}) > 15  # of 25 cells


def test_a_community_is_at_home_as_often_as_its_chain_says():
    # Nearly no time on the way: what counts is where the pauses of 600 s are spent. Local legs are
    # .7 / (.2 + .7) = 7/9 of all, and of the roaming ones 1/25 end in the home cell, too: .7867.
    parameters = CommunityParameters(
        devices=200,
        steps=50,
        step_s=600.0,
        speed_min_m_s=1e5,
        speed_max_m_s=1e5,
        pause_min_s=600.0,
        pause_max_s=600.0,
        stay_local=0.8,
        stay_roaming=0.3,
    )
    trace, home_m = community(parameters, 6), home_cells(parameters, 6)
    x_m, y_m = trace.x_m.reshape(50, 200), trace.y_m.reshape(50, 200)
    at_home = (np.abs(x_m - home_m[:, 0] - 200) <= 200) & (np.abs(y_m - home_m[:, 1] - 200) <= 200)
    # 10,000 looks at a chain of correlation .8 + .3 - 1 = .1: worth 8,180; sd .0045, five of them.
    assert at_home.mean() == pytest.approx(7 / 9 + 2 / 9 / 25, abs=0.023)


def test_devices_change_their_edge_with_the_chance_given():
    parameters = EdgeHoppingParameters(devices=100, steps=401, aps=10, p=0.5)
    edges = hops(parameters, 42)
    moved = edges[1:] != edges[:-1]
    # 40,000 draws: mean 20,000, sd 100; five of them.
    assert abs(int(moved.sum()) - 20_000) <= 500
    # Each of the nine others is drawn equally often: of n moves n/9, sd sqrt(n * 8/81).
    shift = ((edges[1:] - edges[:-1]) % 10)[moved]
    counts = np.bincount(shift, minlength=10)
    n = int(moved.sum())
    assert counts[0] == 0
    assert np.abs(counts[1:] - n / 9).max() <= 5 * math.sqrt(n * 8 / 81)


def test_devices_may_move_among_few_edges():
    edges = hops(EdgeHoppingParameters(devices=200, steps=301, aps=10, p=0.5, places=2), 42)
    visited = [set(edges[:, device].tolist()) for device in range(200)]
    assert {len(places) for places in visited} == {2}
    assert edges[0].tolist() == [device // 20 for device in range(200)]
    others = np.array([(places - {first}).pop() for places, first in zip(visited, edges[0], strict=True)])
    # Each edge is the other one of 20 devices of 200: sd sqrt(200 * .09), five of them.
    assert np.abs(np.bincount(others, minlength=10) - 20).max() <= 5 * math.sqrt(200 * 0.09)
    for places in (1, 11):
        with pytest.raises(ConfigError, match=rf"places is {places}, expected 2 to 10 \(aps\), or 0 for all"):
            EdgeHoppingParameters(aps=10, places=places)


def test_devices_may_go_back_to_their_first_edge():
    edges = hops(EdgeHoppingParameters(devices=200, steps=301, aps=10, p=0.2, places=2, back=0.8), 42)
    away = edges != edges[0]
    # Of a chain that leaves at .2 and is back at .8, each step is one draw: away .2, sd sqrt(.16 / 60,000).
    assert away[1:].mean() == pytest.approx(0.2, abs=5 * math.sqrt(0.16 / 60_000))
    assert (away[:-1] & away[1:]).sum() == pytest.approx(0.2 * away[:-1].sum(), abs=5 * math.sqrt(1_920))
    among_all = hops(EdgeHoppingParameters(devices=50, steps=101, aps=10, p=0.5, back=1.0), 1)
    left = among_all[:-1] != among_all[0]
    assert (among_all[1:] == among_all[0])[left].all()  # from wherever it was
    with pytest.raises(ConfigError, match=r"back is 1\.5, expected 0 to 1"):
        EdgeHoppingParameters(back=1.5)


def test_each_device_may_have_a_chance_of_its_own():
    edges = hops(EdgeHoppingParameters(devices=3, steps=1001, aps=4, p=[0.0, 1.0, 0.1]), 1)
    moves = (edges[1:] != edges[:-1]).sum(axis=0)
    assert moves[0] == 0
    assert moves[1] == 1000
    assert abs(moves[2] - 100) <= 5 * math.sqrt(1000 * 0.1 * 0.9)  # sd 9.5
    assert edges[0].tolist() == [0, 1, 2]  # floor(d * 4 / 3)


def test_a_recorded_edge_is_the_nearest_one():
    trace = edge_hopping(EdgeHoppingParameters(devices=40, steps=20, aps=7, reach_m=400.0), 3)
    assert trace.ap is not None
    assert (NearestAp(trace).aps == trace.ap).all()
    recorded = RecordedAp(trace).distances_m
    assert 350 < recorded.max() <= 400.0 + 1e-6


def test_the_ring_walk_is_the_walk_that_macfl_associates_by():
    trace = ring_walk(RingWalkParameters(devices=30, steps=50, aps=6), 9)
    assert (RingWalkAp(trace, 9).aps == trace.ap).all()
    assert (RecordedAp(trace).distances_m == 0).all()
    # Six points on a circle of 5 km: neighbours are 5 km apart.
    assert math.dist((trace.ap_x_m[0], trace.ap_y_m[0]), (trace.ap_x_m[1], trace.ap_y_m[1])) == pytest.approx(
        5000
    )


def test_a_ring_walker_goes_to_a_neighbour_half_of_the_time():
    at = ring_steps(RingWalkParameters(devices=100, steps=401, aps=10), 42)
    shift = (at[1:] - at[:-1]) % 10
    counts = np.bincount(shift.ravel(), minlength=10)
    assert counts[2:9].sum() == 0
    # 40,000 draws: 20,000 stay (sd 100), 10,000 each way (sd sqrt(40,000 * 3/16) = 86.6); five of them.
    assert abs(counts[0] - 20_000) <= 500
    assert max(abs(counts[1] - 10_000), abs(counts[9] - 10_000)) <= 433
    assert at[0].tolist() == [device // 10 for device in range(100)]
    assert (ring_steps(RingWalkParameters(devices=5, steps=9, p=0.0), 1) == [0, 2, 4, 6, 8]).all()


def test_grid_walkers_reach_every_point_within_their_reach_equally_often():
    # From the middle of 3 x 3 with reach 1: itself and its four neighbours; from a corner: 3 points.
    parameters = GridWalkParameters(devices=40, mobile=40, grid=3, reach=1.0, steps=1001)
    points = grid_positions(parameters, 42)
    before, after = points[:-1].reshape(-1, 2), points[1:].reshape(-1, 2)
    assert np.abs(after - before).sum(axis=1).max() == 1  # never diagonal: that is 1.41 away
    for start, reached in (
        ((2, 2), [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2)]),
        ((1, 1), [(1, 1), (1, 2), (2, 1)]),
        ((3, 2), [(2, 2), (3, 1), (3, 2), (3, 3)]),
    ):
        rows = after[(before == start).all(axis=1)]
        found, counts = np.unique(rows, axis=0, return_counts=True)
        assert [tuple(point) for point in found.tolist()] == reached
        share = 1 / len(reached)
        assert np.abs(counts - len(rows) * share).max() <= 5 * math.sqrt(len(rows) * share * (1 - share))


def test_what_is_exactly_as_far_as_the_reach_is_within_it():
    points = grid_positions(GridWalkParameters(devices=50, mobile=50, grid=18, reach=5.0, steps=400), 1)
    apart = np.diff(points, axis=0)
    squared = (apart**2).sum(axis=2)
    assert squared.max() == 25
    assert ((np.abs(apart) == [3, 4]).all(axis=2)).any()


def test_static_clients_stand_still_and_no_reach_means_everywhere():
    points = grid_positions(GridWalkParameters(devices=6, mobile=2, grid=9, reach=0.0, steps=2000), 1)
    assert (points[:, 2:] == points[0, 2:]).all()
    assert len(np.unique(points[:, 0], axis=0)) == 81
    trace = grid_walk(GridWalkParameters(devices=6, mobile=0, grid=9, steps=5, spacing_m=2.0), 1)
    assert (trace.x_m.reshape(5, 6) == trace.x_m[:6]).all()
    assert set(trace.x_m.tolist()) <= {2.0 * point for point in range(9)}


def test_walls_mirror_what_is_left_of_the_way():
    sides = np.array([10.0, 10.0])
    # 8 + 5 = 13: 2 to the wall, 3 back; 1 - 4 = -3: mirrored at 0; into the corner and out of it again;
    # 9 + 27 = 36 = 2 * 10 + 16: at 10 and at 0 and at 10 once more, 4 from the west wall.
    ways = np.array([[13.0, 5.0], [5.0, -3.0], [12.0, 13.0], [36.0, 0.0], [10.0, 20.0]])
    assert folded(ways, sides).tolist() == [[7, 5], [5, 3], [8, 7], [4, 0], [10, 0]]


def test_the_reflected_walk_goes_along_one_axis_at_each_devices_own_speed():
    parameters = ReflectedWalkParameters(devices=48, fast_share=0.25, steps=201)
    trace = reflected_walk(parameters, 42)
    at_m = np.stack((trace.x_m.reshape(201, 48), trace.y_m.reshape(201, 48)), axis=2)
    way_m = np.abs(np.diff(at_m, axis=0))
    assert (way_m.min(axis=2) == 0).all()
    speeds = speeds_m(parameters, 42)
    assert parameters.fast == 12
    assert (speeds[:12] >= 40).all()
    assert (speeds[:12] <= 80).all()
    assert (speeds[12:] <= 10).all()
    assert speeds[:12].min() < 55 < 65 < speeds[:12].max()
    free = ((at_m[:-1] > 80) & (at_m[:-1] < 420)).all(axis=2)  # too far from all walls to reach one
    gone = way_m.sum(axis=2)
    assert np.allclose(gone[free], np.broadcast_to(speeds, gone.shape)[free])
    assert (gone <= speeds + 1e-9).all()
    assert (gone[~free] < np.broadcast_to(speeds, gone.shape)[~free] - 1).any()  # one did rebound
    assert 0 <= at_m.min() <= at_m.max() <= 500


def test_all_four_directions_are_drawn_equally_often():
    drawn = np.concatenate([headings(100, 7, step) for step in range(1, 201)])
    directions, counts = np.unique(drawn, axis=0, return_counts=True)
    assert directions.tolist() == [[-1, 0], [0, -1], [0, 1], [1, 0]]
    # 20,000 draws: 5,000 each, sd sqrt(20,000 * 3/16) = 61; five of them.
    assert np.abs(counts - 5000).max() <= 306


def test_all_impossible_parameters_of_a_walk_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        EdgeHoppingParameters(devices=3, aps=0, p=[0.5, 2.0], reach_m=600.0, presence=0.0)
    assert len(caught.value.problems) == 5
    with pytest.raises(ConfigError, match="no other to move to"):
        EdgeHoppingParameters(aps=1)
    with pytest.raises(ConfigError, match="speed_min_m_s 2 is more than speed_max_m_s 1"):
        CommunityParameters(speed_min_m_s=2.0, speed_max_m_s=1.0)
    with pytest.raises(ConfigError, match="needs stays of at least 9 steps"):
        RingWalkParameters(presence=0.9)
    with pytest.raises(ConfigError, match="mobile is 21"):
        GridWalkParameters(mobile=21)
