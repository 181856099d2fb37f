"""Check-ins in files of millions of rows: parsed in blocks, thinned while read, and the trace as if not."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roambench.contract.draws import generator
from roambench.contract.errors import TraceError
from roambench.extras.traces import tist2015
from roambench.mobility.files import content_hash
from roambench.mobility.importing import ValueCounts, import_trace
from roambench.mobility.projection import Box, PlaneBox
from roambench.mobility.readers import READERS, collecting
from roambench.mobility.readers import rows as row_blocks
from roambench.mobility.readers.fixes import ReaderOptions
from roambench.mobility.readers.formats.snap import read as read_snap
from roambench.mobility.readers.opening import read_files
from roambench.mobility.readers.time_columns import TIME_FORMS
from roambench.mobility.recipe import Recipe, build_trace

ROWS = 240
ENDLESS = 128 << 10
BOX = Box.square(40.73, -73.99, 3000.0)


def visits(seed: int, moved: bool, twins: int) -> list[tuple[str, int, str, float, float]]:
    """(user, place, day and clock, latitude, longitude) with crowded hours, twins and places outside."""
    draw = generator(seed, "visits")
    at = np.array((40.73, -73.99)) + draw.normal(0.0, 0.012, (60, 2))
    found = []
    for _ in range(ROWS):
        place = int(draw.integers(0, 60))
        when = f"0{draw.integers(1, 4)} {draw.integers(0, 24):02d}:{draw.integers(0, 60):02d}:00"
        lat, lon = at[place] + (0.0001 * int(draw.integers(0, 3)) if moved else 0.0)
        found.append((f"u{draw.integers(0, 9)}", place, when, float(lat), float(lon)))
    return found + found[:twins]


def write_files(name: str, folder, seed: int, twins: int = 20) -> None:
    rows = visits(seed, moved=name != "tist2015", twins=twins)
    if name == "tist2015":
        places = {place: (lat, lon) for _, place, _, lat, lon in rows}
        pois = [f"v{place}\t{lat}\t{lon}\tMexican Café\tUS\n" for place, (lat, lon) in places.items()]
        found = [f"{user}\tv{place}\tTue Apr {at} +0000 2012\t240\n" for user, place, at, _, _ in rows]
        (folder / "pois.txt").write_text("".join(pois))
        (folder / "checkins.txt").write_text("".join(found) + "u1\tv404\tTue Apr 03 18:00:09 +0000 2012\t0\n")
    elif name == "snap":
        found = [
            f"{user}\t2012-04-{at.replace(' ', 'T')}Z\t{lat}\t{lon}\t{place}\n"
            for user, place, at, lat, lon in rows
        ]
        (folder / "snap.txt").write_text("".join(found) + "u1\tnever\t40.7\t-74.0\t7\n")
    else:
        scale, fields = (
            (1e4, "device,time,y,x,place") if name == "plane" else (1, "device,time,lat,lon,place")
        )
        found = [
            f"{user},2012-04-{at},{lat * scale},{lon * scale},{place if place % 4 else ''}\n"
            for user, place, at, lat, lon in rows
        ]
        (folder / "table.csv").write_text(f"{fields}\n" + "".join(found) + "odd\n")


@pytest.mark.parametrize("boxed", [True, False])
@pytest.mark.parametrize("name", ["tist2015", "snap", "csv", "plane"])
@settings(max_examples=3, deadline=None)
@given(
    seed=st.integers(0, 999),
    step_s=st.sampled_from([600, 3600, 7000]),
    at_once=st.sampled_from([40, 5000]),
    reduce=st.sampled_from(["first", "last", "mode"]),
)
def test_thinning_while_reading_changes_no_trace(
    name, boxed, reduce, seed, step_s, at_once, tmp_path_factory
):
    folder = tmp_path_factory.mktemp("visits")
    twins = 20 if boxed else 0  # far apart, they count twice for the median fix
    write_files(name, folder, seed, twins)
    reader = "csv" if name == "plane" else name
    box = PlaneBox(-740_020.0, 407_200.0, 200.0, 200.0) if name == "plane" else BOX
    recipe = Recipe(box=box if boxed else None, steps=24, step_s=step_s, aps=3, seed=seed, reduce=reduce)
    whole, _ = read_files(READERS.load(reader), [folder], step_s=step_s)
    assume(whole.duplicates == twins)  # by chance two visits are one
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collecting, "_BLOCK", at_once)
        patch.setattr(row_blocks, "BLOCK_BYTES", 50 * at_once)
        patch.setattr(tist2015, "_BLOCK_BYTES", 50 * at_once)
        thinned = import_trace(reader, [folder], recipe)
    assert content_hash(thinned.trace) == content_hash(build_trace(whole, recipe))
    assert (thinned.rows, thinned.malformed) == (whole.rows, whole.malformed) == (ROWS + twins + 1, 1)
    assert thinned.malformed_rows == whole.malformed_rows
    reading = thinned.trace.provenance["reading"]
    used = reading["used"]
    assert thinned.rows == used + thinned.malformed + reading["duplicates"] + sum(
        reading["left_out"].values()
    )
    assert thinned.rows == thinned.used + thinned.malformed + sum(thinned.left_out.values())
    assert thinned.used == len(thinned.trace.step)
    if boxed:
        assert thinned.trace.provenance["counts"]["outside_box"] > 0
        assert used < 0.9 * whole.used


def test_a_box_without_any_row_says_how_many_lie_outside(tmp_path):
    write_files("snap", tmp_path, 1)
    with pytest.raises(TraceError, match=r"none of \d{3} fixes lies in the box around 10\.0000, 10\.0000"):
        import_trace("snap", [tmp_path], Recipe(box=Box.square(10.0, 10.0, 1000.0)))


CHECKIN = "7\tv1\tTue Apr 03 18:00:09 +0000 2012\t240\n"
SNAP = "7\t2012-04-03T18:00:09Z\t40.7\t-74.0\tab12\n"
ODD_CHECKINS = [
    *("\n", "  \n", "junk\n", "\r", "7\tv404\tno time\t240\n"),
    "7\tv404\tTue Apr 03 18:00:09 +0000 2012\t240\n",
    " 7 \t v1 \tTue Apr 03 18:00:10 +0000 2012\t240\n",
    "7\tv1\tTue Apr 03 18:00:10 +0000 2012\n",
    "7\tv1\tTue Apr 03 18:00:10 -0430 2012\t240\r\n",
    "7\tv1\tTue Apr 31 18:00:10 +0000 2012\t240\n",
    "7\tv1\tWed Feb 29 18:00:10 +0000 2012\t240\n",
    "7\tv1\tTue Abr 03 18:00:10 +0000 2012\t240\n",
    "7\tv1\tTue Apr 03 24:00:10 +0000 2012\t240\n",
    "7\tv1\tTue Apr 03 18:60:10 +0000 2012\t240\n",
    "7\tv1\tTue Apr  3 18:00:10 +0000 2012\t240\n",
    "7\tv1\tTue Apr 03 18:00:10 +0000 0000\t240\n",
    "\tv1\tTue Apr 03 18:00:10 +0000 2012\t240\n",
    "7\t\tTue Apr 03 18:00:10 +0000 2012\t240\n",
    "\ufeff7\tv1\tTue Apr 03 18:00:10 +0000 2012\t240\n",
    "é\tv1\tTue Apr 03 18:00:10 +0000 2012\t240\n",
    f"{'7' * 300}\tv1\tTue Apr 03 18:00:10 +0000 2012\t240\n",
    f"7\tv1\tTue Apr 03 18:00:10 +0000 2012\t{'0' * 70_000}\n",
    "7\tv1\tTue Apr 03 18:00:10 +0000 2012\t240",
]
ODD_SNAPS = [
    *("\n", " \n", "junk\n", "\r", "7\t\t\t\t\n", "7\t2012-04-03T18:00:10Z\t0\t0\t1\n"),
    "7\t2012-04-03T18:00:10Z\t40.7\t-74.0\t\n",
    "7\t2012-04-03T18:00:10Z\t40,7\t-74.0\t1\n",
    "7\t2012-04-03T18:00:10Z\tnan\t-74.0\t1\n",
    "7\t2012-04-03T18:00:10Z\t0x1p3\t-74.0\t1\n",
    "7\t2012-04-03T18:00:10+02:00\t40.7\t-74.0\t1\n",
    "7\t2012-04-31T18:00:10Z\t40.7\t-74.0\t1\n",
    "7\t2012-13-03T18:00:10Z\t40.7\t-74.0\t1\n",
    "7\t2012-04-03T18:00:10Z\t40.7\t-74.0\tx y\n",
    "7\t2012-04-03T18:00:10Z\t40.7\t-74.0\t1\t1\n",
]


def said(fixes, rows):
    return rows(fixes), fixes.rows, fixes.malformed, fixes.duplicates, fixes.malformed_rows


@pytest.mark.parametrize("odd", ODD_CHECKINS)
def test_tist2015_at_once_and_text_by_text_are_the_same(odd, rows, monkeypatch, tmp_path, read):
    (tmp_path / "pois.txt").write_text("v1\t40.7\t-74.0\tBar\tUS\nv2\tnan\t1\tBar\tUS\n")
    (tmp_path / "checkins.txt").write_bytes((CHECKIN + CHECKIN.replace("7", "8", 1) + odd).encode())
    slow = said(read("tist2015", tmp_path), rows)
    monkeypatch.setattr(row_blocks, "_FEW", 1)
    assert said(read("tist2015", tmp_path), rows) == slow


@pytest.mark.parametrize("odd", ODD_SNAPS)
def test_snap_at_once_and_text_by_text_are_the_same(odd, rows, monkeypatch):
    data = (SNAP + SNAP.replace("7", "8", 1) + odd).encode()
    slow = said(read_snap(io.BytesIO(data), ReaderOptions("f")), rows)
    monkeypatch.setattr(row_blocks, "_FEW", 1)
    assert said(read_snap(io.BytesIO(data), ReaderOptions("f")), rows) == slow


def test_an_odd_row_costs_only_the_rows_around_it(monkeypatch):
    alone = []
    iso = TIME_FORMS["iso"].one
    monkeypatch.setitem(
        TIME_FORMS, "iso", TIME_FORMS["iso"]._replace(one=lambda text: alone.append(text) or iso(text))
    )
    lines = [SNAP.replace("7", str(user), 1) for user in range(20_000)]
    lines[12_345] = SNAP.replace("2012-04", "2012-13")
    fixes = read_snap(io.BytesIO("".join(lines).encode()), ReaderOptions("f"))
    assert (fixes.rows, fixes.malformed_rows[0].line) == (20_000, 12_346)
    assert 0 < len(alone) <= 8 * row_blocks._FEW
    assert list(fixes.device_ids) == [str(user) for user in range(20_000) if user != 12_345]


@pytest.mark.parametrize("place", ["first", "middle", "last", "alone"])
def test_a_line_longer_than_a_block_costs_that_line_alone(place):
    endless = "9" * (ENDLESS + 70_000) + "\n"
    others = [SNAP.replace("7", str(user), 1) for user in range(6000)]
    at = {"first": 0, "middle": 3000, "last": 6000, "alone": 0}[place]
    lines = [endless] if place == "alone" else [*others[:at], endless, *others[at:]]
    fixes = read_snap(io.BytesIO("".join(lines).encode()), ReaderOptions("f"))
    assert (fixes.used, fixes.malformed) == (0 if place == "alone" else 6000, 1)
    assert fixes.malformed_rows[0].line == at + 1


def test_an_endless_line_among_check_ins_and_their_venues_is_malformed(read, tmp_path):
    endless = "9" * (ENDLESS + 70_000) + "\n"
    (tmp_path / "pois.txt").write_text("v1\t40.7\t-74.0\tBar\tUS\n" + endless)
    (tmp_path / "checkins.txt").write_text(CHECKIN + endless + CHECKIN.replace("7", "8", 1))
    fixes = read("tist2015", tmp_path)
    assert (fixes.used, fixes.malformed) == (2, 2)


@given(st.lists(st.lists(st.floats(-90, 90), max_size=30), min_size=1, max_size=6))
def test_the_median_of_a_tally_is_numpys(parts):
    tally = ValueCounts()
    tally._limit = 5
    for part in parts:
        tally.add(np.array(part, np.float64))
    everything = np.concatenate([np.array(part, np.float64) for part in parts])
    if len(everything):
        assert tally.median() == np.median(everything)
    else:
        with pytest.raises(ValueError, match="nothing"):
            tally.median()
