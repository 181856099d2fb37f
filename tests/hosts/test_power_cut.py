"""Power cuts on a real file system: ext4 on a loop device; its bytes at one instant are what a reboot finds.

What a process has written and nobody has synced is in the page cache alone: it is not in the copy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.hosts

LIVES = """
import json, random, shutil, subprocess, sys
from pathlib import Path
from roambench.contract.records import Reading, RecordKind
from roambench.runs.record_store import RecordStore
from roambench.contract.events import EventKind
from roambench.spool.record_context import RecordContext
from roambench.spool.spool import CONTROLLER, Spool

folder, cuts = Path(sys.argv[1]), int(sys.argv[2])
draw = random.Random(7)
disk = folder / "disk-0"
with disk.open("wb") as file:
    file.truncate(16 * 2**20)
subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
store = RecordStore(folder / "records.sqlite")
appended, taken_back, stamp = [], 0, 0
for boot in range(cuts + 1):
    place = folder / f"mounted-{boot}"
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", disk, place], check=True)
    spool = Spool(place / "spool.sqlite")
    assert spool.damage == "", spool.damage
    last = spool._last_seq
    taken_back += boot > 0 and last < highest
    spool.begin_context(RecordContext(f"boot-{boot}", "0/1.0", 0, "smartpower2", "run"), stamp)
    queue = spool.consumers[CONTROLLER]

    def drain():
        while records := queue.batch(50):
            queue.acknowledge(store.insert("pi-01", spool.uuid_of(records[0][0]), records))
            sent.update(range(records[0][0], records[-1][0] + 1))

    sent, by_seq = set(), {}
    for _ in range(draw.randint(10, 80)):
        stamp += 1
        by_seq[spool.append(RecordKind.READING, Reading(stamp, 5.0, 0.5, 2.5).to_bytes())] = stamp
        if draw.random() < 0.06:
            spool.sync()
        if draw.random() < 0.1:
            drain()
    if boot == cuts:
        drain()
    highest = spool._last_seq
    copy = folder / f"disk-{boot + 1}"
    shutil.copyfile(disk, copy)  # the power is cut
    appended += [ns for seq, ns in by_seq.items() if seq in sent]
    disk = copy
    spool.close()
    subprocess.run(["umount", place], check=True)
found = set(store.readings("pi-01").ns.tolist())
begun = [e.detail for e in store.events("pi-01") if e.kind == EventKind.RECORD_CONTEXT_BEGINS]
boots = {RecordContext.from_json(detail).boot_id for detail in begun}
print(json.dumps({
    "taken_back": taken_back,
    "sent": len(appended),
    "missing": sorted(set(appended) - found)[:20],
    "boots": len(boots),
    "twice": len(store.readings("pi-01").ns) - len(found),
}))
"""


def test_nothing_that_was_sent_is_lost_or_mixed_up_over_a_dozen_power_cuts(tmp_path: Path) -> None:
    result = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", LIVES, str(tmp_path), "12"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["taken_back"] >= 3  # otherwise nothing was tried
    assert found["sent"] > 100
    assert (found["missing"], found["twice"]) == ([], 0)
    assert found["boots"] >= 8  # a boot that never drained told nobody
