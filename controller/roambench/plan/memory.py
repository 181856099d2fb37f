"""The memory that training takes on a board: measured in a trainer of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from roambench.agent.orders.worker import TrainJob
from roambench.contract.model_blob import encode
from roambench.experiment.sections import Experiment
from roambench.learning.shards import write_shard
from roambench.runner.world import LearningTask, learning_spec

#: What a board of 1 GB has for a trainer: less what kernel and GPU keep, and 250 MB of the agent's other
#: processes and of the system.
_SMALL_BOARD_BYTES: Final = 700_000_000
_BATCHES: Final = 2

#: Answers requests on standard input as an agent's trainer does, and prints its peak of resident memory, less
#: the libraries of CUDA, which no board loads.
_TRAINER: Final = """
import json, sys
from pathlib import Path
from roambench.agent.orders.trainer_process import TrainerProcess
from roambench.learning.malloc import keep_freed_memory

keep_freed_memory()
trainer = TrainerProcess()
for request in json.load(sys.stdin):
    refused = trainer.answer(request).get("refused")
    if refused:
        sys.exit(refused)
(line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
kilobytes, cuda = int(line.split()[1]), False
for line in Path("/proc/self/smaps").read_text(errors="replace").splitlines():
    if "-" in line.split(" ")[0]:  # a mapping begins
        cuda = "/nvidia/" in line or "cuda" in line.rpartition("/")[2]
    elif cuda and line.startswith("Rss:"):
        kilobytes -= int(line.split()[1])
print(1024 * kilobytes)
"""


def trainer_peak_bytes(experiment: Experiment, learning_task: LearningTask) -> int:
    """Return the most memory that a trainer is resident with (bytes) while it trains two batches from a start
    model, holding an earlier and a global model beside it; 0 where that could not be tried here."""
    with tempfile.TemporaryDirectory(prefix="roambench-") as name:
        folder = Path(name)
        shard, start = folder / "shard.safetensors", folder / "start.blob"
        write_shard(shard, learning_task.shard(0, most=_BATCHES * experiment.learning.batch_size))
        start.write_bytes(encode(learning_task.initial_model, learning_task.layout.fingerprint))
        spec = learning_spec(experiment, learning_task, shard)
        job = TrainJob(
            str(start), str(folder / "out.blob"), str(start), str(start), experiment.learning.training()
        )
        requests = [
            {"op": "prepare", "spec": spec.to_json().decode()},
            {"op": "train", "job": asdict(job)},
        ]
        tried = subprocess.run(
            [sys.executable, "-c", _TRAINER],
            input=json.dumps(requests),
            capture_output=True,
            text=True,
            check=False,
        )
    return int(tried.stdout) if tried.returncode == 0 else 0


def memory_doubts(experiment: Experiment, peak_bytes: int) -> Iterator[str]:
    """Say so where a small board has no room for the trainer."""
    if peak_bytes > _SMALL_BOARD_BYTES:
        yield (
            f"a trainer of {experiment.learning.model} takes {peak_bytes / 1e6:,.0f} MB: boards of 1 GB "
            "cannot train it; a smaller learning.model or learning.batch_size takes less"
        )
