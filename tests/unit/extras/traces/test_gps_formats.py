"""Taxis and walkers: cabspotting, T-Drive, Geolife; and what thinning them may not change."""

from __future__ import annotations

import bz2
import io
import lzma
from dataclasses import replace

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.extras.traces.cabspotting import read as read_cab
from roambench.extras.traces.geolife import read as read_geolife
from roambench.extras.traces.tdrive import read as read_tdrive
from roambench.mobility.files import content_hash
from roambench.mobility.importing import import_trace
from roambench.mobility.projection import Box
from roambench.mobility.readers import rows as row_blocks
from roambench.mobility.readers.collecting import FixCollector
from roambench.mobility.readers.fixes import ReaderOptions
from roambench.mobility.recipe import Recipe, build_trace


def test_cabspotting_names_cabs_by_their_file_and_keeps_only_what_is_data(read, rows, account):
    fixes = read("cabspotting", "cabs")
    assert rows(fixes) == [
        ("abboip", 1_211_033_630, 37.75153, -122.39447, ""),
        ("abboip", 1_211_033_614, 37.75149, -122.39447, ""),
        ("abboip", 1_211_033_500, 50.3, -127.0, ""),
        ("ufbvea", 1_211_035_303, 37.75144, -122.39449, ""),
    ]
    assert account(fixes) == (7, 4, 2, 1, 0)
    assert [str(row).rpartition("/")[2] for row in fixes.malformed_rows] == [
        "new_ufbvea.txt:2: occupied is '2', expected 0 or 1",
        "new_ufbvea.txt:3: 3 columns, expected 4: latitude, longitude, occupied, time",
    ]


def test_tdrive_has_longitude_first_and_beijings_time(read, rows, account):
    fixes = read("tdrive", "tdrive")
    assert rows(fixes) == [
        ("1", 1_201_937_768, 39.92123, 116.51172, ""),  # 15:36:08 at UTC+8 is 07:36:08Z
        ("1", 1_201_938_368, 39.93883, 116.51135, ""),
        ("2", 1_201_930_432, 39.88781, 116.36422, ""),
    ]
    assert account(fixes) == (6, 3, 2, 1, 0)
    assert rows(read("tdrive", "tdrive", utc_offset_h=0.0))[0][1] == 1_201_937_768 + 8 * 3600


def test_geolife_names_users_by_their_folder_and_ends_lines_with_crlf(read, rows, account):
    fixes = read("geolife", "geolife")
    assert rows(fixes) == [
        ("007", 1_224_891_845, 40.013812, 116.306483, ""),
        ("007", 1_224_891_846, 40.013763, 116.306421, ""),
        ("008", 1_224_892_800, 39.9, 116.4, ""),
    ]
    assert account(fixes) == (4, 3, 1, 0, 0)
    assert fixes.malformed_rows[0].line == 9


LINES = {
    "cabspotting": (read_cab, b"37.75 -122.39 1 1211033630\n", b""),
    "tdrive": (read_tdrive, b"1,2008-02-02 15:36:08,116.5,39.9\n", b""),
    "geolife": (read_geolife, b"40.0,116.3,0,156,39745.98,2008-10-24,23:44:05\n", b"h\n" * 6),
}
DAMAGE = [
    b"",
    b"\n",
    b"  \n",
    b"junk\n",
    b"\xff\xfe\n",
    b"\r",
    b"37.75 -122.39 1 0x10\n",
    b"37.75 -122.39 1 +121103\n",
    b"37.75  -122.39 1 1211033630\n",
    b"nan -122.39 1 1211033630\n",
    b"0 0 1 1211033630\n",
    b"37.75 -122.39 1 99999999999999999\n",
    b"37.75 -122.39 1 -99999999999\n",
    b"1,2008-02-02,116.5,39.9\n",
    b"1,2008-02-02T15:36:08,116.5,39.9\n",
    b" 1,2008-02-02 15:36:08,116.5,39.9\n",
    b",2008-02-02 15:36:08,116.5,39.9\n",
    b'"1",2008-02-02 15:36:08,116.5,39.9\n',
    b"1,2008-02-02 15:36:08,116.5,39.9,7\n",
    b"40.0,116.3,0,156,39745.98,2008-10-24,23:44\n",
    b"40.0,116.3,0,156,39745.98,2008-10-24,24:00:00\n",
    b"40.0,116.3,0,156,39745.98,0000-10-24,23:44:05\n",
    b"37.75 -122.39 1 1211033630",
]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("damage", DAMAGE)
def test_columns_parsed_at_once_and_text_by_text_give_the_same(name, damage, rows, monkeypatch):
    reader, line, header = LINES[name]
    data = header + line + line.replace(b"1", b"2", 1) + damage
    monkeypatch.setattr(row_blocks, "_FEW", 1)
    quick = reader(io.BytesIO(data), ReaderOptions("f"))
    monkeypatch.setattr(row_blocks, "_FEW", 1000)
    slow = reader(io.BytesIO(data), ReaderOptions("f"))
    assert rows(quick) == rows(slow)
    assert (quick.rows, quick.malformed_rows) == (slow.rows, slow.malformed_rows)


