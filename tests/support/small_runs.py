"""Small runs in folders of their own, as exports meet them: a simulated and a measured one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.contract.records import Reading, RecordKind, phase_to_bytes
from roambench.experiment.sections import Experiment
from roambench.rounds.records import (
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

S = 1_000_000_000


def a_run(
    path: Path,
    fleet: str,
    devices: Sequence[str] = ("pi-01",),
    experiment: Experiment | None = None,
    *,
    run_id: str = "",
    trace_hash: str = "",
) -> RunFolder:
    """A new run of MOHAWK, called as its folder."""
    return RunFolder.create(
        path,
        experiment or Experiment(seed=1),
        run_id=run_id or path.name,
        system="mohawk",
        trace_hash=trace_hash,
        fleet=fleet,
        device_names=devices,
    )


def folder_of(
    path: Path, fleet: str, records: Sequence[RoundRecord], *, seed: int = 1, alpha: float = 0.5
) -> RunFolder:
    folder = a_run(
        path,
        fleet,
        ["pi-01", "pi-02"],
        Experiment.model_validate(
            {
                "seed": seed,
                "learning": {"alpha": alpha},
                "simulated": {"idle_w": 2.0, "train_w": 1.0, "power_spread": 0.0},
            }
        ),
        run_id="demo",
    )
    for record in records:
        folder.journal.append(record)
    return folder


def swept(path: Path) -> None:
    """The folder of a sweep: two values of learning.alpha, two seeds."""
    for alpha in (0.1, 0.5):
        for seed in (1, 2):
            accuracy = 0.5 + 0.2 * alpha + 0.01 * seed
            simulated(path / f"points/m-{alpha}-{seed}/runs/mohawk", accuracy, seed=seed, alpha=alpha)


def simulated(path: Path, accuracy: float = 0.75, *, seed: int = 1, alpha: float = 0.5) -> None:
    """A training of 20 s at step 0 whose model is sent at step 1; nothing was scored before the end."""
    records = [
        StepOpened(0, (0, 1), (0, 0), (900.0, 900.0)),
        OrderGiven(0, 0, "t", "train", 0, "", "cc", 900.0, "lte", 20.0),
        OrderAnswered(0, 0, "t", "done", "", 2_500_000, 1.0, 20.0, 60, 1.5),
        StepClosed(0, 0, (0,), (), None, math.nan, 1.0),
        StepOpened(1, (0,), (0,), (300.0,)),
        OrderGiven(1, 0, "u", "upload", 0, "t", "", 300.0, "lte", 10.0),
        OrderAnswered(1, 0, "u", "done", "", 2_500_000, 2.0),
        OutcomeDecided(1, 0, "t", Outcome.AGGREGATED),
        StepClosed(1, 1, (), (0,), accuracy, 0.5, 2.0),
    ]
    folder_of(path, "simulated", records, seed=seed, alpha=alpha).close(RunState.FINISHED)


def measured(path: Path) -> None:
    """One board at 2 W for 60 s: idle to 10, which is before the first step, train to 40, idle to 60."""
    folder = folder_of(
        path, "local", [StepOpened(0, (0,), (0,), (50.0,)), StepClosed(0, 0, (), (), 0.5, 1.0)]
    )
    readings = [
        (RecordKind.READING, Reading(at * S, 5.0, 0.4, 2.0, math.nan).to_bytes()) for at in range(-2, 63)
    ]
    spans = [
        PhaseSpan("pi-01", "b", Phase.IDLE, -1, 0, 10 * S),
        PhaseSpan("pi-01", "b", Phase.TRAIN, 0, 10 * S, 40 * S, "t", "t"),
        PhaseSpan("pi-01", "b", Phase.IDLE, 0, 40 * S, 60 * S),
    ]
    rows = readings + [(RecordKind.PHASE, phase_to_bytes(span)) for span in spans]
    folder.records.insert("pi-01", "s", [(number, *row) for number, row in enumerate(rows)])
    folder.update(start_device_ns=0, end_device_ns=60 * S)
    folder.close(RunState.FINISHED)
