"""How fast local agents are there, and what memory they take after their first training step.

    python benchmarks/agents.py [--agents 8 36]

Goals for 36 agents: all have said hello within 20 s, no process over 260 MB resident, all together at most
3 GB of their own (sum of PSS). Start-up begins before the meter emulator and the fork server (which imports
torch) are started. A trainer in a process of its own shows that a training step does not load torch._dynamo:
that would cost 1.5 CPU-seconds and 70 MB in every agent.

Last, one agent as a board starts it, after a training step of a 2.64 MB model and after three rounds; goal:
300 MB for all its processes. Counted are the distinct pages of memory that they have, which is the sum of PSS
on a board, where no other process has torch. That takes root; else it is the sum of PSS here, where some do.

Then the peak that `run --plan` tells of a trainer, over that of this agent's trainer in three rounds; and the
same of an agent that trains a ResNet-18 (11 million parameters).
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
from setting.figures import keep
from setting.local_fleet import BATCH, MODEL, local_fleet

from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import TrainOrder, UploadOrder
from roambench.experiment.sections import Experiment
from roambench.plan.memory import trainer_peak_bytes
from roambench.runner.world import learning_task_of

IMAGES = 64
MEGABYTE = 1e6
PAGE_BYTES = mmap.PAGESIZE

_TRAINER = """
import sys
from dataclasses import asdict
from pathlib import Path
from roambench.agent.orders.trainer_process import TrainerProcess
from roambench.agent.orders.worker import TrainJob
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.local_training import LocalTraining

folder = Path(sys.argv[1])
trainer = TrainerProcess()
spec = LearningSpec("mohawk_cnn", 1, 10, 0.01, 0.9, 5e-4, 8, str(folder / "shard.safetensors"))
job = TrainJob(
    str(folder / "start.blob"), str(folder / "out.blob"), own_path="", global_path="",
    training=LocalTraining(),
)
answers = [
    trainer.answer({"op": "prepare", "spec": spec.to_json().decode()}),
    trainer.answer({"op": "train", "job": asdict(job)}),
]
assert not any("refused" in answer for answer in answers), answers
print(sum(name.split(".")[:2] == ["torch", "_dynamo"] for name in sys.modules))
"""


def dynamo_modules(folder: Path) -> int:
    """Modules of torch._dynamo in a trainer that took a training step from the files in `folder`."""
    told = subprocess.run(
        [sys.executable, "-c", _TRAINER, str(folder)], capture_output=True, text=True, check=True
    )
    return int(told.stdout)


async def measured(agents: int) -> str:
    async with local_fleet(agents, IMAGES) as local:
        digest = local.fleet.publish(local.model)
        answers = await local.fleet.perform(
            [
                TrainOrder(f"0/{device}/train", device, 0, 0, digest, LocalTraining())
                for device in range(agents)
            ]
        )
        trained = sum(answer.reply is not None for answer in answers)
        memory = local.agents.memory()
        dynamo = dynamo_modules(local.folder / "agents" / local.names[0])
        pss_mb = sum(entry.pss_bytes for entry in memory) / MEGABYTE
        if agents == 36:
            largest = max(max(entry.reader_rss_bytes, entry.trainer_rss_bytes) for entry in memory)
            keep("agents 36: hello", max(local.seen.hello_s.values()))
            keep("agents 36: largest", largest / MEGABYTE)
            keep("agents 36: PSS", pss_mb)
        return (
            f"{agents:6}{max(local.seen.hello_s.values()):12.1f}{max(local.seen.ready_s.values()):12.1f}"
            f"{trained:9}{max(entry.reader_rss_bytes for entry in memory) / MEGABYTE:11.0f}"
            f"{max(entry.trainer_rss_bytes for entry in memory) / MEGABYTE:12.0f}"
            f"{pss_mb:12.0f}{dynamo:9}"
        )


@dataclass(frozen=True, slots=True)
class Memory:
    whole_mb: float  # all distinct pages of an agent's processes
    text: str


def memory_of(processes: list[psutil.Process]) -> Memory:
    """Anonymous and resident MB of each of an agent's processes, and all their distinct pages."""
    sizes = [process.memory_full_info() for process in processes]
    pages = [page_numbers(process.pid) for process in processes]
    distinct = np.unique(np.concatenate(pages)).size * PAGE_BYTES if all(map(len, pages)) else 0
    names = ("agent", "fork server", "trainer")
    parts = ", ".join(
        f"{name} {entry.uss / MEGABYTE:.0f} ({entry.rss / MEGABYTE:.0f})"
        for name, entry in zip(names, sizes, strict=True)
    )
    whole_mb = (distinct or sum(entry.pss for entry in sizes)) / MEGABYTE
    return Memory(whole_mb, f"{whole_mb:.0f} MB{'' if distinct else ' of PSS'}; its own (resident): {parts}")


