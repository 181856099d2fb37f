"""A run of the soak on hosts: what is done to them, and that its checker can say "broken"."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from soak import Soak

from hosts.lab.bench_hosts import BenchHosts
from roambench.contract.records import Reading, RecordKind
from roambench.runs.folder import RunFolder
from soaking.hosts import SoakedHosts
from soaking.plan import Fault, PlannedRun
from soaking.verdict import Ended, broken
from soaking.worlds import WORLDS

WORLD = WORLDS["hosts"]
#: None of them may cost a training.
FAULTS = (
    Fault("host's certificate rotated", 0.5, "pi1", 0.0, 0),
    Fault("host's link cut", 4.0, "pi2", 4.0, 0),
    Fault("host's agent stopped for seconds", 9.0, "pi3", 3.0, 0),
    Fault("controller killed and resumed", 14.0, "pi1", 0.0, 0),
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_on_hosts_under_four_faults_ends_as_if_nothing_had_been(
    provisioned: BenchHosts, tmp_path: Path
) -> None:
    soak = Soak(tmp_path, seed=1, keep=True, hosts=SoakedHosts(provisioned))
    result = soak.carry_out(PlannedRun(0, "hosts", FAULTS))
    assert result.problems == ()
    assert {struck.fault for struck in result.struck} == set(FAULTS)
    folder, reference = tmp_path / "run-0000" / "runs" / WORLD.reference, soak.reference(WORLD)
    log = (tmp_path / "run-0000" / "run.log").read_text()

    def verdict() -> list[str]:
        return broken(folder, WORLD, reference, result.struck, Ended(0, None, log, []))

    assert verdict() == []
    _lose_readings(folder, "pi2")
    (problem,) = verdict()
    assert problem.startswith("pi2: no reading for ")
    with closing(sqlite3.connect(folder / "events.sqlite")) as events:
        change = "body = json_set(body, '$.digest', 'f00d') WHERE kind = 'EdgeAggregated'"
        events.execute(f"UPDATE event SET {change}")
        events.commit()
    assert len(verdict()) == 2


def _lose_readings(folder: Path, name: str) -> None:
    """Those of the run's last ten seconds."""
    with RunFolder.open(folder) as run:
        from_ns = run.info.end_device_ns - 10_000_000_000
    with closing(sqlite3.connect(folder / "records.sqlite")) as records:
        ask = "SELECT spool_uuid, seq, payload FROM record WHERE device = ? AND kind = ?"
        found = records.execute(ask, (name, int(RecordKind.READING))).fetchall()
        late = [(uuid, seq) for uuid, seq, data in found if Reading.from_bytes(data).monotonic_ns > from_ns]
        assert len(late) > 5
        delete = f"DELETE FROM record WHERE device = '{name}' AND spool_uuid = ? AND seq = ?"
        records.executemany(delete, late)
        records.commit()
