"""A whole fleet on one machine: all agents come, train and upload, and memory stays what a laptop has."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from roambench.contract.events import EventKind
from roambench.rounds.records import EdgeAggregated, OrderAnswered, StepClosed
from soaking.processes import output_of

MIB = 2**20
FLEET36 = Path(__file__).resolve().parents[2] / "experiments" / "fleet36.toml"
SAID = re.compile(
    r"(\d+) agents connected within ([\d.]+) s; memory: largest process (\d+) MiB resident, "
    r"all agents together (\d+) MiB"
)
AGENTS = 36
#: Of one process. What CUDA's libraries take of a torch that is built with them, 160 MB, is not ours.
MOST_BYTES = 260e6 if torch.version.cuda is None else 420e6


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_36_agents_are_there_in_20_seconds_and_train_and_upload_in_little_memory(launch):
    settings = ("energy.idle_baseline_s=2", "rounds.rest_s=0")
    # Executed: what forks the commands of tests has loaded more than a controller, and so have agents of it.
    run = launch(*settings, file=FLEET36, name="fleet36", forked=False)
    run.wait_for_event(EventKind.TRAIN_FINISHED, "pi-36", "%/00003/%", 150)
    resident_mib, own_mib, processes = memory_of(run)
    run.finish()

    said = SAID.search(run.text())
    assert said is not None, run.text()
    assert int(said[1]) == AGENTS
    assert float(said[2]) < 20.0
    assert int(said[3]) * MIB <= MOST_BYTES
    assert int(said[4]) * MIB <= 3e9
    # Once more after three rounds of training: no process of an agent has grown beyond it.
    assert processes == 3 * AGENTS
    assert resident_mib * MIB <= MOST_BYTES
    assert own_mib * MIB <= 3e9

    answers = run.of(OrderAnswered)
    work = [a for a in answers if a.order_id.endswith(("train", "upload"))]
    assert {answer.status for answer in work} == {"done"}
    trained = Counter(answer.device for answer in work if answer.order_id.endswith("train"))
    uploaded = Counter(answer.device for answer in work if answer.order_id.endswith("upload"))
    assert len(trained) == len(uploaded) == AGENTS
    # In five steps: nothing to upload in the first, no board to train in the last.
    assert set(trained.values()) == set(uploaded.values()) == {4}
    assert sum(len(record.devices) for record in run.of(EdgeAggregated)) == 4 * AGENTS
    assert run.of(StepClosed)[-1].accuracy > 0.3  # of ten digits


def memory_of(run) -> tuple[float, float, int]:
    """MiB of the largest agent process (RSS) and of all together (PSS), and how many processes they are."""
    sizes = [
        process.memory_full_info() for process in run.processes() if output_of(process).endswith("/agent.log")
    ]
    return max(size.rss for size in sizes) / MIB, sum(size.pss for size in sizes) / MIB, len(sizes)
