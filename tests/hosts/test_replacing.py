"""A board that dies lives on in a spare: its name, what it had not handed over, and the work it was doing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors import safe_open

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ALWAYS_THERE, BenchRun
from hosts.lab.card import opened
from hosts.lab.cli import roambench
from hosts.lab.network import Network
from hosts.lab.readings import the_outage
from roambench.contract.events import EventKind
from roambench.rounds.records import OrderAnswered, OrderGiven
from roambench.runs.folder import RunFolder

_PI2_TRAINED = "%/00001/00001/train"
_ASK = "/opt/roambench/current/bin/roambench-agent ctl"


@pytest.fixture
def two_and_a_spare(provisioned: BenchHosts) -> Iterator[BenchHosts]:
    """pi1 and pi2 take part in runs, pi3 owes nobody anything; afterwards each is itself again."""
    said = roambench("fleet", "fetch", provisioned.bench)
    assert said.code == 0, said
    yield provisioned
    provisioned.on("pi2")
    for name in provisioned.names:
        provisioned.inside(name, f"pkill -CONT -u roambench || true; {_ASK} end-run || true")
    roambench("fleet", "replace", provisioned.bench, "pi2", "--undo")
    said = roambench("fleet", "provision", provisioned.bench, "--only", "pi2", "--only", "pi3")
    assert said.code == 0, said


def test_a_board_that_dies_in_mid_run_lives_on_in_a_spare_that_gets_its_card(
    two_and_a_spare: BenchHosts, tmp_path: Path
):
    """pi2 loses its power after it trained in step 1 and before its upload; pi1 is held so long."""
    hosts = two_and_a_spare
    machine = hosts.inside("pi2", "cat /etc/machine-id").strip()
    run = BenchRun(hosts.bench, tmp_path, *_two_devices("trace.steps=4"))
    try:
        run.wait_for(EventKind.TRAIN_STARTED, "pi1", "%/00001/00000/train")
        hosts.inside("pi1", "pkill -STOP -u roambench")
        run.wait_for(EventKind.TRAIN_FINISHED, "pi2", _PI2_TRAINED)
        hosts.off("pi2")
        with opened(hosts.folder / "cards/pi2", tmp_path / "card") as card:
            said = roambench("fleet", "replace", hosts.bench, "pi2", "pi3", "--card", card)
        assert said.code == 0, said
        assert "pi2's card handed over" in said.out
        hosts.inside("pi1", "pkill -CONT -u roambench")
        with run.finished() as folder:
            records = list(folder.read_log())
            spans = folder.records.spans("pi2")
            ns = folder.records.readings("pi2").ns
            first_ns, last_ns = folder.info.start_device_ns, folder.info.end_device_ns
    finally:
        run.stop()
    answers = {record.order_id: record for record in records if isinstance(record, OrderAnswered)}
    (trained,) = (name for name in answers if name.endswith(_PI2_TRAINED.strip("%")))
    uploads = [r.order_id for r in records if isinstance(r, OrderGiven) and r.train_order_id == trained]
    assert [answers[upload].status for upload in uploads] == ["done"]
    # Not a second of readings is missing but those between the board's death and the spare's first.
    gap_s, back_ns = the_outage(ns[(ns >= first_ns) & (ns <= last_ns)])
    assert gap_s > 2.5
    assert min(span.start_ns for span in spans if span.order_id in uploads) > back_ns
    (told,) = json.loads(roambench("fleet", "status", hosts.bench, "--only", "pi2", "--json").out)
    assert (told["run"], told["unsent_runs"]) == ("", [])
    settings = json.loads(hosts.inside("pi3", "cat /etc/roambench/agent.json"))
    assert (settings["device"], settings["machine_id"]) == ("pi2", machine)
    listed = roambench("fleet", "list", hosts.bench).out
    assert hosts.address("pi3") in listed
    assert hosts.address("pi2") not in listed


@pytest.mark.slow
def test_what_a_host_has_of_a_run_it_saw_no_end_of_moves_to_a_spare_and_is_fetched_there(
    two_and_a_spare: BenchHosts, tmp_path: Path
):
    """pi2's cable is pulled after it trained; the run ends without it. Then a spare takes its place."""
    hosts = two_and_a_spare
    network = Network(int(hosts.folder.name))
    run = BenchRun(hosts.bench, tmp_path, *_two_devices("trace.steps=3", "fleet.deadline_s=10.0"))
    try:
        run.wait_for(EventKind.TRAIN_STARTED, "pi1", "%/00001/00000/train")
        hosts.inside("pi1", "pkill -STOP -u roambench")
        run.wait_for(EventKind.TRAIN_FINISHED, "pi2", _PI2_TRAINED)
        network.plug(hosts.names.index("pi2"), into=False)
        hosts.inside("pi1", "pkill -CONT -u roambench")
        with run.finished() as folder:
            run_id, before = folder.info.run_id, len(folder.records.readings("pi2"))
    finally:
        run.stop()
        network.plug(hosts.names.index("pi2"), into=True)
    said = roambench("fleet", "replace", hosts.bench, "pi2", "pi3")
    assert said.code == 0, said
    assert "pi2 handed over" in said.out
    assert hosts.inside("pi2", "systemctl is-active roambench-agent || true") == "inactive\n"
    said = roambench("fleet", "fetch", hosts.bench, run.folder)
    assert said.code == 0, said
    with RunFolder.open(run.folder) as folder:
        assert len(folder.records.readings("pi2")) > before
    with safe_open(run.folder / "models/outstanding-pi2.safetensors", framework="numpy") as file:
        assert file.metadata()["of_order"] == f"{run_id}{_PI2_TRAINED.strip('%')}"


def _two_devices(*settings: str) -> tuple[str, ...]:
    return ('systems=["mohawk"]', "fleet.agents=2", *ALWAYS_THERE, *settings)
