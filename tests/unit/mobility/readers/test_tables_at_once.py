"""Tables give the same in blocks of any size, with columns parsed at once or text by text."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.contract.errors import TraceError
from roambench.mobility.readers import READERS
from roambench.mobility.readers import rows as row_blocks
from roambench.mobility.readers.fixes import Fixes
from roambench.mobility.readers.opening import SourceOptions, read_files
from roambench.mobility.readers.time_columns import TIME_FORMS
from roambench.mobility.readers.times import TIME_FORMATS

pytestmark = pytest.mark.lengthy

STAYS = [
    *("a,x,100,200", "b,y,150,4000", "a,y,200,3700", "a,x,3700,3700", "c,x,-5,5", "b,y,150,4000"),
    *("a,x,200,100", "a,x,0,99999999", "a,,1,2", ",x,1,2", "a,x,1", "a,x,1,2,3", " a ,x, 1,2", "a,z,1,2"),
    *(
        '"a","x","100","200"',
        'a,"x,y",1,2',
        'a,"x""y",1,2',
        'a,x"y,1,2',
        'a,"x"y,1,2',
        'a,"x,1,2',
        'a,"x",1,"2"\r',
    ),
    *("", "   ", 'a,"x",1,2', "a,x,1e2,200", "a,x,1_0,20", "a,x,100.9,200.1", "\u00e9,x,1,2", "a,x,1,2\r"),
    *(
        "a,x,2012-04-03 18:00:00,2012-04-03T19:00Z",
        "A" * 257 + ",x,1,2",
        "a,x,inf,2",
        "a,x,4e11,4e11",
        "off,x,1,2",
    ),
]
EVENTS = [
    *("100,a,x", "200,a,y", "150,b,x", "3000,a,OFF", "3000,a,x", "50,c,y", "100,a,x", "9000,c,off"),
    *("", "  ", "x,a,x", "100,,x", "100,a,", "100,a", "100,a,x,more", "60000000,b,y", "100,a, x", "100,a,z"),
]


def columns_of(fixes: Fixes) -> tuple[object, ...]:
    arrays = (fixes.device, fixes.place, fixes.t_utc_s, fixes.latitude, fixes.longitude)
    counts = (fixes.rows, fixes.used, fixes.malformed, fixes.duplicates, dict(fixes.left_out))
    reasons = [str(row) for row in fixes.malformed_rows]
    return (fixes.device_ids, fixes.place_ids, *(column.tolist() for column in arrays), *counts, reasons)


@pytest.mark.parametrize("positioned", [True, False])
@pytest.mark.parametrize(
    ("header", "samples"),
    [("device,ap,start,end", STAYS), ("time,device,ap", EVENTS)],
    ids=["stays", "events"],
)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_stays_are_the_same_in_any_blocks(header, samples, positioned, data, tmp_path_factory) -> None:
    clean = data.draw(st.integers(0, len(samples)))  # of the samples the first are sound
    rows = data.draw(st.lists(st.sampled_from(samples[: max(4, clean)]), min_size=1, max_size=40))
    folder = tmp_path_factory.mktemp("stays")
    (folder / "stays.csv").write_bytes("\n".join(["", header, *rows]).encode())
    if positioned:
        (folder / "aps.csv").write_text("ap,x,y\nx,1,2\ny,3,4\n")
    options = SourceOptions(utc_offset_h=data.draw(st.sampled_from([None, 1.5])))
    found = []
    for block, few in ((1 << 20, 1), (120, 1), (1 << 20, 1000)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_blocks, "BLOCK_BYTES", block)
            patch.setattr(row_blocks, "_FEW", few)
            fixes, _ = read_files(READERS.load("intervals"), [folder], options, step_s=600)
            found.append(columns_of(fixes))
    assert found[0] == found[1] == found[2]


FIXES = [
    *(
        "a,100,40.7,-74.0,p",
        "b,200,40.8,-74.1,",
        "a,100,40.7,-74.0,p",
        "c,-5,-33,151.2,q",
        "a,300.5,90,180,p",
    ),
    *('"a","1","2","3","p"', 'a,1,2,3,"p,q"', 'a,1,2,3,"p""q"', 'a,1,2,3,p"q', 'a,1,2,3,"p', 'a,"1",2,3,""'),
    *("", "   ", ",1,2,3,p", "a,,2,3,p", "a,1,0,0,p", "a,1,91,3,p", "a,1,nan,3,p", "a,1,2,3", "a,1,2,3,p,q"),
    *(
        " a ,1 ,2, 3,p ",
        'a,1,2,3,"p"',
        "a,1,+2,3,p",
        "a,1,2e1,3,p",
        "a,1_0,2,3,p",
        "\u00e9,1,2,3,p",
        "a,1,2,3,\u00e9",
    ),
    *(
        "a,2012-04-03T18:00Z,2,3,p",
        "a,9999999999999,2,3,p",
        "A" * 257 + ",1,2,3,p",
        "a,1,2,3," + "P" * 257,
        "a\0,1,2,3,p",
    ),
    *("a,1,2,3,p\r", "a,99999999,2,3,p", "a,100000000,2,3,p", "a,1,999999999999,3,p", "," * 4),
]


@pytest.mark.parametrize(
    "header", ["device,time,lat,lon,place", "device,time,y,x,place", "device,time,y,x,more", ""]
)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_fixes_are_the_same_in_any_blocks(header, data, tmp_path_factory) -> None:
    clean = data.draw(st.integers(0, len(FIXES)))  # the first ones are sound
    rows = data.draw(st.lists(st.sampled_from(FIXES[: max(5, clean)]), min_size=1, max_size=40))
    path = tmp_path_factory.mktemp("fixes") / "fixes.csv"
    path.write_bytes("\n".join(["", *([header] if header else []), *rows]).encode())
    columns = {} if header else {"device": "0", "time": "1", "lat": "2", "lon": "3", "place": "4"}
    found = []
    for block, few in ((1 << 20, 1), (120, 1), (1 << 20, 1000)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_blocks, "BLOCK_BYTES", block)
            patch.setattr(row_blocks, "_FEW", few)
            try:
                fixes, _ = read_files(READERS.load("csv"), [path], SourceOptions(columns=columns))
            except TraceError as error:  # nothing but empty lines
                found.append(str(error))
            else:
                found.append((fixes.plane, fixes.simulated, *columns_of(fixes)))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("device,time,lat,lon,place", "d{0},2012-04-03 18:00:{0:02d},40.7,-74.0,p{0}"),
        ("user_id;venue_id;lat;lon;utc_minute", "{0};{0};40.7;-74.0;2012-04-03T18:00Z"),
        ('"user","lat","lon","time","name"', '"u{0}",40.7,-74.0,"2012-04-03 18:00:00","A Bar, {0}"'),
        ("phone\tspot\tutc_date\tutc_hour\tlat\tlon", "p{0}\tq\t2020-05-01\t3\t40.7\t-74.0"),
    ],
)
def test_no_text_of_a_clean_table_of_fixes_is_read_alone(header, row, tmp_path, monkeypatch) -> None:
    path = tmp_path / "fixes.csv"
    path.write_text("\n".join([header, *(row.format(number) for number in range(50))]))
    monkeypatch.setattr(row_blocks, "_FEW", 10)
    monkeypatch.setattr(row_blocks, "number", lambda *_: pytest.fail("a number alone"))
    monkeypatch.setitem(TIME_FORMS, "auto", TIME_FORMS["auto"]._replace(one=lambda _: pytest.fail("a time")))
    phones = {"device": "phone", "time": "utc_date+utc_hour"} if "phone" in header else {}
    fixes, _ = read_files(READERS.load("csv"), [path], SourceOptions(columns=phones))
    assert (fixes.used, fixes.malformed) == (50, 0)


def test_no_text_of_a_clean_table_of_stays_is_read_alone(tmp_path, monkeypatch) -> None:
    path = tmp_path / "stays.csv"
    path.write_text("device,ap,start,end\n" + "".join(f"d{n},x,{n},{n + 5}\n" for n in range(50)))
    monkeypatch.setattr(row_blocks, "_FEW", 10)
    monkeypatch.setitem(TIME_FORMS, "auto", TIME_FORMS["auto"]._replace(one=lambda _: pytest.fail("a time")))
    fixes, _ = read_files(READERS.load("intervals"), [path], step_s=600)
    assert (fixes.used, fixes.malformed) == (50, 0)


TIMES = [
    *("2012-04-03T18:00Z", "2012-04-03 18:00", "2012-11-09 22:01:31+00:00", "2012-11-09 22:01:31.739-05:30"),
    *("2012-11-09 22:01:31.999999", "2012-02-29 00:00:00", "2012-02-30 00:00:00", "2012-11-09 22:01:60"),
    *("2012-11-09 24:00:00", "2012-11-09 7", "2012-11-09 23", "2012-11-09 24", "2012-11-09T07", "2012-11-09"),
    *("0000-01-01 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.500"),
    *(
        "0001-01-01 00:00:00+01:00",
        "2012-11-09 22:01:31+24:00",
        "2012-11-09 22:01:31.5",
        "2012-11-9 22:01:31",
    ),
    *(
        "0",
        "-1",
        "1334620800",
        "1334620800.5",
        "-0.5",
        "999999999999",
        "9999999999999",
        "12345678901234567",
        "1e3",
    ),
    *(
        "+5",
        "1_0",
        "nan",
        "inf",
        "0x10",
        "1334620800123",
        "1334620799999.9",
        "Tue Apr 03 18:00:09 +0000 2012",
    ),
    *(
        "Tue Apr 31 18:00:09 +0000 2012",
        "Tue Abr 03 18:00:09 +0000 2012",
        "Tue Apr 03 18:00:09 -0430 2012",
        "x",
    ),
]


@pytest.mark.parametrize("time_format", sorted(TIME_FORMATS))
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(st.sampled_from(TIMES), min_size=1, max_size=4))
def test_times_at_once_are_those_of_each_or_none(time_format, texts) -> None:
    try:
        found = TIME_FORMS[time_format].at_once(pa.array(texts)).tolist()
    except ValueError:
        return
    assert found == [TIME_FORMATS[time_format](text) for text in texts]


@pytest.mark.parametrize(
    ("time_format", "text"),
    [
        ("auto", "1334620800"),
        ("auto", "2012-04-03 18:00:09"),
        ("auto", "2012-04-03T18:00Z"),
        ("auto", "2012-04-03 18:00:09.250-04:00"),
        ("auto", "Tue Apr 03 18:00:09 +0000 2012"),
        ("iso", "2020-05-01 7"),
        ("unix", "-0.5"),
        ("unix_ms", "1334620800123"),
    ],
)
def test_usual_times_are_read_at_once(time_format: str, text: str) -> None:
    assert (
        TIME_FORMS[time_format].at_once(pa.array([text] * 3)).tolist()
        == [TIME_FORMATS[time_format](text)] * 3
    )
