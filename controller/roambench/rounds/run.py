"""Input and result of the round loop."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from roambench.contract.errors import ConfigError
from roambench.contract.orders import Vector
from roambench.energy.links.throughput import Direction
from roambench.rounds.extra_vectors import MODEL_ALONE, ExtraVectors
from roambench.rounds.ports import Score
from roambench.rounds.state import RoundState

#: Modelled throughput in Mbit/s (Eq. 2) of a link of this length in metres.
Throughput = Callable[[float, Direction], float]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The numbers of one run. Devices are 0..len(samples)-1, as in the trace; APs 0..aps-1."""

    run_id: str
    seed: int
    steps: int
    aps: int
    samples: tuple[int, ...]  # training samples of every device
    pace_links: bool = False  # orders carry Eq. 2's throughput; False: links run at their own speed
    orders_to_absent: bool = True  # False: absent devices get no IdleOrder (rehearsals)
    port_mbit_s: float = math.inf  # what a device's port can carry: a modelled rate above it is clipped
    stop_at: float | None = None  # end at the first cloud aggregation whose model is as good as this
    evaluate_every: int = 1  # score the model of every n-th cloud aggregation, and of the last
    score_aps: bool = False  # score the models of access points, too, after every step
    extra_vectors: ExtraVectors = MODEL_ALONE  # that travel behind every model
    keeps_bases: bool = False  # versions that outstanding trainings began from: models travel as differences

    def __post_init__(self) -> None:
        problems = [
            f"{name} = {value}: expected at least 1"
            for name, value in (
                ("steps", self.steps),
                ("aps", self.aps),
                ("devices", len(self.samples)),
                ("evaluate_every", self.evaluate_every),
            )
            if value < 1
        ]
        if problems:
            raise ConfigError(problems)


@dataclass(frozen=True, slots=True)
class StepSummary:
    """The progress after a step. Orders count uploads and trainings, not background phases."""

    step: int
    present: int
    orders: int
    done: int  # of these, answered DONE
    aggregated: int
    outstanding: int
    score: Score | None  # of the global model
    wall_s: float


#: Called when a step is closed, with the state from which the run could be continued.
OnStep = Callable[[StepSummary, RoundState], None]


#: Returns when this step may close.
Pace = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RunResult:
    """`model` is the final global model, float32 of shape (parameters,), `digest` the name of what travelled,
    `steps` how many were played."""

    model: Vector
    digest: str
    steps: int
    state: RoundState
