"""The soak in a small size (`make soak` is the whole of it), and that its checker can say "broken"."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from soak import Result, Soak

from roambench.contract.records import Reading, RecordKind
from soaking.plan import Fault, PlannedRun
from soaking.underway import compiled_shim
from soaking.verdict import Ended, Reference, broken
from soaking.worlds import WORLDS

pytestmark = pytest.mark.timeout(600)  # on a machine that does other things

WORLD = WORLDS["rounds"]
#: None of them may cost a training: the run must end as if nothing had been.
FAULTS = (
    Fault("links reset in a transfer", 0.5, "pi-01", 0.0, 1),
    Fault("agent stopped for seconds", 1.0, "pi-02", 1.5, 0),
    Fault("links in a black hole", 2.0, "pi-03", 2.0, 0),
    Fault("meter unplugged", 2.5, "pi-04", 1.0, 0),
    Fault("meter says garbage", 3.0, "pi-01", 0.0, 2),
    Fault("agent's disk slow to sync", 3.5, "pi-02", 2.0, 700),
    Fault("controller stopped for seconds", 4.5, "pi-01", 1.0, 0),
    Fault("malformed bytes at the ports", 5.0, "pi-04", 1.0, 3),
)


@dataclass(frozen=True)
class Soaked:
    result: Result
    reference: Reference
    folder: Path


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Soaked:
    base = tmp_path_factory.mktemp("soak").resolve()
    soak = Soak(base, seed=1, keep=True, shim=compiled_shim(base))
    result = soak.carry_out(PlannedRun(0, "rounds", FAULTS))
    return Soaked(result, soak.reference(WORLD), base / "run-0000" / "runs" / WORLD.reference)


def test_a_run_under_eight_faults_ends_as_if_nothing_had_been(soaked: Soaked):
    assert soaked.result.problems == ()
    assert soaked.result.readings > 4 * 50
    struck = {item.fault.kind for item in soaked.result.struck}
    assert len(struck) >= len(FAULTS) - 1  # without a C compiler no disk is slow


def rows(folder: Path, file: str, *statements: str) -> None:
    with closing(sqlite3.connect(folder / file)) as database:
        for statement in statements:
            assert database.execute(statement).rowcount > 0
        database.commit()


def _some_reading(folder: Path) -> tuple[int, Reading]:
    ask = "SELECT seq, payload FROM record WHERE device = 'pi-03' AND kind = ? ORDER BY seq LIMIT 1 OFFSET 30"
    with closing(sqlite3.connect(folder / "records.sqlite")) as database:
        seq, payload = database.execute(ask, (int(RecordKind.READING),)).fetchone()
    return seq, Reading.from_bytes(payload)


def lose_a_reading(folder: Path) -> None:
    seq, _ = _some_reading(folder)
    rows(folder, "records.sqlite", f"DELETE FROM record WHERE device = 'pi-03' AND seq = {seq}")


def store_a_reading_twice(folder: Path) -> None:
    seq, _ = _some_reading(folder)
    again = "SELECT device, spool_uuid, 999999, kind, payload FROM record"
    rows(folder, "records.sqlite", f"INSERT INTO record {again} WHERE device = 'pi-03' AND seq = {seq}")


def move_a_reading_in_time(folder: Path) -> None:
    """In the store and in the agent's own notes: only the meter knows better."""
    seq, reading = _some_reading(folder)
    moved = dataclasses.replace(reading, monotonic_ns=reading.monotonic_ns + 400_000_000_000)
    which = f"device = 'pi-03' AND seq = {seq}"
    rows(folder, "records.sqlite", f"UPDATE record SET payload = x'{moved.to_bytes().hex()}' WHERE {which}")
    notes = folder / "agents" / "pi-03" / "witness.txt"
    notes.write_text(notes.read_text().replace(f"+{reading.monotonic_ns},", f"+{moved.monotonic_ns},"))


def make_a_reading_up(folder: Path) -> None:
    seq, reading = _some_reading(folder)
    other = dataclasses.replace(reading, watts=reading.watts + 0.001)
    which = f"device = 'pi-03' AND seq = {seq}"
    rows(folder, "records.sqlite", f"UPDATE record SET payload = x'{other.to_bytes().hex()}' WHERE {which}")


def read_no_line_of_a_minute(folder: Path) -> None:
    """Neither stored nor noted."""
    _, reading = _some_reading(folder)
    notes = folder / "agents" / "pi-03" / "witness.txt"
    kept, gone, lines = [], [], notes.read_text().splitlines(keepends=True)
    for plus, number in zip(lines[::2], lines[1::2], strict=True):
        late = 0 <= int(plus[1:].split(",")[0]) - reading.monotonic_ns < 4_000_000_000
        (gone if late else kept).extend((plus, number))
    notes.write_text("".join(kept))
    seqs = ",".join(number[1:-1] for number in gone[1::2])
    rows(folder, "records.sqlite", f"DELETE FROM record WHERE device = 'pi-03' AND seq IN ({seqs})")


