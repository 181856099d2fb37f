"""A journal's entries as journalctl prints them (`--output json`), and as a board taken over might."""

from __future__ import annotations

import json

import pytest

from roambench.provision.journal_lines import JournalLine, _read

#: Printed by journalctl 252 for `logger -p user.warning`, for binary output, and for a message of two lines.
_ENTRIES = [
    '{"__CURSOR":"s=1;i=2","__REALTIME_TIMESTAMP":"1732393845123456","__MONOTONIC_TIMESTAMP":"5","_BOOT_ID":"b",'
    '"PRIORITY":"4","MESSAGE":"hello"}',
    '{"__REALTIME_TIMESTAMP":"1732393846000000","PRIORITY":"6","MESSAGE":[104,195,164,255,27]}',
    '{"__REALTIME_TIMESTAMP":"1732393847999999","MESSAGE":"one\\ntwo"}',
]


def read(entry: str) -> list[JournalLine]:
    return _read("pi-1", entry.encode())


def test_an_entry_is_its_lines_with_their_time_in_utc() -> None:
    assert [one.to_text() for entry in _ENTRIES for one in read(entry)] == [
        "2024-11-23T20:30:45.123Z pi-1: hello",
        "2024-11-23T20:30:46.000Z pi-1: hä�?",
        "2024-11-23T20:30:47.999Z pi-1: one",
        "2024-11-23T20:30:47.999Z pi-1: two",
    ]
    (first,) = read(_ENTRIES[0])
    assert json.loads(first.to_json()) == {
        "at": "2024-11-23T20:30:45.123Z", "host": "pi-1", "line": "hello", "level": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    "entry",
    [
        "-- No entries --",
        "[" * 100_000,
        "5",
        '{"__REALTIME_TIMESTAMP":"9e99","MESSAGE":"x"}',
        '{"__REALTIME_TIMESTAMP":"99999999999999999999","MESSAGE":"x"}',
        '{"__REALTIME_TIMESTAMP":"1","MESSAGE":[300]}',
        '{"__REALTIME_TIMESTAMP":"1","MESSAGE":"x","PRIORITY":[]}',
        '{"MESSAGE":"no time"}',
        "\x1b[2Jx",
    ],
)
def test_what_is_no_entry_is_a_line_as_it_stands(entry: str) -> None:
    (line,) = read(entry)
    assert (line.at, line.host) == ("", "pi-1")
    assert line.line == entry.replace("\x1b", "?")[: 2**18]


def test_an_entry_without_a_text_is_none_and_an_empty_line_is_no_entry() -> None:
    assert read("") == []
    assert [one.line for one in read('{"__REALTIME_TIMESTAMP":"1","MESSAGE":null}')] == ["None"]
