"""What a round costs beyond training: orders, transfers, checks, files and records of 10 agents at 2.6 MB.

    python benchmarks/rounds.py [--agents 1 2 10] [--rounds 20] [--images 1]

Real agents over mutual TLS with their meters, as the product starts them, but nothing emulated: no stretched
training, no paced link. A round is publish + perform(train orders) + perform(upload orders). "overhead" is
its wall time minus the slowest agent's SGD, the CPU time of its training thread (`TrainReply.cpu_s`: start
model in, k1 epochs, new model out; reading, checking, writing and hashing the model's bytes are overhead).
The goal is 100 ms for 10 agents.

Ten boards train beside each other, ten agents on a laptop share its cores. So two more columns: "SGD share"
is the SGD of all agents over the cores of this machine, which no fleet could beat here, and "CPU per agent"
is what agent, trainer and controller spend on one agent's round beside SGD. One image each keeps SGD small.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from dataclasses import dataclass

import psutil
from setting.figures import keep
from setting.local_fleet import LocalFleet, local_fleet

from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Answer, Order, TrainOrder, TrainReply, UploadOrder

WARM_UP_ROUNDS = 3
CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Round:
    train_s: float  # wall of publish and all train orders
    upload_s: float  # wall of all upload orders
    sgd_s: tuple[float, ...]  # CPU time of every agent's SGD
    cpu_s: float  # of all processes

    @property
    def wall_s(self) -> float:
        return self.train_s + self.upload_s

    @property
    def overhead_s(self) -> float:
        return self.wall_s - max(self.sgd_s)


def processes_of(local: LocalFleet) -> list[psutil.Process]:
    agents = [psutil.Process(pid) for pid in local.agents.pids.values()]
    return [
        psutil.Process(),
        *agents,
        *(child for agent in agents for child in agent.children(recursive=True)),
    ]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


async def performed(local: LocalFleet, orders: list[Order]) -> list[Answer]:
    answers = await local.fleet.perform(orders)
    for answer in answers:
        if answer.reply is None:
            raise SystemExit(f"{local.names[answer.device]}: {answer.status}: {answer.reason}")
    return answers


async def one_round(local: LocalFleet, step: int, processes: list[psutil.Process]) -> Round:
    devices = range(len(local.names))
    model = local.model + step * 1e-6  # a new version each time, as in a run
    cpu_s, started_s = cpu_seconds(processes), time.perf_counter()
    digest = local.fleet.publish(model)
    trained = await performed(
        local,
        [
            TrainOrder(f"{step}/{device}/train", device, step, 0, digest, LocalTraining(1, step))
            for device in devices
        ],
    )
    trained_s = time.perf_counter()
    await performed(
        local,
        [UploadOrder(f"{step}/{device}/up", device, step, 0, f"{step}/{device}/train") for device in devices],
    )
    uploaded_s = time.perf_counter()
    local.fleet.retain([])
    sgd_s = tuple(answer.reply.cpu_s for answer in trained if isinstance(answer.reply, TrainReply))
    return Round(trained_s - started_s, uploaded_s - trained_s, sgd_s, cpu_seconds(processes) - cpu_s)


async def measured(agents: int, images: int, rounds: int) -> list[Round]:
    async with local_fleet(agents, images) as local:
        processes = processes_of(local)
        return [await one_round(local, step, processes) for step in range(WARM_UP_ROUNDS + rounds)][
            WARM_UP_ROUNDS:
        ]


def milliseconds(values: list[float]) -> str:
    """Best and median: the first is the fleet's, the second also what else the machine did."""
    return f"{min(values) * 1e3:9.0f} ({statistics.median(values) * 1e3:4.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 2, 10])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--images", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{arguments.rounds} rounds, milliseconds: best (median); {CORES} cores; goal: overhead <= 100")
    print(
        f"{'agents':>6}{'train':>16}{'upload':>16}{'slowest SGD':>16}{'overhead':>16}"
        f"{'SGD share':>16}{'CPU per agent':>16}"
    )
    for agents in arguments.agents:
        rounds = asyncio.run(measured(agents, arguments.images, arguments.rounds))
        # CPU clocks tick every 10 ms: only their sum over all rounds means something.
        beside_s = sum(done.cpu_s - sum(done.sgd_s) for done in rounds) / len(rounds) / agents
        print(
            f"{agents:6}"
            + milliseconds([done.train_s for done in rounds])
            + milliseconds([done.upload_s for done in rounds])
            + milliseconds([max(done.sgd_s) for done in rounds])
            + milliseconds([done.overhead_s for done in rounds])
            + milliseconds([sum(done.sgd_s) / CORES for done in rounds])
            + f"{beside_s * 1e3:16.0f}",
            flush=True,
        )
        if agents == 10:
            overheads = [done.overhead_s * 1e3 for done in rounds]
            floor_ms = beside_s * 1e3 * agents / CORES
            keep(
                "rounds overhead of 10",
                min(overheads),
                statistics.median(overheads),
                limit=f"CPU {floor_ms:.0f}",
            )
            keep("rounds CPU an agent", beside_s * 1e3)


if __name__ == "__main__":
    main()
