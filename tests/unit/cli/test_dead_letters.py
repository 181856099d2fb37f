"""`roambench fleet fetch --dead-letters` over a real SSH server: what was refused for good comes back."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roambench.agent.readings.unsent import Unsent
from roambench.cli.main import main
from roambench.contract.records import Reading, RecordKind
from roambench.provision import journal_lines
from roambench.provision.bench import Bench
from roambench.provision.ssh.hosts import HostLink
from roambench.runs.folder import RunFolder
from roambench.spool.consumer import Record
from roambench.spool.drain import BatchRefused, Drain
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import CONTROLLER, Spool
from small_runs import a_run
from ssh_server import ssh_server

AGENT = Path(__file__).parents[2] / "support" / "ctl_of_a_spool.py"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    def no_log(link: HostLink, lines: int, since: str = "") -> list[str]:
        return []

    monkeypatch.setattr(journal_lines, "journal", no_log)
    with ssh_server(tmp_path) as server:
        server.install_agent(f'shift\nexec {sys.executable} {AGENT} {tmp_path} "$@"')
        yield server.bench(tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    a_run(tmp_path / "demo", "bench").close()
    return tmp_path / "demo"


def reading(ns: int) -> bytes:
    return Reading(ns, 5.0, 0.5, 2.5).to_bytes()


def dead_letters_of(path: Path, run: Path) -> tuple[str, str]:
    """A board whose controller took half of two boots' records, and once said no to each other one. Returns
    the names of the queue in these boots."""
    spool, names = Spool(path), []
    with RunFolder.open(run, write=True) as folder:
        turn = [0]

        async def send(records: list[Record]) -> int:
            turn[0] += len(records) == 1
            if len(records) > 1 or turn[0] % 2:
                raise BatchRefused("an older agent's reading of a full port")
            return folder.records.insert("pi-01", spool.uuid_of(records[0][0]), records)

        for boot in ("first", "second"):
            spool.begin_context(RecordContext(boot, "0/1.0", 0, "smartpower2", "demo"), 0)
            for ns in range(19):
                spool.append(RecordKind.READING, reading(ns))
            names.append(spool.uuid)
            assert asyncio.run(Drain(spool.consumers[CONTROLLER], send, trouble=print).flush(20.0))
    assert (spool.depth, spool.dead) == (0, 20)
    spool.close()
    return names[0], names[1]


def fetch(bench: Bench, *words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "fetch", str(bench.file), *words])
    return ended.value.code


def stored(run: Path) -> list[tuple[str, int]]:
    with RunFolder.open(run) as folder:
        kinds = (RecordKind.EVENT, RecordKind.READING)
        return [(u, seq) for kind in kinds for u, seq, _ in folder.records.placed("pi-01", kind)]


def test_what_a_store_refused_for_good_comes_back_once_and_none_is_lost(
    bench: Bench, run: Path, tmp_path: Path
) -> None:
    first, second = dead_letters_of(tmp_path / "spool.sqlite", run)
    assert len(stored(run)) == 20
    for _ in range(2):
        assert fetch(bench, str(run), "--dead-letters") == 0
        expected = {(first, seq) for seq in range(1, 21)} | {(second, seq) for seq in range(21, 41)}
        assert len(stored(run)) == 40
        assert set(stored(run)) == expected
    spool = Spool(tmp_path / "spool.sqlite")
    assert (spool.dead, spool.dead_letters()) == (0, [])
    spool.close()
    assert list((tmp_path / "unsent").iterdir()) == []


def test_what_is_refused_again_is_on_the_board_still(
    bench: Bench,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    first, _ = dead_letters_of(tmp_path / "spool.sqlite", run)
    with RunFolder.open(run, write=True) as folder:  # another record under a dead letter's number
        folder.records.insert("pi-01", first, [(1, RecordKind.READING, reading(99))])
    assert fetch(bench, str(run), "--dead-letters") == 1
    assert "1 of its 20 records of demo have numbers that others" in capsys.readouterr().out
    assert len(stored(run)) == 40
    (file,) = (tmp_path / "unsent").iterdir()
    assert len(file.read_text().splitlines()) == 20  # fetched, and kept: nothing is lost


def test_letters_of_no_run_stay_where_they_are(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.sqlite")
    spool.append(RecordKind.READING, reading(1))
    spool.dead_letter("no", CONTROLLER)
    assert Unsent(tmp_path / "unsent", spool).revive() == 0
    assert [(one.run, one.spool_uuid) for one in spool.dead_letters()] == [("", spool.uuid)]
    spool.close()
