"""An agent that may open no more files: it says so, goes on reading its meter, and works again afterwards."""

from __future__ import annotations

import resource

import pytest

from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.records import RecordKind
from roambench.runs.folder import RunFolder


@pytest.mark.timeout(600)
def test_an_agent_that_may_open_no_file_says_so_reads_on_and_works_again(launch):
    run = launch("fleet.agents=2", "local.sgd_step_s=0.2", "trace.steps=6")
    run.wait_for_event(EventKind.TRAIN_STARTED, "pi-01", "%")
    agent = run.agent("pi-01").reader
    before = agent.rlimit(resource.RLIMIT_NOFILE)
    agent.rlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    run.wait_for_event(EventKind.AGENT_LACKS, "pi-01", "%Too many open files%")
    agent.rlimit(resource.RLIMIT_NOFILE, before)
    seen = run.count(EventKind.TRAIN_STARTED, "pi-01")
    launch.until(lambda: run.count(EventKind.TRAIN_STARTED, "pi-01") > seen, 120, "another training")
    run.finish()
    with RunFolder.open(run.folder()) as folder:
        records = folder.records
        events = [event.kind for event in records.events("pi-01")]
        phases = {span.phase for span in records.spans("pi-01")}
        counts = records.counts("pi-01")
    assert events.count(EventKind.AGENT_STARTED) == 1  # it lived on
    assert EventKind.AGENT_LACKS in events
    assert Phase.LOST not in phases
    assert counts[RecordKind.READING] > 10
