"""What a round costs beyond training: orders, transfers, checks, files and records of 10 agents at 2.6 MB.

    python benchmarks/rounds.py [--agents 1 2 10] [--rounds 20] [--images 1]

Real agents over mutual TLS with their meters, as the product starts them, but nothing emulated: no stretched
training, no paced link. A round is publish + perform(train orders) + perform(upload orders). "overhead" is
its wall time minus the slowest agent's SGD, the CPU time of its training thread (`TrainReply.cpu_s`: start
model in, k1 epochs, new model out; reading, checking, writing and hashing the model's bytes are overhead).

Ten boards train beside each other, ten agents on a laptop share its cores. So two more columns: "SGD share"
is the SGD of all agents over the cores of this machine, which no fleet could beat here, and "CPU per agent"
is what the processes spend on one agent's round beside SGD: of it "agent" (meter, session, transfers, files),
"trainer" (files, coding, the digest) and "controller". The meter emulator is not in it. One image each keeps
SGD small. The goals are 29 ms of CPU per agent, 9 of them the controller's, and 200 ms for 10 agents.
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

    @property
    def wall_s(self) -> float:
        return self.train_s + self.upload_s

    @property
    def overhead_s(self) -> float:
        return self.wall_s - max(self.sgd_s)


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU time per agent and round: CPU clocks tick every 10 ms, only their sum over all rounds means
    something, and reading them between rounds is CPU time of the controller."""

    agent_s: float
    trainer_s: float  # beside SGD
    controller_s: float

    @property
    def sum_s(self) -> float:
        return self.agent_s + self.trainer_s + self.controller_s


def processes_of(local: LocalFleet) -> tuple[list[psutil.Process], ...]:
    """Agents, their trainers (with the servers that fork them), the controller."""
    agents = [psutil.Process(pid) for pid in local.agents.pids.values()]
    return agents, [child for agent in agents for child in agent.children(recursive=True)], [psutil.Process()]


def cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


async def performed(local: LocalFleet, orders: list[Order]) -> list[Answer]:
    answers = await local.fleet.perform(orders)
    for answer in answers:
        if answer.reply is None:
            raise SystemExit(f"{local.names[answer.device]}: {answer.status}: {answer.reason}")
    return answers


async def one_round(local: LocalFleet, step: int) -> Round:
    devices = range(len(local.names))
    model = local.model + step * 1e-6  # a new version each time, as in a run
    started_s = time.perf_counter()
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
    return Round(trained_s - started_s, uploaded_s - trained_s, sgd_s)


async def measured(agents: int, images: int, rounds: int) -> tuple[list[Round], Spent]:
    async with local_fleet(agents, images) as local:
        processes = processes_of(local)
        for step in range(WARM_UP_ROUNDS):
            await one_round(local, step)
        before_s = [cpu_seconds(kind) for kind in processes]
        done = [await one_round(local, WARM_UP_ROUNDS + step) for step in range(rounds)]
        agents_s, trainers_s, controller_s = (
            (cpu_seconds(kind) - kind_s) / rounds / agents
            for kind, kind_s in zip(processes, before_s, strict=True)
        )
    sgd_s = sum(sum(one.sgd_s) for one in done) / rounds / agents
    spent = Spent(agents_s, trainers_s - sgd_s, controller_s)
    if agents == 10:
        keep_figures(done, spent)
    return done, spent


def keep_figures(rounds: list[Round], spent: Spent) -> None:
    overheads_ms = [done.overhead_s * 1e3 for done in rounds]
    limit = f"CPU {spent.sum_s * 1e4 / CORES:.0f}"
    keep("rounds overhead of 10", min(overheads_ms), statistics.median(overheads_ms), limit=limit)
    keep("rounds CPU an agent", spent.sum_s * 1e3)
    keep("rounds controller an agent", spent.controller_s * 1e3)


def milliseconds(values: list[float]) -> str:
    """Best and median: the first is the fleet's, the second also what else the machine did."""
    return f"{min(values) * 1e3:9.0f} ({statistics.median(values) * 1e3:4.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 2, 10])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--images", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{arguments.rounds} rounds, milliseconds: best (median); {CORES} cores; goals: overhead <= 200,")
    print("CPU per agent beside SGD <= 29, of it the controller's <= 9")
    columns = ("train", "upload", "slowest SGD", "overhead", "SGD share")
    print(
        f"{'agents':>6}"
        + "".join(f"{column:>16}" for column in columns)
        + f"{'CPU per agent = agent + trainer + controller':>47}"
    )
    for agents in arguments.agents:
        rounds, spent = asyncio.run(measured(agents, arguments.images, arguments.rounds))
        print(
            f"{agents:6}"
            + milliseconds([done.train_s for done in rounds])
            + milliseconds([done.upload_s for done in rounds])
            + milliseconds([max(done.sgd_s) for done in rounds])
            + milliseconds([done.overhead_s for done in rounds])
            + milliseconds([sum(done.sgd_s) / CORES for done in rounds])
            + f"{spent.sum_s * 1e3:13.1f} = {spent.agent_s * 1e3:5.1f} + {spent.trainer_s * 1e3:7.1f}"
            + f" + {spent.controller_s * 1e3:10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
