"""No bytes crash a reader, and every row is accounted for, with anything in the file."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.readers import READERS
from roambench.mobility.readers.detecting import detect
from roambench.mobility.readers.opening import SourceOptions, read_files

pytestmark = pytest.mark.lengthy

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
SAMPLES = {
    "bonnmotion": [b"0.0 0.0 0.0 50.0 100.0 0.0 80.0 100.0 0.0 120.0 100.0 40.0"],
    "cabspotting": [(FIXTURES / "cabs/new_abboip.txt").read_bytes()],
    "checkins": [(FIXTURES / "tsmc2014.txt").read_bytes(), b"device,time,lat,lon\nd,5,40,-74\n"],
    "csv": [(FIXTURES / "decimal_comma.csv").read_bytes(), (FIXTURES / "plane.csv").read_bytes()],
    "dartmouth-movement": [b"1003868582\tAcadBldg10AP3\n1003870000\tOFF\n"],
    "dartmouth-syslog": [
        b"1003868582 AcadBldg10AP3 Station 0040965cc5ce Associated\n"
        b"1003870000 AcadBldg10AP3 Station 0040.965c.c5ce Disassociated\n"
    ],
    "geolife": [(FIXTURES / "geolife/Data/007/Trajectory/20081024234405.plt").read_bytes()],
    "haggle": [b"1 8 121 721 1 0\n8 1 1121 1721 2 400\n"],
    "intervals": [
        b"device,ap,start,end\na,1,2015-07-31 00:10:00,2015-07-31 00:40:00\n",
        (FIXTURES / "intervals_positioned/aps.csv").read_bytes(),
        (FIXTURES / "events.csv").read_bytes(),
    ],
    "ns2": [(FIXTURES / "one_ns2.txt").read_bytes(), (FIXTURES / "setdest.ns_movements").read_bytes()],
    "one-contacts": [(FIXTURES / "one_contacts.txt").read_bytes()],
    "one-movement": [(FIXTURES / "one_movement.txt").read_bytes()],
    "one-path": [(FIXTURES / f"one_path/{name}.txt").read_bytes() for name in ("paths", "activity")],
    "one-snapshot": [(FIXTURES / "one_snapshot.txt").read_bytes()],
    "rvf": [file.read_bytes() for file in sorted((FIXTURES / "rvf").iterdir())],
    "shanghai-telecom": [(FIXTURES / f"telecom_{name}.csv").read_bytes() for name in ("new", "old")],
    "snap": [(FIXTURES / "gowalla.txt").read_bytes()],
    "sumo-fcd": [(FIXTURES / "fcd.xml").read_bytes(), (FIXTURES / "fcd_geo.xml").read_bytes()],
    "tdrive": [(FIXTURES / "tdrive/1.txt").read_bytes()],
    "tist2015": [(FIXTURES / f"tist2015/{name}.txt").read_bytes() for name in ("Checkins", "POIs")],
    "tsmc2014": [(FIXTURES / "tsmc2014.txt").read_bytes()],
}
_PIECES = [
    *(b"\t", b",", b";", b" ", b"\n", b"\r\n", b"\r", b'"', b"\0", b"\xff", b"<", b"&a;", b"[", b"-"),
    *(b"nan", b"inf", b"1e300", b"-1e-320", b"99999999999999999999", b"0x1F", b"1_0", b"\xd9\xa3", b"up"),
    *(b"2012-04-21T12:00Z", b"Tue Apr 03 18:00:09 +0000 2012", b"0,0,0", b"1 2 3 4 5 6\n", b"\xef\xbb\xbf"),
]


def test_every_reader_of_ours_has_a_sample() -> None:
    assert set(SAMPLES) == {name for name in READERS.names() if READERS.is_ours(name)}


@st.composite
def damaged(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """A sample with some bytes cut out, put in or exchanged; or bytes of no sense at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        first = draw(st.integers(0, len(data)))
        last = draw(st.integers(first, min(len(data), first + 30)))
        data = data[:first] + draw(st.sampled_from([b"", *_PIECES])) + data[last:]
    return data


