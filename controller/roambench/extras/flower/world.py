"""The world of a Flower app: its devices are nodes, reachable while the trace has them present."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console

from roambench.energy.links.throughput import DistanceStatistics, link_throughput_mbit_s
from roambench.experiment.sections import Experiment
from roambench.extras.flower.app import ROUNDS, FlowerApp, read_app, require_flwr
from roambench.extras.flower.flower_run import FlowerRun
from roambench.extras.flower.nodes import FIRST_NODE, RUN_ID, client_settings, spec_of
from roambench.mobility.association import NearestAp, distance_statistics
from roambench.mobility.files import content_hash
from roambench.mobility.trace import Trace
from roambench.rounds.run import Throughput
from roambench.runner.screen import say, warn
from roambench.runner.world import LearningTask, Movement, movement_of, task_of_programs
from roambench.runs.folder import RunFolder

_STEP_S: Final = 60.0
#: Of a trace in which all are there all the time.
STILL: Final = "devices that stay where they are"


@dataclass(frozen=True)
class FlowerWorld:
    """`World` of an app's run."""

    experiment: Experiment
    app: FlowerApp
    movement: Movement
    version: str  # of flwr

    @classmethod
    def of(cls, experiment: Experiment) -> FlowerWorld:
        """The app that the experiment names. ConfigError for what is no app, and where flwr is missing."""
        section = experiment.program
        app = read_app(Path(section.folder or "."), section.settings)
        version = require_flwr(section.python)
        made_up = section.reachable == "everybody" and not experiment.trace.file
        return cls(experiment, app, still(experiment, app) if made_up else movement_of(experiment), version)

    @cached_property
    def learning_task(self) -> LearningTask:
        """A program for each device."""
        section, devices = self.experiment.program, len(self.movement.trace.device_names)
        programs = tuple(
            spec_of(
                section, self.app.folder, client_settings(self.app, device, devices, self.experiment.seed)
            )
            for device in range(devices)
        )
        return task_of_programs(programs, channels_last=self.experiment.learning.channels_last)

    def throughput(self) -> Throughput:
        """MOHAWK's Eq. 2 over the trace's distances; 0, unknown, for devices that stay where they are."""
        if self.movement.trace.provenance.get("source") == STILL:
            return lambda _distance_m, _direction: 0.0
        found = DistanceStatistics(*distance_statistics(NearestAp(self.movement.trace)))
        return lambda distance_m, direction: link_throughput_mbit_s(distance_m, found, direction)

    def announce(self, console: Console) -> None:
        """Print the app, its devices and what is doubtful about the trace."""
        trace = self.movement.trace
        say(
            console,
            f"Flower app {self.app.name} with flwr {self.version}: {len(trace.device_names)} nodes, trace "
            f"{self.movement.content_hash[:12]} of {trace.steps} steps, reachable: "
            f"{self.experiment.program.reachable}",
        )
        for doubt in self.movement.doubts:
            warn(console, doubt)

    def system_run(self, system: str, folder: RunFolder, *, trains: bool) -> FlowerRun:
        """The app's run."""
        return FlowerRun(
            self.experiment,
            self.app,
            self.movement,
            folder.info.name_in_orders,
            first_node=FIRST_NODE,
            flower_run_id=RUN_ID,
            throughput=self.throughput(),
        )


def still(experiment: Experiment, app: FlowerApp) -> Movement:
    """Devices that are always there, at one access point, for twice as many steps as the app has rounds: one
    to train and one to evaluate."""
    rounds = app.run_config.get(ROUNDS, 0)
    steps = 2 * rounds + 2 if isinstance(rounds, int) and rounds > 0 else experiment.trace.steps
    names = tuple(experiment.fleet.board_names)
    step, device = np.divmod(np.arange(steps * len(names), dtype=np.int32), np.int32(len(names)))
    place = np.zeros(len(step))
    trace = Trace(
        steps,
        _STEP_S,
        names,
        step.astype(np.int32),
        device.astype(np.int32),
        place,
        place,
        ("ap-0",),
        np.zeros(1),
        np.zeros(1),
        provenance={"source": STILL},
    )
    return Movement(trace, content_hash(trace))
