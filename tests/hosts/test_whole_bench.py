"""From freshly booted hosts to a report, and what happens to hosts that cannot come along."""

from __future__ import annotations

import json
import time
from pathlib import Path

from hosts.card_walk import PROVISION, ROOT, Walked, card_page_commands
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.bench_run import ALWAYS_THERE, BenchRun
from hosts.lab.cli import identified, roambench
from hosts.lab.readings import the_outage
from roambench.contract.events import EventKind
from roambench.rounds.records import OrderAnswered, OrderGiven

_SETTINGS = (
    *('systems=["mohawk"]', "trace.steps=3", "rounds.cloud_every_steps=2"),
    *("learning.local_epochs=1", "energy.idle_baseline_s=3.0"),
)
_SMALL = tuple(word for setting in _SETTINGS for word in ("--set", setting))


def test_the_readme_leads_from_fresh_hosts_over_preflight_and_identify_to_the_report(
    provisioned: BenchHosts, walked: Walked, tmp_path: Path
):
    """Every command of its chapter, word by word; only the run is told to be short and where to write."""
    assert all(row["state"].startswith("changed: ") for row in walked.said.rows().values())
    walk = card_page_commands(provisioned.bench)
    page, runs = tmp_path / "demo.html", tmp_path / "runs"
    ran = []
    provisioned.settle()
    for words in walk[walk.index([*PROVISION, str(provisioned.bench)]) + 1 :]:
        if words[0] == "run":
            words = [*words[:-1], page, "--runs-dir", runs, *_SMALL]
        identifies = words[:2] == ["fleet", "identify"]
        said = identified(*words) if identifies else roambench(*words, timeout_s=500, cwd=ROOT)
        assert said.code == 0, f"{words}:\n{said.out}\n{said.err}"
        ran += [words[1] if words[0] == "fleet" else words[0]]
    assert {"preflight", "identify", "run", "certs"} <= set(ran)
    assert "pi1" in page.read_text()
    (folder,) = runs.glob("*/latest/*/")
    run = json.loads((folder / "run.json").read_text())
    assert (run["state"], run["device_names"]) == ("finished", ["pi1", "pi2", "pi3"])


def test_provisioning_again_changes_nothing_within_five_seconds_a_host(provisioned: BenchHosts):
    """What it needs itself is its quickest of three times: this machine may stand still in one."""
    assert min(provisioned_again_s(provisioned) for _ in range(3)) < 5.0


def provisioned_again_s(provisioned: BenchHosts) -> float:
    """How long the slowest host took; nothing was to be done on any."""
    said = roambench("fleet", "provision", provisioned.bench, "--json")
    assert said.code == 0, said
    rows = json.loads(said.out)
    assert [(row["host"], row["state"], row["steps"]) for row in rows] == [
        (name, "unchanged", []) for name in ("pi1", "pi2", "pi3")
    ]
    return max(row["seconds"] for row in rows)


def test_a_host_rebooted_in_mid_run_is_back_with_its_model_and_its_readings(
    provisioned: BenchHosts, tmp_path: Path
):
    """pi2 restarts between its training of step 1 and the upload of that; pi1 is held so long, or the
    upload might come first."""
    run = BenchRun(provisioned.bench, tmp_path, 'systems=["mohawk"]', "trace.steps=4", *ALWAYS_THERE)
    try:
        run.wait_for(EventKind.TRAIN_STARTED, "pi1", "%/00001/00000/train")
        provisioned.inside("pi1", "pkill -STOP -u roambench")
        run.wait_for(EventKind.TRAIN_FINISHED, "pi2", "%/00001/00001/train")
        provisioned.reboot("pi2")
        provisioned.inside("pi1", "pkill -CONT -u roambench")
        with run.finished() as folder:
            records = list(folder.read_log())
            spans = folder.records.spans("pi2")
            ns = folder.records.readings("pi2").ns
            first_ns, last_ns = folder.info.start_device_ns, folder.info.end_device_ns
    finally:
        run.stop()
    answers = {record.order_id: record for record in records if isinstance(record, OrderAnswered)}
    (trained,) = [name for name in answers if name.endswith("/00001/00001/train")]
    uploads = [r.order_id for r in records if isinstance(r, OrderGiven) and r.train_order_id == trained]
    assert answers[trained].status == "done"
    assert [answers[upload].status for upload in uploads] == ["done"]
    gap_s, back_ns = the_outage(ns[(ns >= first_ns) & (ns <= last_ns)])
    assert 1.5 < gap_s < 60.0  # readings are missing until its agent was back
    assert min(span.start_ns for span in spans if span.order_id in uploads) > back_ns


def test_a_rebooted_host_s_agent_is_back_by_itself(provisioned: BenchHosts):
    provisioned.reboot("pi2")
    deadline_s = time.monotonic() + 120.0
    while True:
        said = roambench("fleet", "status", provisioned.bench, "--only", "pi2", "--json")
        if said.code == 0 and json.loads(said.out)[0]["meter_state"] == "ok":
            return
        assert time.monotonic() < deadline_s, said
        time.sleep(1.0)
