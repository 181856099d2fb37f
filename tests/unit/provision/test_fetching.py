"""What a host exports is taken whole or not at all."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from roambench.provision.fetching import Unsent, records_of
from roambench.provision.host_error import HostError

_RECORD = {"run": "demo", "spool_uuid": "ab" * 16, "seq": 7, "kind": 1, "payload": "AAEC"}
_END = {"end": 1, "device": "pi1"}


def test_records_come_as_they_were_spooled():
    assert list(records_of("pi1", _packed(_RECORD, _END))) == [Unsent("demo", "ab" * 16, 7, 1, b"\0\1\2")]
    assert list(records_of("pi1", _packed({"end": 0, "device": "pi1"}))) == []


def test_many_records_come_in_order_over_several_pieces():
    many = [{**_RECORD, "seq": seq} for seq in range(5000)]
    found = list(records_of("pi1", _packed(*many, {"end": 5000, "device": "pi1"})))
    assert [record.seq for record in found] == list(range(5000))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([_RECORD], "no end after 1 records"),
        ([_RECORD, _RECORD, _END], "2 records of 'pi1', not 1"),
        ([_RECORD, {**_END, "device": "pi2"}], "1 records of 'pi2'"),
        ([{"error": "no such run"}], "no such run"),
        ([{**_RECORD, "payload": "not base64!"}, _END], "a record that is none"),
        ([{**_RECORD, "seq": "7"}, _END], "a record that is none"),
        ([["a list"]], "not what an agent says"),
    ],
)
def test_anything_else_is_an_error_that_names_the_host(lines: list[object], reason: str):
    with pytest.raises(HostError, match=f"^pi1: spool-export: .*{reason}"):
        list(records_of("pi1", _packed(*lines)))


def test_bytes_that_are_not_compressed_are_an_error():
    with pytest.raises(HostError, match="pi1: spool-export"):
        list(records_of("pi1", b'{"end": 0}'))


def test_what_becomes_endless_when_it_is_unpacked_is_refused_before_it_fills_the_memory():
    endless = gzip.compress(bytes(200_000_000), 1)
    tracemalloc.start()
    try:
        with pytest.raises(HostError, match="a record larger than any"):
            list(records_of("pi1", endless))
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def _packed(*lines: object) -> bytes:
    return gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode())
