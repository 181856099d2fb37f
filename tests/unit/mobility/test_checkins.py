from __future__ import annotations

import bz2
import gzip
import io
import lzma

import pytest

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers import READERS
from roambench.mobility.readers.fixes import KEPT_MALFORMED, ReaderOptions
from roambench.mobility.readers.formats.checkins import read
from roambench.mobility.readers.opening import SourceOptions, read_files

NOON = 1_335_009_600  # 2012-04-21T12:00:00Z

TSMC = (
    "7\t4aaa\tcat1\tCaf\u00e9\t40.70\t-74.01\t-240\tSat Apr 21 12:00:09 +0000 2012\n"
    '8\t4bbb\tcat2\tBar "Z"\t40.71\t-74.02\t-240\tSat Apr 21 14:30:00 +0200 2012\n'
)
HEADERS = {
    "derived": "user_id,venue_id,lat,lon,utc_minute\n7,4aaa,40.70,-74.01,2012-04-21T12:00Z\n",
    "kaggle": (
        "userId,venueId,venueCategoryId,venueCategory,latitude,longitude,timezoneOffset,utcTimestamp\n"
        '7,4aaa,cat1,"Caf\u00e9, Bar",40.70,-74.01,-240,Sat Apr 21 12:00:00 +0000 2012\n'
    ),
    "getnext": (
        "user_id,POI_id,POI_catid,latitude,longitude,timezone,UTC_time,local_time\n"
        "7,4aaa,cat1,40.70,-74.01,-240,2012-04-21 12:00:00+00:00,2012-04-21 08:00:00+00:00\n"
    ),
    "semicolons": "device;time;lat;lon\n7;1335009600;40.70;-74.01\n",
}


def lines(text):
    return io.BytesIO(text.encode())


def test_a_tsmc2014_file_is_recognised_without_a_header():
    fixes = read(lines(TSMC), ReaderOptions("nyc.txt"))
    assert fixes.device_ids == ("7", "8")
    assert fixes.place_ids == ("4aaa", "4bbb")
    assert fixes.t_utc_s.tolist() == [NOON + 9, NOON + 1800]
    assert (fixes.latitude.tolist(), fixes.longitude.tolist()) == ([40.70, 40.71], [-74.01, -74.02])
    assert (fixes.rows, fixes.malformed) == (2, 0)


@pytest.mark.parametrize("name", HEADERS)
def test_usual_column_names_are_recognised(name):
    fixes = read(lines(HEADERS[name]), ReaderOptions(name))
    assert (fixes.device_ids, fixes.t_utc_s.tolist()) == (("7",), [NOON])
    assert (fixes.latitude[0], fixes.longitude[0]) == (40.70, -74.01)
    assert fixes.place_ids == (() if name == "semicolons" else ("4aaa",))
    assert fixes.malformed == 0


def test_a_column_map_names_unusual_columns_and_joins_date_and_hour():
    text = "phone\twhere_n\twhere_e\tspot\tutc_date\tutc_hour\np1\t30.2\t-97.7\tq\t2020-05-01\t3\n"
    columns = {
        "device": "phone",
        "lat": "where_n",
        "lon": "where_e",
        "place": "spot",
        "time": "utc_date+utc_hour",
    }
    fixes = read(lines(text), ReaderOptions("rvf.tsv", columns))
    assert fixes.t_utc_s.tolist() == [1_588_302_000]  # 2020-05-01T03Z
    assert (fixes.device_ids, fixes.place_ids) == (("p1",), ("q",))


def test_positions_read_a_file_without_a_header():
    text = "0\t2010-10-12T00:21:28Z\t40.64\t-73.78\t23261\n0\t2010-10-11T20:21:20Z\t40.74\t-73.98\t16907\n"
    columns = {"device": "0", "time": "1", "lat": "2", "lon": "3", "place": "4"}
    fixes = read(lines(text), ReaderOptions("gowalla.txt", columns))
    assert fixes.t_utc_s.tolist() == [1_286_842_888, 1_286_828_480]
    assert fixes.place_ids == ("23261", "16907")


def test_a_time_format_can_be_said():
    text = "device,time,lat,lon\n7,1335009600500,40.7,-74.0\n"
    assert read(lines(text), ReaderOptions("f", time_format="unix_ms")).t_utc_s.tolist() == [NOON]
    assert read(lines(text), ReaderOptions("f", time_format="iso")).malformed == 1


