"""One system on a fleet of real agents that is ready: baselines, rounds, the model, the exported ledger."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from rich.console import Console

from roambench.contract.model_blob import encode
from roambench.controller.agent_bench import AgentBench
from roambench.controller.agents_kept import AgentsKept
from roambench.controller.checkpoints import Checkpoints
from roambench.controller.composition import rounds_of
from roambench.controller.config.sections import Experiment
from roambench.controller.kept import global_model_kept
from roambench.controller.link_notes import link_notes
from roambench.controller.narrator import Narrator
from roambench.controller.pacing import ClockPace, PauseGate, start_delay_s, step_length_s
from roambench.controller.progress import RunProgress
from roambench.controller.scoring import TestSetEvaluator
from roambench.controller.world import Lesson, Movement, lesson_of
from roambench.rounds.loop import run_rounds
from roambench.rounds.records import RunResumed
from roambench.rounds.run import Pace, StepSummary
from roambench.rounds.state import RunState as RoundsState
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

B = TypeVar("B", bound=AgentBench)


async def run_on_agents(
    experiment: Experiment,
    system: str,
    movement: Movement,
    folder: RunFolder,
    console: Console,
    open_bench: Callable[[Lesson, Checkpoints], AbstractAsyncContextManager[B]],
    ready: Callable[[B], None] = lambda bench: None,
    outage_s: float = 0.0,
) -> None:
    """Run `system` on the agents of `open_bench` into `folder`, to the exported ledger; or go on with it,
    `outage_s` after its controller died.

    `ready` hears of the bench before anything is measured.
    """
    names = folder.info.device_names
    lesson = lesson_of(experiment, len(names))
    samples = [len(part) for part in lesson.parts]
    rounds = rounds_of(experiment, system, movement, folder, samples, lesson.layout.shapes)
    evaluator = TestSetEvaluator(experiment, lesson)
    baseline_s = experiment.energy.idle_baseline_s
    model_bytes = len(encode(lesson.initial_model, lesson.layout.fingerprint))
    folder.update(model_parameters=lesson.layout.size, model_bytes=model_bytes)
    checkpoints = Checkpoints(experiment, folder)
    async with open_bench(lesson, checkpoints) as bench:
        ready(bench)
        kept = AgentsKept(folder.path, bench.agents_fleet, bench.clock, lesson.layout.fingerprint)
        state = checkpoints.rounds(kept)
        try:
            await begin(bench, folder, checkpoints, baseline_s, outage_s)
            with (
                RunProgress(console, movement.trace, system=system) as progress,
                global_model_kept(folder, system, lesson, state) as follow,
            ):

                def step_closed(summary: StepSummary, now: RoundsState) -> None:
                    follow(summary, now)
                    checkpoints.after(now, kept)

                journal = Narrator(folder.journal, progress, bench.watch)
                await run_rounds(
                    rounds.settings,
                    rounds.system,
                    rounds.association,
                    bench.fleet,
                    journal,
                    lesson.initial_model,
                    throughput=rounds.throughput,
                    evaluator=evaluator,
                    on_step=step_closed,
                    pace=step_end(
                        experiment,
                        movement.trace.step_s,
                        bench,
                        PauseGate(folder.path, folder.journal, bench.clock, progress.say),
                        0 if state is None else state.next_step,
                    ),
                    state=state,
                )
            bench.watch.step = rounds.settings.steps
            await bench.rest(rounds.settings.run_id, rounds.settings.steps)
            await bench.idle(baseline_s)
        finally:
            folder.update(end_device_ns=bench.clock.now_ns())
        await bench.clocks.after()
    export_run(folder)
    for note in link_notes(folder.read_journal(), experiment.links.port_mbit_s):
        console.print(note, highlight=False, soft_wrap=True)
    folder.update(state=RunState.FINISHED)
    checkpoints.forget()


async def begin(
    bench: AgentBench, folder: RunFolder, checkpoints: Checkpoints, baseline_s: float, outage_s: float
) -> None:
    """What comes before the first step: the clocks' check, and an idle baseline; of a run that goes on, its
    record of where, with everybody idling."""
    await bench.clocks.before({name: folder.records.events(name) for name in folder.info.device_names})
    found = checkpoints.found
    if found is None:
        folder.update(start_device_ns=bench.clock.now_ns())
        await bench.idle(baseline_s)
    else:
        bench.watch.step = found.next_step
        await bench.rest(folder.info.run_id, found.next_step)
        now_ns, since_ns = bench.clock.now_ns(), found.fleet["at_ns"]
        folder.journal.append(RunResumed(found.next_step, now_ns, outage_s, since_ns))


def step_end(
    experiment: Experiment, trace_step_s: float, bench: AgentBench, gate: PauseGate, first_step: int = 0
) -> Pace:
    """What every step ends with: the pace if there is one, clock probes when they are due, pauses, and what
    the next step's start is late by."""
    rounds = experiment.rounds
    step_s = step_length_s(rounds.step_close, trace_step_s)
    pace = None if step_s is None else ClockPace(step_s, bench.clock, first_step)

    async def end(step: int) -> None:
        if pace is not None:
            await pace(step)
        await bench.clocks.between_steps()
        paused_ns = await gate(step)
        if pace is not None:
            pace.shift(paused_ns)
        await bench.clock.sleep(start_delay_s(experiment.seed, step + 1, rounds.dither_s))

    return end