@pytest.mark.parametrize("name", sorted(SAMPLES))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_crash_a_reader_and_its_rows_add_up(name, tmp_path, data) -> None:
    assert_rows_add_up(name, tmp_path, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAMPLES))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_of_hundreds_of_damaged_files_none_crashes_a_reader(name, tmp_path, data) -> None:
    assert_rows_add_up(name, tmp_path, data)


def assert_rows_add_up(name: str, tmp_path: Path, data: st.DataObject) -> None:
    files = data.draw(st.lists(damaged(SAMPLES[name]), min_size=1, max_size=3))
    paths = []
    for number, content in enumerate(files):
        paths.append(tmp_path / f"file{number}.txt")
        paths[-1].write_bytes(content)
    try:
        fixes, _ = read_files(READERS.load(name), paths, SourceOptions(ap_hosts=("0", "1")), step_s=600)
    except (TraceError, ConfigError):
        return
    assert fixes.rows == fixes.used + fixes.malformed + fixes.duplicates + sum(fixes.left_out.values())
    assert len(fixes.malformed_rows) == min(5, fixes.malformed)
    lengths = {len(column) for column in (fixes.device, fixes.place, fixes.t_utc_s, fixes.latitude)}
    assert lengths == {len(fixes.longitude)}


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zip", ".xlsx"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=damaged([gzip.compress(b"device,time,lat,lon\nd,5,40,-74\n" * 20)]))
def test_no_bytes_crash_an_unpacking(suffix, tmp_path, content) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    reader = READERS.load("shanghai-telecom" if suffix == ".xlsx" else "csv")
    with pytest.raises(TraceError) if not content.startswith(b"\x1f\x8b\x08") else _either():
        read_files(reader, [path])


class _either:
    """Damaged in its middle, a packed file may still be whole: then it is read."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, TraceError)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=damaged([sample for samples in SAMPLES.values() for sample in samples]))
def test_no_bytes_crash_the_guessing(tmp_path, content) -> None:
    (tmp_path / "what").write_bytes(content)
    with suppress(TraceError):  # no format is recognised, or it is no text
        assert detect([tmp_path / "what"])[0].reader in SAMPLES


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("bonnmotion", "rwp.movements.gz"),
        ("cabspotting", "cabs/new_abboip.txt"),
        ("csv", "decimal_comma.csv"),
        ("csv", "plane.csv"),
        ("geolife", "geolife"),
        ("intervals", "intervals_positioned"),
        ("intervals", "events.csv"),
        ("ns2", "one_ns2.txt"),
        ("ns2", "setdest.ns_movements"),
        ("one-contacts", "one_contacts.txt"),
        ("one-movement", "one_movement.txt"),
        ("one-path", "one_path"),
        ("one-snapshot", "one_snapshot.txt"),
        ("rvf", "rvf"),
        ("shanghai-telecom", "telecom_new.csv"),
        ("shanghai-telecom", "telecom_old.csv"),
        ("snap", "gowalla.txt"),
        ("sumo-fcd", "fcd.xml"),
        ("sumo-fcd", "fcd_geo.xml"),
        ("tdrive", "tdrive"),
        ("tist2015", "tist2015"),
        ("tsmc2014", "tsmc2014.txt"),
    ],
)
def test_a_format_is_guessed_and_the_reason_told(name, path) -> None:
    guesses = detect([FIXTURES / path])
    assert guesses[0].reader == name
    assert guesses[0].reason
    assert str(FIXTURES / path) in guesses[0].path


@pytest.mark.parametrize("name", ["csv", "intervals"])
def test_a_header_that_is_no_csv_is_a_clear_error(name, tmp_path) -> None:
    (tmp_path / "f.csv").write_bytes(b'"device",ti\rme\n')
    with pytest.raises(TraceError, match=r"f\.csv:1: not CSV"):
        read_files(READERS.load(name), [tmp_path / "f.csv"])
