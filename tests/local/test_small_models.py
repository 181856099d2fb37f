"""Small models within sessions: a run learns as it does over the data port, also where agents are killed."""

from __future__ import annotations

import psutil
import pytest

from roambench.contract.events import EventKind
from roambench.contract.orders import order_id
from roambench.rounds.records import CloudAggregated, EdgeAggregated, OrderAnswered

pytestmark = [pytest.mark.timeout(600)]

NATIVE = ("local.upload_mbit_s=0", "local.download_mbit_s=0", "fleet.deadline_s=600")
PACED = ("local.upload_mbit_s=400", "local.download_mbit_s=400", "fleet.deadline_s=600")


def digests(run) -> list[str]:
    """Of every aggregation, in order."""
    return [record.digest for kind in (EdgeAggregated, CloudAggregated) for record in run.of(kind)]


def connections(process: psutil.Process) -> int:
    return sum(1 for line in process.net_connections("tcp") if line.status == psutil.CONN_ESTABLISHED)


def test_a_run_without_data_connections_and_with_kills_learns_the_same(launch) -> None:
    """pi-02's reader is killed between its training and its answer, pi-03's as soon as its upload began."""
    paced, native = launch(*PACED), launch(*NATIVE, late=(0.5, 0.0))

    def order(step: int, device: int, kind: str) -> str:
        return order_id("small-mohawk", step, device, kind)

    native.wait_for_event(EventKind.TRAIN_FINISHED, "pi-01", order(0, 0, "train"))
    assert connections(native.agent("pi-01").reader) == 1
    paced.wait_for_event(EventKind.TRAIN_FINISHED, "pi-01", order(0, 0, "train"))
    assert connections(paced.agent("pi-01").reader) == 2
    for name, moment, wanted in (
        ("pi-02", EventKind.TRAIN_FINISHED, order(1, 1, "train")),
        ("pi-03", EventKind.UPLOAD_STARTED, order(3, 2, "upload")),
    ):
        reader = native.agent(name).reader
        native.wait_for_event(moment, name, wanted)
        reader.kill()
    for run in (paced, native):
        run.finish()
    assert {answer.status for answer in native.of(OrderAnswered)} == {"done"}
    for name in ("pi-02", "pi-03"):
        assert len(native.events(EventKind.SESSION_OPENED, name)) == 2
    assert len(digests(native)) > 6
    assert digests(native) == digests(paced)
