"""What a host exports is taken whole or not at all."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import json
import os
import tracemalloc
import zlib
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roambench.agent.life.ctl_handler import CtlHandler
from roambench.agent.readings.unsent import Unsent as Files
from roambench.agent.readings.unsent import UnsentRecord
from roambench.contract.records import AgentEvent, RecordKind
from roambench.experiment.sections import Experiment
from roambench.provision import fetching
from roambench.provision.fetching import fetch_run, records_of
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.runs.folder import RunFolder
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import Spool
from small_runs import a_run

_RECORD = {"run": "demo", "spool_uuid": "ab" * 16, "seq": 7, "kind": 1, "payload": "AAEC"}
_END = {"end": 1, "device": "pi1"}


def test_records_come_as_they_were_spooled():
    (found,) = records_of("pi1", _packed(_RECORD, _END), malformed=print)
    assert found == UnsentRecord("demo", "ab" * 16, 7, 1, "AAEC")
    assert found.content() == b"\0\1\2"
    assert list(records_of("pi1", _packed({"end": 0, "device": "pi1"}), malformed=print)) == []


def test_many_records_come_in_order_over_several_pieces():
    many = [{**_RECORD, "seq": seq} for seq in range(5000)]
    found = list(records_of("pi1", _packed(*many, {"end": 5000, "device": "pi1"}), malformed=print))
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
        ([{**_RECORD, "seq": 2**63}, _END], "not what an agent says"),
        ([{**_END, "end": int("9" * 400)}], "not what an agent says"),
    ],
)
def test_anything_else_is_an_error_that_names_the_host(lines: list[object], reason: str):
    with pytest.raises(HostError, match=f"^pi1: spool-export: .*{reason}"):
        list(records_of("pi1", _packed(*lines), malformed=print))


def test_what_an_agent_exports_of_damaged_files_is_taken_and_the_malformed_lines_are_counted(tmp_path: Path):
    spool = Spool(tmp_path / "spool.sqlite")
    others = cast(Any, None)
    files = Files(tmp_path / "unsent", spool)
    meter = SimpleNamespace(parts=(SimpleNamespace(spool=spool, unsent=files),))
    session = SimpleNamespace(settings=SimpleNamespace(device="pi1"), meter=meter)
    handler = CtlHandler(cast(Any, session), others, others)

    async def exported() -> bytes:
        lines = [line async for line in handler.answer({"ask": "spool-export", "words": ["demo"]})]
        return gzip.compress("".join(f"{line}\n" for line in lines).encode())

    try:
        spool.begin_context(RecordContext("boot", "0/1.0", 0, "smartpower2", "demo"), 0)
        for _ in range(1100):
            spool.append(RecordKind.EVENT, AgentEvent("x", 0, "y").to_bytes())
        files.set_aside()
        (file,) = (tmp_path / "unsent").iterdir()
        whole = file.read_bytes()
        half = whole[: len(whole) // 2]  # as agents left it that appended behind half a line
        file.write_bytes(half + whole + b"\0" * 512)
        malformed: list[int] = []
        records = list(records_of("pi1", asyncio.run(exported()), malformed.append))
    finally:
        spool.close()
    assert {record.seq for record in records} >= set(range(2, 1102))
    assert malformed == [2]


def test_bytes_that_are_not_compressed_are_an_error():
    with pytest.raises(HostError, match="pi1: spool-export"):
        list(records_of("pi1", b'{"end": 0}', malformed=print))


def test_what_becomes_endless_when_it_is_unpacked_is_refused_before_it_fills_the_memory():
    endless = gzip.compress(bytes(200_000_000), 1)
    tracemalloc.start()
    try:
        with pytest.raises(HostError, match="a record larger than any"):
            list(records_of("pi1", endless, malformed=print))
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


class Answering:
    """What `fetch_run` needs of a host's link: an agent that is in no run, and its export."""

    def __init__(self, packed: bytes, reads_for: tuple[str, ...] = ()) -> None:
        self.host = SimpleNamespace(name="pi1")
        read_for = [SimpleNamespace(name=name) for name in reads_for]
        self.bench = SimpleNamespace(read_by=lambda host: read_for)
        self.packed = packed
        self.asked: list[str] = []

    def must(self, script: str, *values: str, **options: object) -> bytes:
        return self.packed

    def run(self, script: str, *values: str, **options: object) -> SimpleNamespace:
        self.asked.append(" ".join(values))
        return SimpleNamespace(out=b'{"run": ""}', exit_code=0)


