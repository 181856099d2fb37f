"""One decentralised system on a fleet of real agents that is ready: baselines, exchanges, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from rich.console import Console

from roambench.contract.model_blob import encode
from roambench.controller.agent_bench import AgentBench
from roambench.controller.agents_kept import AgentsKept
from roambench.controller.agents_run import begin, step_end
from roambench.controller.checkpoints import Checkpoints
from roambench.controller.kept import average_kept
from roambench.controller.narrator import Narrator
from roambench.controller.pacing import PauseGate
from roambench.controller.peer_run import PeerWorld
from roambench.controller.peer_world import class_counts, peer_settings
from roambench.controller.progress import RunProgress
from roambench.controller.scoring import TestSetEvaluator
from roambench.rounds.peer_loop import run_peers
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

B = TypeVar("B", bound=AgentBench)


async def run_peers_on_agents(
    world: PeerWorld,
    system: str,
    folder: RunFolder,
    console: Console,
    open_bench: Callable[[Checkpoints], AbstractAsyncContextManager[B]],
    ready: Callable[[B], None] = lambda bench: None,
    outage_s: float = 0.0,
) -> None:
    """Run `system` on the agents of `open_bench` into `folder`, to the exported ledger; or go on with it,
    `outage_s` after its controller died.

    `ready` hears of them before anything is measured.
    """
    experiment, lesson, moved = world.experiment, world.lesson, world.moved
    layout, trace = lesson.layout, moved.trace
    settings = peer_settings(experiment, system, folder.info.run_id, lesson, trace.steps)
    baseline_s = experiment.energy.idle_baseline_s
    folder.update(
        model_parameters=layout.size, model_bytes=len(encode(lesson.initial_model, layout.fingerprint))
    )
    checkpoints = Checkpoints(experiment, folder)
    async with open_bench(checkpoints) as bench:
        ready(bench)
        kept = AgentsKept(folder.path, bench.agents_fleet, bench.clock, layout.fingerprint)
        state = checkpoints.peers(kept)
        try:
            await begin(bench, folder, checkpoints, baseline_s, outage_s)
            with (
                RunProgress(console, trace, system=system) as progress,
                average_kept(folder, system, lesson, settings) as follow,
            ):
                await run_peers(
                    settings,
                    moved,
                    bench.fleet,
                    Narrator(folder.journal, progress, bench.watch),
                    lesson.initial_model,
                    class_counts=class_counts(lesson),
                    evaluator=TestSetEvaluator(experiment, lesson),
                    on_step=lambda _, now: checkpoints.after_peers(now, settings.steps, kept),
                    on_collected=follow,
                    pace=step_end(
                        experiment,
                        trace.step_s,
                        bench,
                        PauseGate(folder.path, folder.journal, bench.clock, progress.say),
                        0 if state is None else state.next_step,
                    ),
                    state=state,
                )
            bench.watch.step = settings.steps
            await bench.rest(settings.run_id, settings.steps)
            await bench.idle(baseline_s)
        finally:
            folder.update(end_device_ns=bench.clock.now_ns())
        await bench.clocks.after()
    export_run(folder)
    folder.update(state=RunState.FINISHED)
    checkpoints.forget()
