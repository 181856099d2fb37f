from __future__ import annotations

import lzma
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.association import NearestAp
from roambench.mobility.files import content_hash, write_trace
from roambench.mobility.importing import import_trace
from roambench.mobility.projection import Box
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.fixes import Fixes, Stations
from roambench.mobility.recipe import Recipe, build_trace

BOX = Box.square(40.0, -74.0, 2000.0)
NORTH = 1 / 111_035  # degrees of latitude per metre at 40 N: M(40) = 6,361,816 m
START = 1_335_009_600
RECIPE = Recipe(box=BOX, start_utc_s=START, steps=3, devices=None, aps=2, seed=1)


def fixes_of(rows) -> Fixes:
    """Rows of (device, seconds after START, metres north of the centre, place)."""
    collector = FixCollector("test")
    for device, t_s, north_m, place in rows:
        collector.add(device, START + t_s, 40.0 + north_m * NORTH, -74.0, place)
    return collector.fixes()


ROWS = [
    ("ann", 10, 100.0, "p1"),
    ("ann", 5, 200.0, "p2"),  # earlier in the same step
    ("bob", 3600, 300.0, "p3"),
    ("ann", 3601, 100.0, "p1"),
    ("cat", 7300, -500.0, "p4"),
    ("cat", 20, 5000.0, "far"),  # outside the box
    ("bob", 10800, 300.0, "p3"),  # after the window
    ("bob", -1, 400.0, "p5"),  # before it, but in the box: p5 is a candidate
]