def test_lines_are_numbered_across_blocks():
    line = b"37.75 -122.39 1 1211033630\n"
    count = 2 * row_blocks.BLOCK_BYTES // len(line)
    fixes = read_cab(io.BytesIO(line * count + b"broken\n"), ReaderOptions("f"))
    assert (fixes.rows, fixes.malformed_rows[0].line) == (count + 1, count + 1)


def random_walks(folder, cabs: int = 3, fixes: int = 400) -> None:
    draw = generator(5, "cabs")
    for cab in range(cabs):
        at = np.cumsum(draw.normal(0, 0.002, (fixes, 2)), axis=0) + np.array((37.77, -122.42))
        times = 1_211_000_000 + np.sort(draw.integers(0, 20 * 3600, fixes))[::-1]
        text = "".join(f"{lat:.5f} {lon:.5f} 0 {t}\n" for (lat, lon), t in zip(at, times, strict=True))
        (folder / f"new_cab{cab}.txt").write_text(text)


@pytest.mark.parametrize("reduce", ["first", "last"])
@pytest.mark.parametrize("box", [Box.square(37.77, -122.42, 4000.0), None])
def test_thinning_while_reading_changes_nothing(tmp_path, reduce, box, monkeypatch):
    random_walks(tmp_path)
    recipe = Recipe(box=box, steps=24, aps=3, seed=1, reduce=reduce)
    thinned = import_trace("cabspotting", [tmp_path], recipe).trace
    reading = thinned.provenance["reading"]
    assert reading["left_out"]["more fixes of a step"] > 200
    parts = [
        read_cab(io.BytesIO(file.read_bytes()), ReaderOptions(str(file)))
        for file in sorted(tmp_path.iterdir())
    ]
    collector = FixCollector("all")
    for part in parts:
        for t_s, lat, lon in zip(part.t_utc_s, part.latitude, part.longitude, strict=True):
            collector.add(part.device_ids[0], int(t_s), float(lat), float(lon), "")
    whole = build_trace(collector.fixes(), recipe)
    assert content_hash(thinned) == content_hash(whole)


@pytest.mark.parametrize(("suffix", "pack"), [(".xz", lzma.compress), (".bz2", bz2.compress)])
def test_packed_files_of_a_directory_are_read_too(tmp_path, suffix, pack, rows, read):
    (tmp_path / f"new_a.txt{suffix}").write_bytes(pack(b"37.75 -122.39 1 1211033630\n"))
    assert rows(read("cabspotting", tmp_path)) == [("a", 1_211_033_630, 37.75, -122.39, "")]


def test_a_box_given_by_name_is_that_of_the_recipe_alone(tmp_path):
    random_walks(tmp_path, cabs=1, fixes=50)
    recipe = Recipe(box=Box.square(37.77, -122.42, 4000.0), steps=24, aps=1)
    found = import_trace("cabspotting", [tmp_path], recipe)
    smaller = import_trace("cabspotting", [tmp_path], replace(recipe, box=Box.square(37.77, -122.42, 500.0)))
    assert smaller.left_out["outside the box"] > found.left_out.get("outside the box", 0)
