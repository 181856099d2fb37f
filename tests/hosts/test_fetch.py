"""A controller that dies takes neither the bench nor what its hosts have not handed over with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from safetensors import safe_open

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ALWAYS_THERE, BenchRun
from hosts.lab.cli import roambench
from roambench.contract.events import EventKind
from roambench.runs.folder import RunFolder

#: MOHAWK's CNN.
_PARAMETERS = 659_242


def test_after_a_killed_controller_the_bench_is_free_and_fetch_completes_its_run(
    provisioned: BenchHosts, tmp_path: Path
):
    """pi2 has trained in step 1 and not uploaded: pi1 is held so long, or the step might end first."""
    names = provisioned.names
    (tmp_path / "next").mkdir()
    run = BenchRun(provisioned.bench, tmp_path, 'systems=["mohawk"]', "trace.steps=3", *ALWAYS_THERE)
    try:
        run.wait_for(EventKind.TRAIN_STARTED, "pi1", "%/00001/00000/train")
        provisioned.inside("pi1", "pkill -STOP -u roambench")
        assert "run demo" in roambench("fleet", "who", provisioned.bench).out
        refused = roambench("fleet", "fetch", provisioned.bench)
        assert (refused.code, "used by" in refused.err) == (1, True)
        run.wait_for(EventKind.TRAIN_FINISHED, "pi2", "%/00001/00001/train")
    finally:
        run.stop()
        provisioned.inside("pi1", "pkill -CONT -u roambench")
    # Nobody has to wait for the dead controller's lease to run out.
    assert "free" in roambench("fleet", "who", provisioned.bench).out
    with RunFolder.open(run.folder) as folder:
        drained = {name: len(folder.records.readings(name)) for name in names}
        run_id, state = folder.info.run_id, str(folder.info.state)
    assert state == "interrupted"
    assert not (run.folder / "ledger.parquet").exists()

    told = json.loads(roambench("fleet", "status", provisioned.bench, "--json").out)
    assert {row["run"] for row in told} == {run_id}  # they wait for their controller
    said = roambench("fleet", "fetch", provisioned.bench, run.folder)
    assert said.code == 0, said
    with RunFolder.open(run.folder) as folder:
        collected = {name: len(folder.records.readings(name)) for name in names}
    assert all(collected[name] > drained[name] for name in names)
    with safe_open(run.folder / "models/outstanding-pi2.safetensors", framework="numpy") as file:
        about = file.metadata()
        assert file.get_tensor("model").shape == (_PARAMETERS,)
    assert (about["of_device"], about["of_order"]) == ("pi2", f"{run_id}/00001/00001/train")
    ledger = pq.read_table(run.folder / "ledger.parquet").to_pylist()
    (trained,) = (row for row in ledger if (row["device"], row["phase"], row["step"]) == ("pi2", "train", 1))
    assert trained["gross_j"] > 0.0
    assert (run.folder / "agents" / "pi1" / "agent.log").stat().st_size > 0

    again = roambench("fleet", "fetch", provisioned.bench, run.folder)
    assert [row["records"].split()[0] for row in again.rows().values()] == ["0", "0", "0"]
    told = json.loads(roambench("fleet", "status", provisioned.bench, "--json").out)
    assert [(row["run"], run_id in row["unsent_runs"]) for row in told] == [("", False)] * 3
    # pi1's trainer was ended in the middle of its work; the same experiment finds it ready again.
    settings = ('systems=["mohawk"]', "trace.steps=2", *ALWAYS_THERE, "learning.local_epochs=1")
    with BenchRun(provisioned.bench, tmp_path / "next", *settings).finished(120.0) as folder:
        assert str(folder.info.state) == "finished"


@pytest.fixture(autouse=True)
def _out_of_any_run(provisioned: BenchHosts) -> Iterator[None]:
    """However a test here ends, its hosts wait for no controller."""
    yield
    for name in provisioned.names:
        provisioned.inside(name, "/opt/roambench/current/bin/roambench-agent ctl end-run || true")