def test_fixes_become_steps_devices_and_metres():
    trace = build_trace(fixes_of(ROWS), RECIPE)
    assert trace.device_names == ("ann", "bob", "cat")  # 2, 1, 1 steps; bob first seen before cat
    assert list(zip(trace.step.tolist(), trace.device.tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (1, 1),
        (2, 2),
    ]
    assert trace.y_m.tolist() == pytest.approx([1200, 1100, 1300, 500], abs=0.1)  # ann's first fix is p2
    assert trace.x_m.tolist() == pytest.approx([1000] * 4)
    assert (trace.start_utc_s, trace.step_s) == (START, 3600.0)
    assert trace.provenance["counts"] == {
        "rows": 8,
        "malformed": 0,
        "outside_box": 1,
        "outside_window": 2,
        "same_device_and_step": 1,
        "places": 5,
        "devices_before_cut": 3,
        "empty_runs": 0,
        "outage_steps": 0,
        "quiet_steps": 0,
        "of_devices_cut": 0,
        "steps_not_covered": 0,
    }


def test_the_last_fix_of_a_step_counts_where_asked():
    assert build_trace(fixes_of(ROWS), replace(RECIPE, reduce="last")).y_m[0] == pytest.approx(1100, abs=0.1)


def test_of_two_fixes_at_the_same_second_the_first_place_by_name_wins():
    twice = fixes_of([("ann", 5, 0.0, "z"), ("ann", 5, 300.0, "b"), ("bob", 5, 0.0, "z")])
    assert build_trace(twice, RECIPE).y_m.tolist() == pytest.approx([1300, 1000], abs=0.1)


def test_only_the_busiest_devices_are_kept_and_the_rest_counted():
    trace = build_trace(fixes_of(ROWS), replace(RECIPE, devices=2))
    assert trace.device_names == ("ann", "bob")
    assert trace.provenance["counts"]["devices_before_cut"] == 3
    assert len(build_trace(fixes_of(ROWS), replace(RECIPE, devices=50)).device_names) == 3


def test_aps_are_drawn_from_every_place_in_the_box_sorted_by_id():
    trace = build_trace(fixes_of(ROWS), RECIPE)
    assert trace.place_y_m.tolist() == pytest.approx([1100, 1200, 1300, 500, 1400], abs=0.1)  # p1 .. p5
    drawn = sorted(np.random.Generator(np.random.PCG64(1)).choice(5, 2, replace=False).tolist())
    assert trace.ap_y_m.tolist() == trace.place_y_m[drawn].tolist()
    with pytest.raises(TraceError, match="6 access points from 5 places"):
        build_trace(fixes_of(ROWS), replace(RECIPE, aps=6))


def test_without_places_the_visited_cells_are_the_candidates():
    trace = build_trace(fixes_of([(device, t_s, y, "") for device, t_s, y, _ in ROWS]), RECIPE)
    # y of 1100, 1200 | 1300, 1400 | 500 lie in the 250 m cells 4 | 5 | 2
    assert trace.place_y_m.tolist() == [625, 1125, 1375]
    assert trace.place_x_m.tolist() == [1125] * 3


def test_the_order_of_the_rows_changes_nothing():
    draw = generator(2, "rows")
    hours, spots = draw.integers(0, 6, 400) * 1800, draw.integers(-9, 9, 400)
    rows = [
        (f"dev{draw.integers(0, 12)}", int(t_s), 100.0 * int(spot), f"p{spot}")
        for t_s, spot in zip(hours, spots, strict=True)
    ]
    for reduce in ("first", "last"):
        recipe = replace(RECIPE, reduce=reduce)
        expected = build_trace(fixes_of(rows), recipe)
        for _ in range(5):
            shuffled = build_trace(fixes_of([rows[at] for at in draw.permutation(len(rows))]), recipe)
            assert content_hash(shuffled) == content_hash(expected)
            assert shuffled.provenance == expected.provenance


def test_without_a_start_the_densest_midnight_opens_the_window():
    day = 86_400
    rows = [("ann", 0, 0.0, "p1"), *(("bob", 3 * day + 3600 * hour, 10.0, "p2") for hour in range(3))]
    trace = build_trace(fixes_of(rows), replace(RECIPE, start_utc_s=None, steps=24))
    assert trace.start_utc_s == (START // day + 3) * day
    assert len(trace.step) == 3


def test_without_a_box_the_median_fix_is_its_middle():
    trace = build_trace(fixes_of(ROWS), replace(RECIPE, box=None))
    box = trace.provenance["recipe"]["box"]
    assert box["width_m"] == 17_500
    assert box["latitude"] == pytest.approx(40.0 + 250 * NORTH, abs=1e-6)  # of 200 and 300
    assert box["longitude"] == -74.0


@pytest.mark.parametrize(
    ("rows", "recipe", "message"),
    [
        ([], RECIPE, "no readable fix"),
        (ROWS, replace(RECIPE, box=Box.square(10.0, 10.0)), "none of 8 fixes lies in the box around 10.0000"),
        (ROWS, replace(RECIPE, start_utc_s=0), "none of the 7 fixes in the box lies in the window"),
    ],
)
def test_a_recipe_that_leaves_nothing_says_at_which_stage(rows, recipe, message):
    with pytest.raises(TraceError, match=message):
        build_trace(fixes_of(rows), recipe)


def test_all_impossible_settings_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        Recipe(  # type: ignore[arg-type]
            **dict.fromkeys(("steps", "step_s", "aps", "devices"), 0),
            **dict.fromkeys(("reduce", "presence", "outage", "metric", "ap_draw", "ap_source"), "x"),
            seed=-1,
        )
    assert len(caught.value.problems) == 11
    assert "outage is 'x', expected one of keep, drop, mark" in caught.value.problems


def test_the_same_file_gives_the_same_bytes_and_another_seed_other_aps(tmp_path):
    text = "device,time,lat,lon,place\n" + "".join(
        f"{device},{START + t_s},{40.0 + north_m * NORTH},-74.0,{place}\n"
        for device, t_s, north_m, place in ROWS
    )
    (tmp_path / "checkins.csv").write_text(text + "broken\n")
    made = import_trace("checkins", [tmp_path / "checkins.csv"], RECIPE)
    assert (made.rows, made.malformed, made.malformed_rows[0].line) == (9, 1, 10)
    assert made.trace.provenance["sources"][0]["name"] == "checkins.csv"
    write_trace(made.trace, tmp_path / "one.parquet")
    write_trace(import_trace("checkins", [tmp_path / "checkins.csv"], RECIPE).trace, tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    seeds = [
        tuple(import_trace("checkins", [tmp_path / "checkins.csv"], replace(RECIPE, seed=seed)).trace.ap_y_m)
        for seed in range(6)
    ]
    assert len(set(seeds)) > 1


def test_the_place_with_most_fixes_counts_and_of_equals_the_earlier_one():
    often = [("ann", 1, 0.0, "a"), ("ann", 2, 300.0, "b"), ("ann", 3, 300.0, "b"), ("bob", 9, 0.0, "a")]
    often += [("bob", 10, 300.0, "b")]
    recipe = replace(RECIPE, reduce="mode", aps=1)
    assert build_trace(fixes_of(often), recipe).y_m.tolist() == pytest.approx([1300, 1000], abs=0.1)
    # without places: the 250 m cell with most fixes, and its first fix (1010 of 1010, 1110 | 1300)
    cells = [("ann", 1, 300.0, ""), ("ann", 2, 10.0, ""), ("ann", 3, 110.0, "")]
    assert build_trace(fixes_of(cells), recipe).y_m.tolist() == pytest.approx([1010], abs=0.1)
    again = build_trace(fixes_of(cells[::-1]), recipe)
    assert content_hash(again) == content_hash(build_trace(fixes_of(cells), recipe))


def test_devices_are_ranked_by_what_was_seen_not_by_what_is_held():
    rows = [("ann", 0, 0.0, "p"), ("bob", 3600, 0.0, "p"), ("bob", 7200, 0.0, "p")]
    held = build_trace(fixes_of(rows), replace(RECIPE, presence="hold:2", aps=1))
    assert held.device_names == ("bob", "ann")  # 2 hours seen against 1, 2 held against 3
    assert [len(held.present(step)) for step in range(3)] == [1, 2, 2]
    assert held.provenance["recipe"]["presence"] == "hold:2"


def test_holes_are_counted_and_dropped_or_marked_before_devices_are_cut():
    # Every hour of two days has five devices, but the second day's 1 (only bob) and 2 and 3 (none).
    there = [hour for hour in range(48) if hour not in (25, 26, 27)]
    rows = [(name, 3600 * hour, 0.0, "p") for hour in there for name in ("ann", "cat", "dan", "eve", "fay")]
    rows.append(("bob", 3600 * 25, 0.0, "p"))
    recipe = replace(RECIPE, steps=50, aps=1, devices=1)
    kept = build_trace(fixes_of(rows), recipe)
    counts = kept.provenance["counts"]
    assert (counts["outage_steps"], counts["quiet_steps"], counts["steps_not_covered"]) == (2, 0, 2)
    assert counts["of_devices_cut"] == 4 * len(there) + 1
    assert [len(kept.present(step)) for step in range(24, 30)] == [1, 0, 0, 0, 1, 1]
    dropped = build_trace(fixes_of(rows), replace(recipe, outage="drop"))
    assert dropped.steps == 48
    assert [len(dropped.present(step)) for step in range(24, 28)] == [1, 0, 1, 1]
    assert build_trace(fixes_of(rows), replace(recipe, outage="mark")).provenance["outages"] == [[26, 2]]
    drawn = build_trace(replace(fixes_of(rows), simulated=True), recipe)  # a simulation has no holes
    assert (drawn.provenance["counts"]["outage_steps"], drawn.provenance["counts"]["quiet_steps"]) == (0, 2)


def test_check_ins_have_no_intervals_and_intervals_say_so():
    with pytest.raises(TraceError, match="presence interval: the source says when devices were seen"):
        build_trace(fixes_of(ROWS), replace(RECIPE, presence="interval"))
    stays = replace(fixes_of(ROWS), intervals=True)
    for presence in ("event", "interval"):
        trace = build_trace(stays, replace(RECIPE, presence=presence))
        assert trace.provenance["recipe"]["presence"] == "interval"


def test_in_degrees_another_ap_may_be_nearest():
    # At 40 N a degree of longitude is 0.768 of one of latitude: 0.010 deg east (854 m) is nearer than 0.009
    # deg north (999 m), but not in degrees.
    collector = FixCollector("test")
    for device, north, east, place in (
        ("ann", 0, 0, "here"),
        ("b", 0, 0.01, "east"),
        ("c", 0.009, 0, "north"),
    ):
        collector.add(device, START, 40.0 + north, -74.0 + east, place)
    sites = Stations(("east", "north"), np.array([40.0, 40.009]), np.array([-73.99, -74.0]))
    fixes = replace(collector.fixes(), stations=sites)
    recipe = replace(RECIPE, box=Box.square(40.0, -74.0, 4000.0))
    metres, degrees = (build_trace(fixes, replace(recipe, metric=metric)) for metric in ("metres", "degrees"))
    assert [trace.ap_names[NearestAp(trace).aps[0]] for trace in (metres, degrees)] == ["east", "north"]
    assert NearestAp(metres).distances_m[0] == pytest.approx(854, abs=1)
    assert NearestAp(degrees).distances_m[0] == pytest.approx(0.009 / 0.00089977 * 100)  # 1000.26 "m"
    assert metres.device_names == degrees.device_names
    assert degrees.x_m.min() >= 0.0


def test_degrees_need_positions_in_degrees_that_are_places():
    bare = fixes_of([("ann", 5, 0.0, ""), ("bob", 5, 100.0, "")])
    with pytest.raises(TraceError, match="metric degrees: the source has no places"):
        build_trace(bare, replace(RECIPE, metric="degrees"))
    plane = FixCollector("test", plane=True, simulated=True)
    plane.add("ann", 5, 1.0, 2.0, "")
    with pytest.raises(TraceError, match="metric degrees: the source is in metres"):
        build_trace(plane.fixes(), Recipe(metric="degrees", aps=1))


def test_listed_places_are_candidates_though_nobody_came_and_mohawk_draws_them_as_listed():
    listed = Stations(
        ("p9", "p2", "p7", "far"), 40.0 + NORTH * np.array([900, 200, 700, 5000]), np.full(4, -74.0)
    )
    fixes = replace(fixes_of(ROWS), listed=listed)
    by_id = build_trace(fixes, RECIPE)
    assert by_id.place_y_m.tolist() == pytest.approx(
        [1200, 1700, 1900], abs=0.1
    )  # p2 p7 p9; far lies outside
    theirs = build_trace(fixes, replace(RECIPE, ap_draw="mohawk", seed=182))
    assert theirs.place_y_m.tolist() == pytest.approx([1900, 1200, 1700], abs=0.1)
    # numpy.random.seed(182); pandas.DataFrame(range(3)).sample(n=2).index is [2, 0]
    assert theirs.ap_y_m.tolist() == pytest.approx([1700, 1900], abs=0.1)


def test_a_tsmc2014_file_gives_the_same_trace_as_its_derived_csv(nyc_checkins, tmp_path):
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    recipe = Recipe(box=Box.square(40.7350, -73.9900), devices=1000)
    with lzma.open(nyc_checkins, "rt") as file:
        head, *rows = [line.rstrip("\n") for _, line in zip(range(40_001), file, strict=False)]
    (tmp_path / "derived.csv").write_text("\n".join([head, *rows]))
    with (tmp_path / "tsmc.txt").open("w", encoding="latin-1") as file:
        for row in rows:
            user, venue, lat, lon, time = row.split(",")
            date, clock = time.rstrip("Z").split("T")
            year, month, day = date.split("-")
            moment = f"Day {months[int(month) - 1]} {day} {clock}:00 +0000 {year}"
            file.write(f"{user}\t{venue}\tcat\tCaf\xe9\t{lat}\t{lon}\t-240\t{moment}\n")
    traces = [
        import_trace("checkins", [tmp_path / name], recipe).trace for name in ("derived.csv", "tsmc.txt")
    ]
    assert len(traces[0].step) > 10_000
    assert content_hash(traces[0]) == content_hash(traces[1])
    rule = NearestAp(traces[0])
    assert rule.placement(500).aps.tolist() == rule.aps[traces[0].rows(500)].tolist()
