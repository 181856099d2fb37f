"""One system on a local fleet, from the first process to the closed run folder."""

from __future__ import annotations

from rich.console import Console

from roambench.controller.agents_run import run_on_agents
from roambench.controller.config.sections import Experiment
from roambench.controller.local_bench import LocalBench, local_bench
from roambench.controller.peer_agents_run import run_peers_on_agents
from roambench.controller.peer_run import PeerWorld
from roambench.controller.world import Movement
from roambench.runs.folder import RunFolder


async def run_local(
    experiment: Experiment,
    system: str,
    movement: Movement,
    folder: RunFolder,
    console: Console,
    outage_s: float = 0.0,
) -> None:
    """Run `system` on local agents into `folder`, from the first process to the exported ledger; or go on
    with it, `outage_s` after its controller died."""
    await run_on_agents(
        experiment,
        system,
        movement,
        folder,
        console,
        lambda lesson, found: local_bench(experiment, lesson, folder, console.print, checkpoints=found),
        lambda bench: _say_fleet(console, bench),
        outage_s,
    )


async def run_peers_local(
    world: PeerWorld, system: str, folder: RunFolder, console: Console, outage_s: float = 0.0
) -> None:
    """The same for a system without a server: agents exchange their models with each other."""
    await run_peers_on_agents(
        world,
        system,
        folder,
        console,
        lambda found: local_bench(world.experiment, world.lesson, folder, console.print, checkpoints=found),
        lambda bench: _say_fleet(console, bench),
        outage_s,
    )


def _say_fleet(console: Console, bench: LocalBench) -> None:
    """Start-up figures of the local fleet: users size their laptops by them."""
    hello_s = bench.watch.hello_s
    memory = bench.agents.memory()
    mib = 2**20
    console.print(
        f"{len(hello_s)} agents said hello within {max(hello_s.values()):.1f} s; memory: largest process "
        f"{max(max(m.reader_rss_bytes, m.trainer_rss_bytes) for m in memory) / mib:.0f} MiB resident, all "
        f"agents together {sum(m.pss_bytes for m in memory) / mib:.0f} MiB of their own (PSS)",
        highlight=False,
    )
