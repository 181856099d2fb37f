"""A trace's page and its figures, on a trace small enough to count by hand."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from page_data import page_data
from roambench.cli.main import main
from roambench.contract.errors import TraceError
from roambench.mobility.files import content_hash, write_trace
from roambench.mobility.outages import CUT, HOLES, QUIET, UNCOVERED
from roambench.mobility.statistics import trace_statistics
from roambench.mobility.trace import Trace
from roambench.mobility.walks import GENERATORS
from roambench.report.traces.figures import trace_figures
from roambench.report.traces.page import table5, target_tables, trace_page
from roambench.report.traces.pictures import BROWSERS, write_pictures

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def figures_of(trace: Trace):
    return {figure.key: figure for figure in trace_figures(trace, 42)}


@pytest.fixture
def two_days() -> Trace:
    """48 hours, devices 0 and 1. Device 0 at AP0 in hours 0 and 1, device 1 at AP1 in hours 1 and 30; the
    recorder fails from hour 5 to hour 8.
    """
    return Trace(
        steps=48,
        step_s=3600.0,
        device_names=("a<b>", "b"),
        step=np.array([0, 1, 1, 30], np.int32),
        device=np.array([0, 0, 1, 1], np.int32),
        x_m=np.array([0.0, 0.0, 2000.0, 2000.0]),
        y_m=np.array([0.0, 300.0, 1000.0, 1000.0]),
        ap_names=("AP<0>", "AP1"),
        ap_x_m=np.array([0.0, 2000.0]),
        ap_y_m=np.array([0.0, 1000.0]),
        place_x_m=np.array([0.0, 1000.0, 2000.0]),
        place_y_m=np.array([0.0, 500.0, 1000.0]),
        start_utc_s=1_588_291_200,
        provenance={"outages": [[5, 4]], "made_by": "<script>"},
    )


def test_availability_shades_outages_and_counts_who_is_there(two_days):
    figure = figures_of(two_days)["fig3"]
    (shade,) = figure.layout["shapes"]
    assert (shade["x0"], shade["x1"]) == ("2020-05-01 05:00:00", "2020-05-01 09:00:00")
    present, hierfavg = figure.data[0], figure.data[1]
    assert present["y"][:3] == [1, 2, 0]
    assert hierfavg["y"][:3] == [0, 1, 0]  # a's model of hour 0
    assert sum(hierfavg["y"]) == 1
    relative = [data["y"] for data in figure.data if data.get("yaxis") == "y2"]
    # Of the strip's levels of two hours only the first saw a model, which all of them aggregate.
    assert [line[:3] for line in relative] == [[1, None, None]] * 4
    assert relative[0].count(None) == len(relative[0]) - 1


def test_the_mean_day_is_drawn_with_and_without_the_outages(two_days):
    every, up = figures_of(replace(two_days, step=np.array([0, 1, 1, 29], np.int32)))["mean-day"].data
    assert every["y"][:6] == [0.5, 1, 0, 0, 0, 0.5]  # hour 29 is hour 5 of the second day
    assert up["y"][5] == 1


def test_access_points_are_as_large_as_they_are_busy(two_days):
    figures = figures_of(two_days)
    points = figures["trace-map"].data[-1]
    assert points["customdata"] == [2, 2]
    assert points["text"] == ["AP&lt;0&gt;", "AP1"]
    occupied, together, load = figures["ap-occupancy"].data
    # 46 steps - 1: empty; hours 0 and 30 occupy one, hour 1 two.
    assert occupied["y"] == [45, 2, 1]
    assert together["y"] == [4]
    assert load["y"] == [50, 50]


def test_heat_maps_count_every_fix_and_place(two_days):
    figures = figures_of(two_days)
    cells = np.array(figures["presence-map"].data[0]["customdata"])
    assert cells.sum() == 4
    assert cells[-1, -1] == 2  # device 1, in the north-east corner
    even, real = (np.array(figures["fig2"].data[panel]["customdata"]) for panel in (1, 3))
    assert (even.sum(), real.sum()) == (3, 3)
    assert real[17, 17] == 1


def test_distances_are_shown_in_kilometres_with_their_spread(two_days):
    nearest = figures_of(two_days)["ap-distance"].data[0]
    assert nearest["name"] == "nearest (MOHAWK): 0.07 ± 0.13 km"  # 0, 300, 0, 0 m: 75 ± 129.9
    assert (nearest["x"][0], nearest["x"][-1]) == (0, 0.3)


def test_steps_per_device_add_up_to_all_devices(two_days):
    bars, ranked = figures_of(two_days)["steps-per-device"].data
    assert sum(bars["y"]) == 2
    assert ranked["y"] == [2, 2]


def test_table_5_stands_beside_the_papers(two_days):
    rows = table5(trace_statistics(two_days)).rows
    assert rows[0][1:4] == ("2", "0.02 (15)", "0.02 (15)")  # 1 of 47 steps
    assert rows[3][4] == "0.07 ± 0.13 (0.91 ± 0.75)"
    mohawk, checkins = target_tables(trace_statistics(two_days))
    assert mohawk.rows[0] == ("time steps", "744", "48", "-93.5 %", "§4.1")
    assert checkins.rows[13][:3] == ("distance to nearest AP, median, m", "253 to 303", "0")


def test_the_page_shows_markup_of_names_and_loads_nothing(two_days):
    page = trace_page(
        "<b>t</b>", two_days, trace_statistics(two_days), trace_figures(two_days, 42), content_hash(two_days)
    )
    assert "<b>t</b>" not in page
    assert "<h1>&lt;b&gt;t&lt;/b&gt;</h1>" in page
    assert "made by &lt;script&gt;" in page
    assert "default-src 'none'" in page
    data = page_data(page)
    keys = [figure["key"] for figure in data["figures"]]
    assert keys == [
        *("fig2", "trace-map", "presence-map", "fig3", "mean-day", "steps-per-device"),
        *("ap-distance", "ap-occupancy"),
    ]
    for key in [*keys, "table5"]:
        assert (f'id="plot-{key}"' in page) == (key != "table5")


def test_a_trace_without_places_or_days_leaves_those_figures_out():
    trace = GENERATORS.load("edge-hopping").generate(1, {"devices": 5, "steps": 9, "aps": 2})
    bare = replace(trace, place_x_m=np.empty(0), place_y_m=np.empty(0))
    figures = figures_of(bare)
    assert {"fig2", "mean-day"} & set(figures) == set()
    assert "recorded access point" in figures["ap-occupancy"].caption
    assert figures["fig3"].data[0]["x"][:2] == [0, 0.016667]  # hours, of steps of 60 s


def test_long_traces_are_drawn_as_means_of_steps_together():
    trace = GENERATORS.load("edge-hopping").generate(1, {"devices": 2, "steps": 6001, "aps": 2})
    present = figures_of(trace)["fig3"].data[0]
    assert len(present["y"]) == 2001
    assert set(present["y"]) == {2.0}


def fake_browser(folder: Path, body: str) -> Path:
    program = folder / "fake-browser"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def test_pictures_are_what_the_browser_drew(two_days, tmp_path, monkeypatch):
    figures = trace_figures(two_days, 42)[:2]
    drawn = "".join(f'<img id="png-{figure.key}" src="data:image/png;base64,{PIXEL}">' for figure in figures)
    monkeypatch.setenv("ROAMBENCH_BROWSER", str(fake_browser(tmp_path, f"echo '{drawn}'")))
    files = write_pictures(figures, tmp_path)
    assert [file.name for file in files] == ["fig2.png", "trace-map.png"]
    assert all(file.read_bytes() == b"\x89PNG\r\n\x1a\n" for file in files)
    monkeypatch.setenv("ROAMBENCH_BROWSER", str(fake_browser(tmp_path, "echo '<html></html>'")))
    with pytest.raises(TraceError, match="did not draw fig2, trace-map"):
        write_pictures(figures, tmp_path)
    monkeypatch.setenv("ROAMBENCH_BROWSER", str(fake_browser(tmp_path, "echo no display >&2; exit 7")))
    with pytest.raises(TraceError, match="failed with exit code 7: no display"):
        write_pictures(figures, tmp_path)


def test_without_a_browser_png_says_what_to_install_before_any_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ROAMBENCH_BROWSER", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["trace", "plot", "no.parquet", "-o", str(tmp_path / "out"), "--png"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "PNG files need a Chromium-based browser, and none is installed" in told
    assert not (tmp_path / "out").exists()
    assert "chromium" in BROWSERS


def test_plot_and_stats_read_a_trace_file(two_days, tmp_path, capsys):
    found_hash = write_trace(two_days, tmp_path / "t.parquet")
    with pytest.raises(SystemExit) as ended:
        main(["trace", "plot", str(tmp_path / "t.parquet"), "-o", str(tmp_path / "new" / "out")])
    assert ended.value.code == 0
    page = (tmp_path / "new" / "out" / "trace.html").read_text(encoding="utf-8")
    assert f"content hash {found_hash}" in page
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["trace", "stats", str(tmp_path / "t.parquet"), "--json"])
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert document["content_hash"] == found_hash
    assert (document["statistics"]["outage_steps"], document["statistics"]["empty_steps"]) == (4, 45)
    assert document["targets"]["mohawk"][0]["this_trace"] == 48
    assert document["statistics"]["ap_change_rate"] == 0


def test_panels_have_one_size_and_stand_below_each_other_on_a_narrow_screen(two_days):
    for key, across, below in (("fig2", 4, 2), ("steps-per-device", 2, 1), ("ap-occupancy", 3, 1)):
        figure = figures_of(two_days)[key]
        assert figure.narrow is not None
        for layout, columns in ((figure.layout, across), (figure.narrow, below)):
            for axis in "xy":
                ends = [layout[name]["domain"] for name in layout if name.startswith(f"{axis}axis")]
                sizes = [high - low for low, high in ends]
                assert sizes == pytest.approx([sizes[0]] * across)
                assert len({round(low, 6) for low, _ in ends}) == (
                    columns if axis == "x" else -(-across // columns)
                )
            inside = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
            assert 100 < sizes[0] * inside < 300
    places = figures_of(two_days)["fig2"].layout
    assert len({tuple(places[f"xaxis{panel}"]["range"]) for panel in ("", 2, 3, 4)}) == 1


def test_the_strip_of_a_month_is_by_the_day(two_days):
    month = replace(two_days, steps=744, step=np.array([0, 1, 25, 26], np.int32))
    figure = figures_of(replace(month, device=np.array([0, 0, 1, 1], np.int32)))["fig3"]
    strips = [data for data in figure.data if data.get("yaxis") == "y2"]
    assert [len(data["y"]) for data in strips] == [32] * 4
    assert all(data["y"][:3] == [1, 1, None] for data in strips)
    assert strips[0]["x"][:2] == ["2020-05-01 00:00:00", "2020-05-02 00:00:00"]
    assert "day by day" in figure.caption


@pytest.mark.parametrize(
    ("holes", "told"), [(3, "The import took 3 empty steps for holes"), (0, "The import saw no hole in the")]
)
def test_the_page_says_of_outages_what_the_import_said(two_days, holes, told):
    counts = {"outage_steps": holes, "quiet_steps": 40 - holes, "steps_not_covered": 4}
    made = {"made_by": "import", "counts": counts, "derived": [{"busiest_devices": {"kept": 2, "of": 9}}]}
    recipe = {"presence": "event", "outage": "keep"}
    trace = replace(two_days, provenance={**made, "recipe": recipe})
    assert told in figures_of(trace)["fig3"].caption
    found = trace_statistics(trace)
    assert found.empty_steps == 45
    assert dict(found.empty_because) == {HOLES: holes, QUIET: 40 - holes, UNCOVERED: 4, CUT: 1}
    page = trace_page("t", trace, found, trace_figures(trace, 42), content_hash(trace))
    assert f"45 steps are empty ({f'{holes}: {HOLES}, ' if holes else ''}{40 - holes}: {QUIET}, 4:" in page
    windowed = {
        **made,
        "recipe": recipe,
        "derived": [*made["derived"], {"window": {"first": 0, "steps": 48}}],
    }
    part = replace(two_days, provenance=windowed)
    assert trace_statistics(part).empty_because is None
    assert "import" not in figures_of(part)["fig3"].caption