def test_malformed_rows_are_counted_and_the_first_five_kept_with_their_line():
    good = "7,1335009600,40.70,-74.01,p\n"
    bad = [
        "7,1335009600,40.70\n",
        ",1335009600,40.70,-74.01,p\n",
        "7,yesterday,40.70,-74.01,p\n",
        "7,1335009600,north,-74.01,p\n",
        "7,1335009600,91,-74.01,p\n",
        "7,1335009600,0,0,p\n",
        "7,1335009600,nan,-74.01,p\n",
        "7,9e99,40.70,-74.01,p\n",
        '7,1335009600,40.70,-74.01,"p\n',
    ]
    text = "device,time,lat,lon,place\n" + good + "\n" + "".join(bad) + good
    fixes = read(lines(text), ReaderOptions("f.csv"))
    assert (fixes.rows, fixes.malformed, fixes.duplicates) == (11, 8, 2)  # csv forgives the open quote
    assert len(fixes.malformed_rows) == KEPT_MALFORMED
    reasons = [str(row) for row in fixes.malformed_rows]
    assert reasons[0] == "f.csv:4: 3 columns, expected at least 5"
    assert reasons[1] == "f.csv:5: device is empty"
    assert "f.csv:6: 'yesterday'" in reasons[2]
    assert reasons[3] == "f.csv:7: lat 'north' is not a number"
    assert "f.csv:8: 91.0, -74.01" in reasons[4]


@pytest.mark.parametrize(
    "time",
    ["Sat Apr 31 12:00:09 +0000 2012", "Sat Abr 21 12:00:09 +0000 2012", "Sat Apr 21 12:00 +0000 2012", ""],
)
def test_a_time_that_is_none_makes_a_malformed_row(time):
    row = f"7\t4aaa\tcat1\tcafe\t40.70\t-74.01\t-240\t{time}\n"
    fixes = read(lines(row), ReaderOptions("f"))
    assert (fixes.rows, fixes.malformed) == (1, 1)


def test_columns_that_cannot_be_told_are_an_error_that_says_how_to_name_them():
    with pytest.raises(TraceError, match=r"f:1: cannot tell which column is device, time.*device=\.\.\."):
        read(lines("a,b,c\n"), ReaderOptions("f"))
    with pytest.raises(TraceError, match="no column 'who' for device; it has user_id"):
        read(lines(HEADERS["derived"]), ReaderOptions("f", {"device": "who"}))
    with pytest.raises(TraceError, match="empty"):
        read(lines(""), ReaderOptions("f"))
    with pytest.raises(ConfigError) as caught:
        read(lines(TSMC), ReaderOptions("f", {"devise": "x"}, time_format="roman"))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2"])
def test_compressed_files_are_opened_transparently_in_their_own_encoding(tmp_path, suffix):
    data = TSMC.encode("latin-1")
    packed = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}[suffix](data)
    path = tmp_path / f"nyc.txt{suffix}"
    path.write_bytes(packed)
    fixes, (source,) = read_files(READERS.load("checkins"), [path])
    assert (len(fixes.device), fixes.malformed) == (2, 0)
    assert (source.name, source.size_bytes, len(source.sha256)) == (path.name, len(packed), 64)


def test_several_files_share_their_devices_and_places(tmp_path):
    (tmp_path / "a.txt").write_text(TSMC)
    (tmp_path / "b.csv").write_text(HEADERS["derived"] + "9,,40.7,-74.0,2012-04-21T12:00Z\nbad\n")
    fixes, sources = read_files(READERS.load("checkins"), [tmp_path / "a.txt", tmp_path / "b.csv"])
    assert fixes.device_ids == ("7", "8", "9")
    assert fixes.device.tolist() == [0, 1, 0, 2]
    assert fixes.place.tolist() == [0, 1, 0, -1]
    assert (fixes.rows, fixes.malformed, len(sources)) == (5, 1, 2)


def test_a_damaged_or_missing_file_is_named(tmp_path):
    reader = READERS.load("checkins")
    with pytest.raises(TraceError, match=r"absent\.txt: cannot be read"):
        read_files(reader, [tmp_path / "absent.txt"])
    cut = tmp_path / "cut.xz"
    cut.write_bytes(lzma.compress(TSMC.encode() * 1000)[:-40])
    with pytest.raises(TraceError, match=r"cut\.xz: cannot be read"):
        read_files(reader, [cut])
    with pytest.raises(TraceError, match="no trace file given"):
        read_files(reader, [], SourceOptions())


def test_an_endless_line_costs_one_row(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(HEADERS["derived"] + "9" * 300_000 + "\n" + HEADERS["derived"].splitlines()[1] + "\n")
    fixes, _ = read_files(READERS.load("checkins"), [path])
    assert (fixes.rows, fixes.malformed) == (3, 1)
    assert fixes.malformed_rows[0].line == 3


def test_an_unknown_reader_lists_the_known_ones():
    known = "expected one of bonnmotion, cabspotting, checkins"
    with pytest.raises(ConfigError, match=f"unknown trace reader 'checkin': {known}"):
        READERS.load("checkin")
