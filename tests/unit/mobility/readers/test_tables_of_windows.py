"""Tables as Excel and Windows write them, and ids beside each other."""

from __future__ import annotations

from pathlib import Path

from roambench.mobility.readers import READERS
from roambench.mobility.readers.detecting import detect
from roambench.mobility.readers.documents import Head
from roambench.mobility.readers.opening import SourceOptions, read_files
from roambench.mobility.readers.proposing import propose


def test_a_table_without_a_header_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """The first row is of the same device as the second."""
    path = tmp_path / "a.csv"
    rows = ('"car7","2023-11-15T08:00:00Z","48.10","11.50"', '"car7","2023-11-15T09:00:00Z","48.11","11.51"')
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    columns = {"device": "0", "time": "1", "lat": "2", "lon": "3"}
    fixes, _ = read_files(READERS.load("csv"), [path], SourceOptions(columns=columns))
    assert (fixes.device_ids, fixes.rows, fixes.malformed) == (("car7",), 2, 0)


def test_excels_line_about_separators_is_no_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sep=;\ndevice;time;lat;lon\nd0;2023-05-01 08:00:00;48,1;11,5\nd0;01/05/2023;48,1;11,5\n")
    fixes, _ = read_files(READERS.load("csv"), [path])
    assert (fixes.used, [row.line for row in fixes.malformed_rows]) == (1, [4])
    assert "give its pattern: --time-format" in fixes.malformed_rows[0].reason
    assert detect([path])[0].reader == "csv"


def test_of_several_ids_the_one_that_comes_again_is_the_devices() -> None:
    lines = ["event-id,timestamp,location-long,location-lat,tag-local-identifier"]
    lines += [f"{row},2020-01-01 00:{row:02d}:00.000,9.0{row},47.7{row},t{row % 3}" for row in range(9)]
    proposal = propose(Head("a.csv", tuple(lines)))
    assert proposal is not None
    assert proposal.columns["device"] == "tag-local-identifier"
