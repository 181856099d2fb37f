"""Check-ins and tables: Foursquare's three sets, Gowalla, and any CSV."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError, TraceError

NOON = 1_335_009_600  # 2012-04-21T12:00:00Z
MAY_1_03 = 1_588_302_000  # 2020-05-01T03Z


def test_tsmc2014_is_latin_1_and_a_row_said_twice_counts_once(read, rows, account):
    fixes = read("tsmc2014", "tsmc2014.txt")
    assert rows(fixes) == [
        ("11", NOON + 9, 40.70, -74.01, "4aaa"),
        ("12", NOON + 1800, 40.71, -74.02, "4bbb"),
    ]
    assert account(fixes) == (4, 2, 1, 1, 0)
    assert str(fixes.malformed_rows[0]).endswith(
        "tsmc2014.txt:4: 'Sat Abr 21 14:30:00 +0200 2012' is not a time like 'Tue Apr 03 18:00:09 +0000 2012'"
    )


def test_a_decimal_comma_is_one_where_semicolons_separate(read, rows, account):
    fixes = read("csv", "decimal_comma.csv")
    assert rows(fixes) == [("a", NOON, 40.70, -74.01, ""), ("b", NOON, 40.71, -74.02, "")]
    assert account(fixes) == (3, 2, 1, 0, 0)


def test_date_and_hour_columns_make_one_time(read, rows, account):
    fixes = read("csv", "date_hour.tsv", columns={"time": "utc_date+utc_hour"})
    assert rows(fixes) == [("x1", MAY_1_03, 30.25, -97.75, "")]
    assert account(fixes) == (2, 1, 1, 0, 0)


def test_columns_x_and_y_are_metres_and_small_times_a_simulation(read, rows):
    fixes = read("csv", "plane.csv")
    assert rows(fixes) == [
        ("v0", 0, 20.25, 10.5, ""),
        ("v0", 60, 20.25, 70.5, ""),
        ("v1", 60, 0.0, 0.0, ""),
    ]
    assert (fixes.plane, fixes.simulated) == (True, True)


def test_rvf_visits_are_joined_with_their_places(read, rows, account):
    fixes = read("rvf", "rvf")
    assert rows(fixes) == [
        ("p9", MAY_1_03 + 3600, 30.26, -97.70, "v2"),
        ("p9", MAY_1_03, 30.25, -97.75, "v1"),
        ("p8", MAY_1_03, 30.25, -97.75, "v1"),
    ]
    assert account(fixes) == (6, 3, 3, 0, 0)
    reasons = [str(row).rpartition("/")[2] for row in fixes.malformed_rows]
    assert reasons == [
        "VISITS_ATX_Places_Lookup.tsv:4: geolat 'nan' is not a finite number",
        "VISITS_ATX_2020-05.tsv:5: place 'v404' is not in the lookup",
        "VISITS_ATX_2020-05.tsv:6: 3 columns, the header has 6",
    ]


def test_an_rvf_column_map_takes_local_times(read, rows):
    fixes = read("rvf", "rvf", columns={"time": "local_date+local_hour"})
    assert rows(fixes)[0][1] == MAY_1_03 + 3600 - 5 * 3600


def test_rvf_says_which_of_its_files_is_missing(read):
    with pytest.raises(TraceError, match="no lookup of places: a file with columns venueid, geolat, geolong"):
        read("rvf", "rvf/VISITS_ATX_2020-05.tsv")
    with pytest.raises(TraceError, match="no file with a column 'persistentid'"):
        read("rvf", "rvf/VISITS_ATX_Places_Lookup.tsv")
    with pytest.raises(ConfigError, match="columns: 'devize', expected one of device"):
        read("rvf", "rvf", columns={"devize": "persistentid"})


def test_tist2015_is_joined_whatever_the_order_of_its_files(read, rows, account):
    expected = [
        ("50", 1_333_476_006, 40.733596, -74.003139, "v1"),
        ("51", 1_333_476_007, -33.45, -70.66, "v2"),
    ]
    for names in (("tist2015",), ("tist2015/POIs.txt", "tist2015/Cities.txt", "tist2015/Checkins.txt")):
        fixes = read("tist2015", *names)
        assert rows(fixes) == expected
        assert account(fixes) == (3, 2, 1, 0, 0)
    assert "venue 'v9' is not among the POIs" in str(fixes.malformed_rows[0])
    with pytest.raises(TraceError, match=r"no file with TIST2015 pois"):
        read("tist2015", "tist2015/Checkins.txt")


def test_snap_is_newest_first_and_has_empty_cells(read, rows, account):
    fixes = read("snap", "gowalla.txt")
    assert rows(fixes) == [
        ("0", 1_286_842_888, 40.64, -73.78, "23261"),
        ("0", 1_286_828_480, 40.74, -73.98, "16907"),
        ("1", 1_287_280_133, 39.75, -104.99, "88c46bf20db295831bd2d1718ad7e6f5"),
    ]
    assert account(fixes) == (5, 3, 0, 0, 2)
    assert fixes.left_out == {"check-ins without a position": 2}


def test_a_zip_is_read_like_the_directory_in_it(read, rows, tmp_path):
    archive = shutil.make_archive(
        str(tmp_path / "rvf"), "zip", Path(__file__).parents[1] / "fixtures" / "rvf"
    )
    assert rows(read("rvf", archive)) == rows(read("rvf", "rvf"))
