"""What it costs to be able to go on: the checkpoint after each step of 36 virtual devices with 2.6 MB models.

    python benchmarks/checkpoints.py [--devices 36] [--steps 8] [--images 60]

A real run (MIDDLE: devices keep models of their own, so there is most to keep), with a checkpoint after every
step, also where the product would leave some out to stay below a twentieth of the run's time. A checkpoint
is the event log and all models written since synced, then the state written, synced and renamed. It falls
between two steps. The limit is 5 % of the step before it (median), training on this machine's cores.

Then an agent's part on this machine's disk: links to all that a device can hold of that size, and the syncs,
before its first order after a checkpoint.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from setting.figures import keep

from roambench.agent.orders.held_model import HeldModel
from roambench.agent.orders.model_cache import ModelCache
from roambench.agent.orders.resume_point import ResumePoint
from roambench.contract.orders import TrainReply
from roambench.experiment.sections import Experiment
from roambench.rounds.records import StepClosed
from roambench.runner import one_run
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.composition import run_experiment
from roambench.runs.folder import RunFolder

LIMIT = 0.05
COSTS_S: list[float] = []


class EveryStep(Checkpoints):
    def after(self, state, fleet):  # type: ignore[no-untyped-def]
        self._due_s = 0.0
        began_s = time.perf_counter()
        super().after(state, fleet)
        COSTS_S.append(time.perf_counter() - began_s)


def agents_part_s(folder: Path, model: bytes, checkpoints: int) -> list[float]:
    """What each took a device that has taken a new model of every kind since the one before."""
    cache, held = ModelCache(folder / "model-cache"), HeldModel(folder / "held")
    point, costs_s = ResumePoint(folder / "resume-point", {"model-cache": cache, "held": held}), []
    for number in range(1, checkpoints + 1):
        trained, waits = f"run/{number}", f"run/{number}/waits"
        for order_id in (trained, waits):
            draft = cache.draft(order_id)
            draft.write_bytes(model)
            cache.keep(order_id, TrainReply(10, 2, 0.5, 0.3, model_digest="ab" * 32), draft)
            if order_id == trained:
                cache.release(order_id, as_own=True)
        cache.synchronise(model)
        held.velocity_draft(trained).write_bytes(model)
        held.keep("run", trained, model, "ab" * 32, b"done")
        began_s = time.perf_counter()
        point.reach(number)
        costs_s.append(time.perf_counter() - began_s)
    return costs_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--devices", type=int, default=36)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--images", type=int, default=60)
    asked = parser.parse_args()
    walk = {"presence": "always", "devices": asked.devices, "steps": asked.steps}
    experiment = Experiment.model_validate(
        {
            "name": "checkpoints",
            "systems": ["middle"],
            "trace": {"generator": "city", "steps": asked.steps, "parameters": walk},
            "fleet": {"agents": asked.devices},
            "learning": {"model": "mohawk_cnn", "images_per_device": asked.images, "test_images": 100},
        }
    )
    one_run.Checkpoints = EveryStep  # type: ignore[misc]
    disk = Path("build")  # /tmp may be no disk
    disk.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=disk) as base:
        quiet = Console(quiet=True)
        (run,) = run_experiment(experiment, fleet="simulated", runs_dir=Path(base), console=quiet)
        costs_s = agents_part_s(Path(base) / "agent", bytes(2_637_064), 20)
        steps_s = [r.wall_s for r in RunFolder.open(run).read_log() if isinstance(r, StepClosed)]
    shares = [cost_s / step_s for cost_s, step_s in zip(COSTS_S, steps_s, strict=True)]
    print(f"{asked.devices} devices, {len(steps_s)} steps of {statistics.median(steps_s):.2f} s (median)")
    print(f"a checkpoint: {1e3 * statistics.median(COSTS_S):.1f} ms, at most {1e3 * max(COSTS_S):.1f} ms")
    share = statistics.median(shares)
    keep("checkpoints of a step", share * 100)
    print(f"share of its step: {share:.2%} (limit {LIMIT:.0%}): {'met' if share <= LIMIT else 'NOT MET'}")
    print(f"an agent's part: {1e3 * statistics.median(costs_s):.1f} ms, at most {1e3 * max(costs_s):.1f} ms")
    return 0 if share <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
