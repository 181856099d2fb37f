"""The power of controller and boards goes in the middle of a real run: nothing that was told is lost.

Told is: what run.json says, an exit status, and a record that a board may delete. The cuts are states in
which a disk could be by what the programs really wrote and synced (`power_cuts`).
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from power_cuts import Call, Disk, recorded
from roambench.contract.errors import RunError
from roambench.contract.records import Reading, RecordKind
from roambench.rounds.records import OrderGiven
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.record_store import RecordStore
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import CONTROLLER, Spool

from .conftest import ROAMBENCH, SMALL

SHORT = (
    *("trace.steps=3", "trace.parameters.devices=2", "fleet.agents=2", "fleet.aps=2"),
    *("local.sgd_step_s=0.01", "energy.idle_baseline_s=1.0"),
)
Key = tuple[str, str, int]

pytestmark = pytest.mark.timeout(1200)


class CutRun:
    """A run that went to its end, all it did to its folder, and that folder as it is in the end."""

    def __init__(self, base: Path, system: str, overrides: Sequence[str] = ()) -> None:
        file = base / "small.toml"
        file.write_text(SMALL)
        self.base = base
        self.folder = base / "runs" / "small" / "latest" / system
        words = [ROAMBENCH, "run", str(file), "--runs-dir", str(base / "runs")]
        words += [
            word for override in (*SHORT, f'systems=["{system}"]', *overrides) for word in ("--set", override)
        ]
        self.calls: list[Call] = recorded(words, self.folder, base / "trace.txt", 240)
        (base / "trace.txt").unlink()
        self.folder = self.folder.resolve()
        self.events = rows(self.folder / "events.sqlite", "SELECT * FROM event ORDER BY id")
        self.records = stored(self.folder / "records.sqlite")

    def cuts(self, count: int, seed: int) -> list[str]:
        """What was wrong in `count` states: at random moments, after syncs and renames, and at the end."""
        draw = random.Random(seed)
        told = [i + 1 for i, call in enumerate(self.calls) if call.name in ("sync", "rename")]
        moments = [*draw.choices(told, k=count // 2), *draw.choices(told[-40:], k=count // 4)]
        moments += draw.choices(range(len(self.calls)), k=count - len(moments) - count // 10)
        moments += [len(self.calls)] * (count - len(moments))
        disk, played, wrong = Disk(), 0, []
        for moment in sorted(moments):
            for call in self.calls[played:moment]:
                disk.play(call)
            played = moment
            state = self.base / "state"
            disk.cut(draw, self.folder, state)
            wrong += [f"after call {moment}: {what}" for what in self.wrong(state, disk)]
            if moment == len(self.calls) and '"finished"' not in (state / "run.json").read_text():
                wrong.append("the command ended well, and the run did not")
        return wrong

    def wrong(self, state: Path, disk: Disk) -> list[str]:
        try:
            return [*self._of_files(state), *self._of_the_run(state), *self._of_boards(state, disk)]
        except (OSError, ValueError, sqlite3.Error) as error:
            return [f"{type(error).__name__}: {error}"]

    def _of_files(self, state: Path) -> list[str]:
        for path in state.glob("*.json"):
            if path.name not in ("agents.json", "emulator.json"):  # given to children, never read again
                json.loads(path.read_text())
        for path in state.glob("*.parquet"):
            pq.read_table(path)
        for path in state.glob("models/*.safetensors"):
            load_file(path)
        return []

    def _of_the_run(self, state: Path) -> list[str]:
        if not (state / "run.json").exists():
            return []  # it had not begun
        found = RunFolder.open(state)
        list(found.read_log())
        events = rows(state / "events.sqlite", "SELECT * FROM event ORDER BY id")
        records = stored(state / "records.sqlite")
        wrong = [] if events == self.events[: len(events)] else ["the event log has a hole"]
        orders = {record.order_id for record in found.read_log() if isinstance(record, OrderGiven)}
        spans = [span for device in found.records.devices() for span in found.records.spans(device)]
        found.close()
        nobodys = {span.order_id for span in spans if span.order_id} - orders
        wrong += [f"phases of orders that were never given: {sorted(nobodys)[:3]}"] if nobodys else []
        if found.info.state is RunState.FINISHED:
            names = [path.relative_to(self.folder) for path in self.folder.glob("*.parquet")]
            names += [path.relative_to(self.folder) for path in self.folder.glob("models/*")]
            lacking = [str(n) for n in names if not same(state / n, self.folder / n)]
            wrong += [f"finished without {', '.join(lacking)}"] if lacking else []
            wrong += [f"finished with {len(events)} events"] if events != self.events else []
            wrong += [f"finished with {len(records)} records"] if records != self.records else []
        return wrong

    def _of_boards(self, state: Path, disk: Disk) -> list[str]:
        """A spool that goes on has deleted only what the controller keeps; one that lost its power, too,
        gives no number twice."""
        if not (state / "records.sqlite").exists():
            return []
        wrong = []
        kept = stored(state / "records.sqlite")
        for agent in sorted((self.folder / "agents").iterdir()):
            path = Path("agents", agent.name, "spool.sqlite")
            live = self.base / "live"
            shutil.rmtree(live, ignore_errors=True)
            live.mkdir()
            for name in (path.name, f"{path.name}-wal"):
                if (content := disk.content(str(agent / name))) is not None:
                    (live / name).write_bytes(content)
            deleted = self._deleted(agent.name, live / path.name)
            lost = {key for key in deleted if kept.get(key) != self.records.get(key)}
            wrong += [f"{agent.name} deleted {len(lost)} records that are nowhere"] if lost else []
            if (state / path).exists():
                wrong += go_on(agent.name, state / path, state / "records.sqlite")
        return wrong

    def _deleted(self, device: str, spool: Path) -> list[Key]:
        try:
            first = rows(
                spool, "SELECT coalesce(min(seq), (SELECT seq + 1 FROM sqlite_sequence)) FROM records"
            )
        except sqlite3.OperationalError:  # it is not there yet
            return []
        return [key for key in self.records if key[0] == device and key[2] < (first[0][0] or 0)]


def go_on(device: str, spool_path: Path, store_path: Path) -> list[str]:
    """The board boots again, reads its meter and drains."""
    try:
        spool, store = Spool(spool_path), RecordStore(store_path)
        if spool.damage:
            return [f"{device}: {spool.damage}"]
        spool.begin_context(RecordContext("another-boot", "0/1.0", 0, "smartpower2", "run"), 1)
        for ns in range(40):
            spool.append(RecordKind.READING, Reading(ns, 5.0, 0.5, 2.5).to_bytes())
        queue = spool.consumers[CONTROLLER]
        while batch := [
            r for r in queue.batch(50) if spool.uuid_of(r[0]) == spool.uuid_of(queue.batch(1)[0][0])
        ]:
            queue.acknowledge(store.insert(device, spool.uuid_of(batch[0][0]), batch))
        spool.close()
        store.close()
    except RunError as error:
        return [f"{device}: {error}"]
    return []


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        (problem,) = database.execute("PRAGMA quick_check(1)").fetchone()
        assert problem == "ok", f"{path.name}: {problem}"
        return database.execute(query).fetchall()


def stored(path: Path) -> dict[Key, tuple[object, ...]]:
    try:
        found = rows(path, "SELECT device, spool_uuid, seq, kind, payload FROM record")
    except sqlite3.OperationalError:  # the power went before the table was made
        return {}
    return {(str(row[0]), str(row[1]), int(str(row[2]))): row[3:] for row in found}


def same(one: Path, other: Path) -> bool:
    return one.exists() and one.read_bytes() == other.read_bytes()


@pytest.fixture(scope="module")
def cut_run(tmp_path_factory: pytest.TempPathFactory) -> CutRun:
    return run_of("mohawk", (), tmp_path_factory)


def run_of(system: str, overrides: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> CutRun:
    if shutil.which("strace") is None:
        pytest.skip("needs strace: make servers")
    return CutRun(tmp_path_factory.mktemp("cut").resolve(), system, overrides)


def test_what_was_recorded_is_what_is_on_the_disk(cut_run: CutRun) -> None:
    """Otherwise the cuts would be those of another program."""
    disk = Disk()
    for call in cut_run.calls:
        disk.play(call)
    there = [path for path in cut_run.folder.rglob("*") if path.is_file() and not path.name.endswith("-shm")]
    assert len(there) > 20
    assert [str(p) for p in there if disk.content(str(p)) != p.read_bytes()] == []


def test_no_cut_takes_back_what_was_told(cut_run: CutRun) -> None:
    assert cut_run.cuts(60, seed=7) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "overrides"),
    [("mohawk", ()), ("d_psgd", ("decentralised.iterations=3", "mobility.mobile=1", "contacts.radius=5.0"))],
)
def test_no_cut_of_hundreds_takes_back_what_was_told(
    system: str, overrides: Sequence[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = run_of(system, overrides, tmp_path_factory)
    assert run.cuts(200, seed=8) == []