def alter_a_digest(folder: Path) -> None:
    change = "body = json_set(body, '$.digest', 'f00d') WHERE kind = 'EdgeAggregated' AND step = 3"
    rows(folder, "events.sqlite", f"UPDATE event SET {change}")


def waste_a_training(folder: Path) -> None:
    one = "id = (SELECT min(id) FROM event WHERE kind = 'OutcomeDecided' AND step = 2)"
    rows(
        folder, "events.sqlite", f"UPDATE event SET body = json_set(body, '$.outcome', 'wasted') WHERE {one}"
    )


def fail_an_upload(folder: Path) -> None:
    one = "id = (SELECT max(id) FROM event WHERE kind = 'OrderAnswered')"
    change = "body = json_set(body, '$.status', 'failed', '$.reason', 'broke off')"
    rows(folder, "events.sqlite", f"UPDATE event SET {change} WHERE {one}")


def answer_twice(folder: Path) -> None:
    row = "SELECT step, kind, device, body FROM event WHERE kind = 'OrderAnswered' LIMIT 1"
    rows(folder, "events.sqlite", f"INSERT INTO event (step, kind, device, body) {row}")


def alter_the_model(folder: Path) -> None:
    path = folder / "models" / "global.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def leave_a_key(folder: Path) -> None:
    place = folder / "identity" / "pi-01"
    place.mkdir(parents=True)
    (place / "key.pem").write_text("secret")


def spoil_a_database(folder: Path) -> None:
    path = folder / "agents" / "pi-02" / "spool.sqlite"
    data = bytearray(path.read_bytes())
    data[-4000:] = bytes(4000)
    data[4096:4200] = b"\xff" * 104
    path.write_bytes(data)


def leave_a_traceback(folder: Path) -> None:
    (folder / "controller.log").write_text("Traceback (most recent call last)\nKeyError: 'nobody'\n")


SABOTAGE: tuple[tuple[Callable[[Path], None], str], ...] = (
    (lose_a_reading, "pi-03: 1 readings are lost"),
    (store_a_reading_twice, "pi-03: 1 timestamps are stored twice"),
    (move_a_reading_in_time, "pi-03: a reading "),
    (make_a_reading_up, "that the meter never printed"),
    (read_no_line_of_a_minute, "were said and not read"),
    (alter_a_digest, "learned otherwise: EdgeAggregated"),
    (waste_a_training, "learned otherwise: OutcomeDecided"),
    (fail_an_upload, "a training was lost to nothing"),
    (answer_twice, "answered 2 times"),
    (alter_the_model, "the final model is another one"),
    (leave_a_key, "a key is left behind: identity/pi-01/key.pem"),
    (spoil_a_database, "spool.sqlite"),
    (leave_a_traceback, "unexpected, in controller.log"),
)


def judged(soaked: Soaked, folder: Path, **changes: object) -> list[str]:
    text = (soaked.folder.parents[3] / "run.log").read_text()
    ended = dataclasses.replace(Ended(0, None, text, ()), **changes)  # type: ignore[arg-type]
    return broken(folder, WORLD, soaked.reference, soaked.result.struck, ended)


@pytest.fixture(scope="module")
def untouched(soaked: Soaked) -> list[str]:
    return judged(soaked, soaked.folder)


@pytest.mark.parametrize(("harm", "expected"), SABOTAGE, ids=lambda value: getattr(value, "__name__", ""))
def test_what_was_tampered_with_is_broken(
    soaked: Soaked, untouched: list[str], tmp_path: Path, harm: Callable[[Path], None], expected: str
):
    folder = tmp_path / soaked.folder.name
    shutil.copytree(soaked.folder, folder, symlinks=True)
    harm(folder)
    after = judged(soaked, folder)
    assert not any(expected in problem for problem in untouched)
    assert any(expected in problem for problem in after), after


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": 1}, "finished, but with status 1"),
        ({"text": "report: x\nsomething else"}, "the last line is 'something else'"),
        ({"text": "Traceback (most recent call last)\nreport: x"}, "a traceback"),
        ({"left": ("python -m roambench.fleet.agent_fork_server",)}, "a process outlives the run"),
    ],
)
def test_how_the_command_ended_counts(soaked: Soaked, changes: dict[str, object], expected: str):
    assert any(expected in problem for problem in judged(soaked, soaked.folder, **changes))