def test_records_under_numbers_that_the_folder_has_for_others_stay_on_the_host_and_the_rest_comes(tmp_path):
    folder = a_run(tmp_path / "demo", "bench", ["pi1"])
    seen = [AgentEvent("seen", seq, "").to_bytes() for seq in range(4)]
    folder.records.insert("pi1", "ab" * 16, [(2, 3, AgentEvent("another", 2, "").to_bytes())])
    lines = [{**_RECORD, "seq": seq, "kind": 3, "payload": b64encode(seen[seq]).decode()} for seq in range(4)]
    link = Answering(_packed(*lines, {"end": 4, "device": "pi1"}))
    with pytest.raises(HostError, match=r"pi1: 1 of its 4 records of demo have numbers that others .* have"):
        fetch_run(cast(HostLink, link), folder)
    assert [event.kind for event in folder.records.events("pi1")] == ["seen", "seen", "another", "seen"]
    assert link.asked == ["status"]  # it is not told to forget anything
    folder.close()


def test_records_of_a_board_whose_meter_the_host_reads_are_that_boards(tmp_path):
    folder = RunFolder.create(
        tmp_path / "demo", Experiment(seed=1), run_id="demo", system="mohawk", trace_hash="", fleet="bench",
        device_names=["pi1", "pi2"],
    )  # fmt: skip
    payload = b64encode(AgentEvent("seen", 1, "").to_bytes()).decode()
    lines = [
        {**_RECORD, "kind": 3, "payload": payload, "spool_uuid": f"{n:032x}", "board": board}
        for n, board in enumerate(("", "pi2", "pi3"))  # pi3 takes no part in the run
    ]
    packed = _packed(*lines, {"end": 3, "device": "pi1"})
    assert fetch_run(cast(HostLink, Answering(packed, ("pi2", "pi3"))), folder).records == 3
    assert {name: len(folder.records.events(name)) for name in ("pi1", "pi2", "pi3")} == {
        "pi1": 1,
        "pi2": 1,
        "pi3": 0,
    }
    with pytest.raises(HostError, match="pi1: spool-export demo: a record of pi2"):
        fetch_run(cast(HostLink, Answering(packed)), folder)
    folder.close()


def test_records_of_many_spools_and_large_ones_are_stored_before_they_fill_the_memory(tmp_path):
    """Each of another spool, none of them a thousand records: 400 MB that came as 2 MB."""
    folder = RunFolder.create(
        tmp_path / "demo", Experiment(seed=1), run_id="demo", system="mohawk", trace_hash="", fleet="bench",
        device_names=["pi1"],
    )  # fmt: skip
    payload = b64encode(AgentEvent("x" * 300_000, 1, "").to_bytes()).decode()
    packer = zlib.compressobj(wbits=31)
    record = {**_RECORD, "kind": 3, "payload": payload}
    lines = (json.dumps({**record, "spool_uuid": f"{n:032x}"}).encode() + b"\n" for n in range(400))
    packed = [packer.compress(line) for line in lines]
    packed += [packer.compress(b'{"end": 400, "device": "pi1"}\n'), packer.flush()]
    link = Answering(b"".join(packed))
    tracemalloc.start()
    try:
        assert fetch_run(cast(HostLink, link), folder).records == 400
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()
    folder.close()


def test_more_records_than_any_agent_keeps_are_refused():
    many = _packed(*[_RECORD] * 1000, {"end": 1000, "device": "pi1"})
    with pytest.raises(HostError, match="pi1: spool-export: more records than any agent keeps"):
        list(records_of("pi1", many, malformed=print, most_bytes=50_000))


def _packed(*lines: object) -> bytes:
    return gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode())


def test_two_fetches_into_one_folder_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the export on until the host forgets: what one writes last may not lack what the other had."""

    def export(*_: object) -> bytes:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        raise HostError("pi-01", "that will do")

    monkeypatch.setattr(fetching, "_export", export)
    with pytest.raises(HostError, match="that will do"):
        fetching.save_run(cast(HostLink, None), "run", tmp_path / "run.jsonl.gz")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
