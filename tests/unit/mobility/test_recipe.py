from __future__ import annotations

import lzma
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.association import NearestAp
from roambench.mobility.files import content_hash, write_trace
from roambench.mobility.importing import import_checkins, import_trace
from roambench.mobility.projection import Box
from roambench.mobility.readers.fixes import FixCollector, Fixes
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
        Recipe(steps=0, step_s=0, aps=0, devices=0, seed=-1, reduce="mode")  # type: ignore[arg-type]
    assert len(caught.value.problems) == 6


def test_the_same_file_gives_the_same_bytes_and_another_seed_other_aps(tmp_path):
    text = "device,time,lat,lon,place\n" + "".join(
        f"{device},{START + t_s},{40.0 + north_m * NORTH},-74.0,{place}\n"
        for device, t_s, north_m, place in ROWS
    )
    (tmp_path / "checkins.csv").write_text(text + "broken\n")
    made = import_checkins([tmp_path / "checkins.csv"], RECIPE)
    assert (made.rows, made.malformed, made.malformed_rows[0].line) == (9, 1, 10)
    assert made.trace.provenance["sources"][0]["name"] == "checkins.csv"
    write_trace(made.trace, tmp_path / "one.parquet")
    write_trace(import_trace("checkins", [tmp_path / "checkins.csv"], RECIPE).trace, tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    seeds = [
        tuple(import_checkins([tmp_path / "checkins.csv"], replace(RECIPE, seed=seed)).trace.ap_y_m)
        for seed in range(6)
    ]
    assert len(set(seeds)) > 1


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
    traces = [import_checkins([tmp_path / name], recipe).trace for name in ("derived.csv", "tsmc.txt")]
    assert len(traces[0].step) > 10_000
    assert content_hash(traces[0]) == content_hash(traces[1])
    rule = NearestAp(traces[0])
    assert rule.placement(500).aps.tolist() == rule.aps[traces[0].rows(500)].tolist()
