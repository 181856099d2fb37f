"""The durable queue, on real SQLite files."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from roambench.contract.errors import SpoolError
from roambench.contract.records import RecordKind
from roambench.spool.spool import ROW_OVERHEAD_BYTES, Spool


def fill(spool: Spool, count: int, first: int = 0) -> list[int]:
    return [spool.append(RecordKind.READING, b"%06d" % i) for i in range(first, first + count)]


def test_records_come_out_in_the_order_they_went_in_until_acknowledged(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    assert fill(spool, 5) == [1, 2, 3, 4, 5]
    spool.append(RecordKind.EVENT, b"boot")
    assert spool.batch(2) == [(1, RecordKind.READING, b"000000"), (2, RecordKind.READING, b"000001")]
    assert [seq for seq, _, _ in spool.batch(10, after_seq=4)] == [5, 6]
    assert spool.acknowledge(4) == 4
    assert spool.acknowledge(4) == 0
    assert spool.batch(10)[-1] == (6, RecordKind.EVENT, b"boot")
    assert spool.depth == 2
    spool.close()


def test_a_sequence_number_is_never_given_twice_not_even_after_emptying_and_restart(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    name = spool.uuid
    fill(spool, 7)
    spool.acknowledge(7)
    spool.close()
    again = Spool(tmp_path / "spool.sqlite")
    assert again.depth == 0
    assert again.append(RecordKind.READING, b"") == 8
    assert again.uuid == name
    assert Spool(tmp_path / "other.sqlite").uuid != name
    again.close()


WRITER = """
import sys
from pathlib import Path
from roambench.contract.records import RecordKind
from roambench.spool.spool import Spool
spool = Spool(Path(sys.argv[1]))
while True:
    seq = spool.append(RecordKind.READING, b"reading")
    sys.stdout.write(f"{seq}\\n"); sys.stdout.flush()
    if seq % 50 == 0: spool.sync()
"""


@pytest.mark.parametrize("lines", [1, 73, 400])
def test_every_record_that_was_appended_survives_sigkill(tmp_path, lines):
    path = tmp_path / "spool.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    for _ in range(lines):
        writer.stdout.readline()
    writer.kill()
    rest = writer.stdout.read().split(b"\n")[:-1]
    writer.wait()
    writer.stdout.close()
    promised = lines + len(rest)
    spool = Spool(path)
    found = [seq for seq, _, _ in spool.batch(1_000_000)]
    # At most the one it was about to report is there beyond what it promised.
    assert found in (list(range(1, promised + 1)), list(range(1, promised + 2)))
    assert spool.depth == len(found)
    assert spool.append(RecordKind.READING, b"") == found[-1] + 1
    spool.close()


def test_a_full_queue_drops_the_oldest_and_counts_them_for_ever(tmp_path):
    row_bytes = 6 + ROW_OVERHEAD_BYTES
    spool = Spool(tmp_path / "spool.sqlite", cap_bytes=100 * row_bytes)
    fill(spool, 100)
    assert (spool.depth, spool.dropped) == (100, 0)
    fill(spool, 1, first=100)
    # One row over the cap, and a hundredth of it to spare: two rows go.
    assert (spool.depth, spool.dropped) == (99, 2)
    assert spool.batch(1)[0][0] == 3
    fill(spool, 50, first=101)
    assert spool.depth + spool.dropped == 151
    assert spool.batch(1000)[-1][0] == 151
    dropped = spool.dropped
    spool.close()
    again = Spool(tmp_path / "spool.sqlite", cap_bytes=100 * row_bytes)
    assert again.dropped == dropped
    again.close()


def test_a_record_nobody_will_take_goes_to_the_dead_letters(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    fill(spool, 3)
    spool.bury(2, "field type conflict")
    spool.bury(2, "again")
    assert [seq for seq, _, _ in spool.batch(10)] == [1, 3]
    assert (spool.depth, spool.dead) == (2, 1)
    spool.close()
    with sqlite3.connect(tmp_path / "spool.sqlite") as rows:
        assert rows.execute("SELECT seq, payload, error FROM dead").fetchall() == [
            (2, b"000001", "field type conflict")
        ]
    rows.close()


def test_syncing_in_another_thread_never_costs_the_appender_a_record(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    done = threading.Event()

    def sync() -> None:
        while not done.is_set():
            spool.sync()

    thread = threading.Thread(target=sync)
    thread.start()
    fill(spool, 500)
    spool.acknowledge(100)
    fill(spool, 500)
    done.set()
    thread.join()
    assert [seq for seq, _, _ in spool.batch(2000)] == list(range(101, 1001))
    spool.close()


def test_the_log_beside_the_database_does_not_grow_for_ever(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    for _ in range(40):
        spool.append(RecordKind.EVENT, b"x" * 200_000)
        spool.sync()
        spool.acknowledge(10**6)
    assert Path(f"{tmp_path}/spool.sqlite-wal").stat().st_size < 4_000_000
    spool.close()


def test_the_age_of_the_oldest_record_is_told(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    assert spool.oldest_age_s == 0.0
    spool.append(RecordKind.EVENT, b"")
    with sqlite3.connect(tmp_path / "spool.sqlite") as rows:
        rows.execute("UPDATE records SET unix_ms = unix_ms - 5000")
    rows.close()
    assert spool.oldest_age_s == pytest.approx(5.0, abs=0.5)
    spool.close()


def test_a_file_that_is_no_spool_is_named(tmp_path):
    path = tmp_path / "spool.sqlite"
    path.write_bytes(b"this is not a database, whatever it is " * 50)
    with pytest.raises(SpoolError, match=r"spool .*spool\.sqlite: file is not a database"):
        Spool(path)
    with pytest.raises(SpoolError, match="unable to open database file"):
        Spool(tmp_path / "no" / "such" / "spool.sqlite")


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from roambench.contract.errors import SpoolError
from roambench.contract.records import RecordKind
from roambench.spool.spool import Spool
spool = Spool(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # writing beyond it fails, as on a full disk
kept = 0
try:
    while True:
        spool.append(RecordKind.EVENT, b"x" * 1000)
        kept += 1
except SpoolError as error:
    print(kept, error, flush=True)
"""


def test_a_full_disk_is_an_error_that_names_the_file_and_loses_nothing_before_it(tmp_path):
    path = tmp_path / "spool.sqlite"
    result = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False
    )
    kept, _, message = result.stdout.partition(" ")
    assert message.startswith(f"spool {path}: ")
    assert int(kept) > 20
    spool = Spool(path)
    assert [seq for seq, _, _ in spool.batch(10_000)] == list(range(1, int(kept) + 1))
    spool.close()
