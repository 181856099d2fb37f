"""One system on a local fleet, from the first process to the closed run folder."""

from __future__ import annotations

from rich.console import Console

from roambench.contract.device_time import DeviceClock
from roambench.contract.model_blob import encode
from roambench.controller.composition import rounds_of
from roambench.controller.config.sections import Experiment
from roambench.controller.link_notes import link_notes
from roambench.controller.local_bench import LocalBench, local_bench
from roambench.controller.narrator import Narrator
from roambench.controller.progress import RunProgress
from roambench.controller.scoring import TestSetEvaluator
from roambench.controller.world import Movement, lesson_of
from roambench.rounds.loop import run_rounds
from roambench.rounds.run import Pace
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.models import save_model


async def run_local(
    experiment: Experiment, system: str, movement: Movement, folder: RunFolder, console: Console
) -> None:
    """Run `system` on local agents into `folder`, from the first process to the exported ledger."""
    names = folder.info.device_names
    lesson = lesson_of(experiment, len(names))
    samples = [len(part) for part in lesson.parts]
    rounds = rounds_of(experiment, system, movement, folder, samples, lesson.layout.shapes)
    evaluator = TestSetEvaluator(experiment, lesson)
    baseline_s = experiment.energy.idle_baseline_s
    model_bytes = len(encode(lesson.initial_model, lesson.layout.fingerprint))
    folder.update(model_parameters=lesson.layout.size, model_bytes=model_bytes)
    async with local_bench(experiment, lesson, folder, console.print) as bench:
        _say_fleet(console, bench)
        await bench.clocks.before({name: folder.records.events(name) for name in names})
        folder.update(start_device_ns=bench.clock.now_ns())
        try:
            await bench.idle(baseline_s)
            with RunProgress(console, movement.trace, system=system) as progress:
                journal = Narrator(folder.journal, progress, bench.watch)
                result = await run_rounds(
                    rounds.settings,
                    rounds.system,
                    rounds.association,
                    bench.fleet,
                    journal,
                    lesson.initial_model,
                    throughput=rounds.throughput,
                    evaluator=evaluator,
                    pace=step_end(experiment.rounds.step_close, bench),
                )
            bench.watch.step = rounds.settings.steps
            await bench.idle(baseline_s)
        finally:
            folder.update(end_device_ns=bench.clock.now_ns())
        await bench.clocks.after()
    layout = lesson.layout
    about = {"system": system, "digest": result.digest, "layout": layout.fingerprint}
    model_path = folder.path / "models" / "global.safetensors"
    save_model(model_path, result.model, names=layout.names, shapes=layout.shapes, about=about)
    export_run(folder)
    for note in link_notes(folder.read_journal(), experiment.links.port_mbit_s):
        console.print(note, highlight=False, soft_wrap=True)
    folder.update(state=RunState.FINISHED)


def step_end(step_close: str, bench: LocalBench) -> Pace:
    """What every step ends with: the pace of "clock:<s>" if asked for, and clock probes when they are due."""
    wait = clock_pace(step_close, bench.clock)

    async def end(step: int) -> None:
        if wait is not None:
            await wait(step)
        await bench.clocks.between_steps()

    return end


def clock_pace(step_close: str, clock: DeviceClock) -> Pace | None:
    """For "clock:<s>": step t closes no earlier than (t + 1) * s seconds of device time after this call.

    A step whose orders take longer closes when they are answered, and the next ones catch up.
    """
    if step_close == "answers":
        return None
    step_s = float(step_close.removeprefix("clock:"))
    started_ns = clock.now_ns()

    async def pace(step: int) -> None:
        await clock.sleep_until_ns(started_ns + round((step + 1) * step_s * 1e9))

    return pace


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