def page_numbers(pid: int) -> npt.NDArray[np.uint64]:
    """The page frames of a process, from /proc; none where the kernel hides them."""
    found = [np.empty(0, np.uint64)]
    spans = [line.split()[0].split("-") for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        for begin, end in ((int(begin, 16), int(end, 16)) for begin, end in spans):
            pagemap.seek(begin // PAGE_BYTES * 8)
            found.append(np.frombuffer(pagemap.read((end - begin) // PAGE_BYTES * 8), np.uint64))
    entries = np.concatenate(found)
    numbers = entries[entries >> np.uint64(63) == 1] & np.uint64((1 << 55) - 1)
    return numbers if numbers.any() else numbers[:0]


async def alone(model_name: str) -> tuple[Memory, Memory, int]:
    """What an agent's processes take after a training step and after three rounds, and its trainer's peak of
    resident bytes."""
    async with local_fleet(1, IMAGES, as_boards=True, model_name=model_name) as local:
        agent = psutil.Process(local.agents.pids[local.names[0]])
        for step in range(3):
            digest, training = local.fleet.publish(local.model + step * 1e-6), f"{step}/0/train"
            orders = [
                TrainOrder(training, 0, step, 0, digest, LocalTraining()),
                UploadOrder(f"{step}/0/up", 0, step, 0, training),
            ]
            for order in orders:
                (answer,) = await local.fleet.perform([order])
                assert answer.reply is not None, answer
                if step == 0 and order is orders[0]:
                    after_one = memory_of([agent, *agent.children(recursive=True)])
        processes = [agent, *agent.children(recursive=True)]
        return after_one, memory_of(processes), most_resident_bytes(processes[-1].pid)


def most_resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def planned_bytes(model_name: str) -> int:
    """What `run --plan` says a trainer of this model takes."""
    experiment = Experiment.model_validate(
        {
            "name": "plan",
            "fleet": {"agents": 1, "aps": 1},
            "learning": {"model": model_name, "images_per_device": IMAGES, "batch_size": BATCH},
        }
    )
    return trainer_peak_bytes(experiment, learning_task_of(experiment, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[8, 36])
    arguments = parser.parse_args()
    print(
        f"{'agents':>6}{'hello s':>12}{'ready s':>12}{'trained':>9}{'reader MB':>11}{'trainer MB':>12}"
        f"{'sum PSS MB':>12}{'dynamo':>9}"
    )
    for agents in arguments.agents:
        print(asyncio.run(measured(agents)), flush=True)
    print(f"{'goal':>6}{'<= 20':>12}{'':12}{'all':>9}{'<= 260':>11}{'<= 260':>12}{'<= 3000':>12}{'0':>9}")
    plan_ratios = []
    for model_name in (MODEL, "resnet18"):
        after_one, after_three, most_bytes = asyncio.run(alone(model_name))
        planned = planned_bytes(model_name)
        print(f"one agent of {model_name} as on a board, after a training step: {after_one.text}", flush=True)
        print(f"after three rounds: {after_three.text}")
        print(f"its trainer's peak: {most_bytes / MEGABYTE:.0f} MB, planned {planned / MEGABYTE:.0f}")
        plan_ratios.append(planned / most_bytes)
        if model_name == MODEL:
            keep("agents one: PSS", after_three.whole_mb)
    keep("agents plan × trainer's peak", *plan_ratios)


if __name__ == "__main__":
    main()
