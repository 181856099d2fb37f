"""Spools that a bad card or a careless hand has spoilt: put aside, never a reason to end or to lie."""

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from roambench.contract.errors import SpoolError
from roambench.contract.records import Reading, RecordKind
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import Spool

BOOT = RecordContext("b1", "0/1.0", 0, "smartpower2", "run")


def reading(ns: int) -> bytes:
    return Reading(ns, 5.0, 0.5, 2.5).to_bytes()


def filled(path: Path, count: int = 400) -> str:
    """A spool of readings, closed in order; returns its name."""
    spool = Spool(path)
    spool.begin_context(BOOT, 0)
    for ns in range(count):
        spool.append(RecordKind.READING, reading(ns))
    spool.close()
    return spool.uuid


def works(spool: Spool) -> None:
    before = spool.depth
    spool.begin_context(RecordContext("b2", "0/1.0", 0, "smartpower2", "run"), 5)
    seq = spool.append(RecordKind.READING, reading(7))
    assert spool.batch(10**6)[-1] == (seq, RecordKind.READING, reading(7))
    assert spool.depth == before + 2
    assert spool.acknowledge(seq) == before + 2
    spool.sync()


def zeroes(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def half_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2048 * 1024 + 517)


def words(path: Path) -> None:
    path.write_bytes(b"this is not a database, whatever it is " * 50)


def another_programs(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as rows, rows:
        rows.execute("CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url TEXT)")
        rows.execute("INSERT INTO moz_places(url) VALUES ('http://example.org')")
    rows.close()


def same_names_other_columns(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as rows, rows:
        for table in ("records", "consumers", "dead_letters", "meta", "record_contexts", "names"):
            rows.execute(f"CREATE TABLE {table}(id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT)")
    rows.close()


def edited(statement: str):
    def edit(path: Path) -> None:
        with closing(sqlite3.connect(path)) as rows, rows:
            rows.execute(statement)
        rows.close()

    return edit


def content(path: Path) -> list[str] | bytes:
    """The statements that make a database, the bytes of what is none."""
    try:
        with closing(sqlite3.connect(path)) as rows, rows:
            return list(rows.iterdump())
    except sqlite3.DatabaseError:
        return path.read_bytes()
    finally:
        rows.close()


SPOILT = [
    zeroes,
    half,
    half_a_page,
    words,
    another_programs,
    same_names_other_columns,
    edited("UPDATE records SET kind = 99 WHERE seq = 17"),
    edited("UPDATE records SET payload = 'text' WHERE seq = 17"),
    edited("DELETE FROM records WHERE seq = 17"),
    edited("UPDATE sqlite_sequence SET seq = 3"),
    edited("UPDATE record_contexts SET body = '{'"),
    edited("UPDATE meta SET value = 'x' WHERE key = 'uuid'"),
    edited("UPDATE meta SET value = x'00ff' WHERE key = 'dropped'"),
    edited("UPDATE consumers SET acknowledged = 10000000"),
    edited("UPDATE consumers SET acknowledged = 'many'"),
]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_file_is_put_aside_whole_and_an_empty_spool_of_another_name_takes_its_place(tmp_path, spoil):
    path = tmp_path / "spool.sqlite"
    name = filled(path)
    spoil(path)
    spoilt = content(path)
    spool = Spool(path)
    assert spool.damage.endswith("its file is now spool.sqlite.damaged-1")
    assert content(tmp_path / "spool.sqlite.damaged-1") == spoilt
    works(spool)
    assert spool.uuid != name
    spool.close()
    again = Spool(path)
    assert again.damage == ""
    again.close()


@pytest.mark.parametrize("seed", range(25))
def test_pages_that_were_overwritten_at_random_never_end_the_agent(tmp_path, seed):
    path = tmp_path / "spool.sqlite"
    filled(path)
    draw = random.Random(seed)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for _ in range(draw.randint(1, 3)):
            length = draw.choice([1, 16, 512, 1024, 4096])
            file.seek(draw.randrange(0, size - length))
            file.write(draw.randbytes(length))
    try:
        spool = Spool(path)
        works(spool)
    except SpoolError as error:  # one that shows itself only later: the next life finds it
        raise AssertionError(str(error)) from None
    if not spool.damage:  # a byte of a payload may have changed: whoever reads it checks it
        assert path.exists()
    spool.close()


def test_a_log_that_was_overwritten_costs_what_was_in_it_and_no_more(tmp_path):
    path = tmp_path / "spool.sqlite"
    code = (
        "import os, sys; from pathlib import Path; sys.path[:0] = sys.argv[2:];"
        "from roambench.spool.spool import Spool; from roambench.contract.records import RecordKind;"
        "spool = Spool(Path(sys.argv[1]));"
        "[spool.append(RecordKind.EVENT, b'x') for _ in range(100)]; spool.sync(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    log = Path(f"{path}-wal")
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        file.write(os.urandom(3000))
    spool = Spool(path)
    assert spool.damage == ""
    assert 20 < spool.depth < 80
    works(spool)
    spool.close()


def test_of_a_card_that_spoils_everything_the_last_three_files_stay(tmp_path):
    path = tmp_path / "spool.sqlite"
    for number in range(6):
        filled(path, 3)
        words(path)
        path.write_bytes(path.read_bytes() + b"%d" % number)
        Spool(path).close()
    kept = {file.name: file.read_bytes()[-1:] for file in tmp_path.glob("*.damaged-*")}
    assert kept == {f"spool.sqlite.damaged-{number}": b"%d" % (number - 1) for number in (4, 5, 6)}


def test_a_full_disk_is_no_damage(tmp_path):
    """The file is sound, whoever cannot write it says so and leaves it alone."""
    path = tmp_path / "spool.sqlite"
    filled(path)
    code = (
        "import resource, signal, sys; from pathlib import Path; from roambench.spool.spool import Spool\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))\n"
        "try: Spool(Path(sys.argv[1]))\n"
        "except OSError as error: print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith(f"spool {path}: ")
    assert not list(tmp_path.glob("*.damaged*"))
    spool = Spool(path)
    assert spool.depth == 401
    spool.close()


CONTEXT_ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from roambench.contract.errors import SpoolError
from roambench.contract.records import RecordKind
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import CONTROLLER, Spool
spool = Spool(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for i in range(10):
    spool.append(RecordKind.EVENT, b"%d" % i)
used = Path(sys.argv[1] + "-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (used + 100, resource.RLIM_INFINITY))
try:
    spool.begin_context(RecordContext("b" * 32, "0/1.0", 0, "", "r" * 3000), 0)
except SpoolError:
    print("refused", spool.depth, spool.context, len(spool.batch(100)))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
name = spool.uuid
seq = spool.append(RecordKind.EVENT, b"after")
print(seq, spool.depth, [s for s, _, _ in spool.batch(100)] == list(range(1, 12)), spool.uuid_of(seq) == name)
print(spool.acknowledge(seq), spool.depth)
"""


def test_a_record_context_that_a_full_disk_refused_leaves_the_queue_as_its_file_is(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", CONTEXT_ON_A_FULL_DISK, str(tmp_path / "spool.sqlite")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.splitlines() == ["refused 10 None 10", "11 11 True True", "11 0"], result.stderr
