"""Sweeps transfer size and rate on devices of a fleet; the run folder keeps what the analysis needs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.errors import ConfigError, RunError
from roambench.contract.orders import AnswerStatus, TransferOrder, order_id
from roambench.energy.links.sweep import SweepSettings, SweepWindow, plan_sweep, sweep_s
from roambench.experiment.sections import Experiment
from roambench.provision.inventory.load import load_bench
from roambench.runner.agents.agent_bench import AgentBench
from roambench.runner.places.place import AgentsPlace, new_run_folder
from roambench.runner.places.table import AGENT_FLEETS, fleet_of
from roambench.runner.run_log import logged
from roambench.runner.screen import say
from roambench.runner.stopping import STOPPING, run_async
from roambench.runner.world import learning_task_of
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.whole_file import read_whole, write_whole

#: What was asked, beside the records: with it the analysis can be repeated (R12).
PLAN: Final = "calibration.json"
SYSTEM: Final = "calibration"
#: An order may take this many times its window, and so much more, before it is given up.
_PATIENCE: Final = 2.0
_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """A sweep as it was carried out. The windows follow from it, so does the order of each."""

    settings: SweepSettings
    seed: int
    run_id: str
    devices: tuple[int, ...]  # indices into the run's device names

    def windows(self, device: int) -> list[SweepWindow]:
        """The windows of a device, in their order."""
        return plan_sweep(self.settings, self.seed, device)

    def order_of(self, device: int, window: SweepWindow) -> str:
        """The order id of a window."""
        return order_id(self.run_id, 0, device, f"window-{window.index:04d}")

    def lasts_s(self) -> float:
        """Device seconds that the longest device's sweep takes."""
        return max(sweep_s(self.windows(device), self.settings.idle_s) for device in self.devices)

    def to_json(self) -> str:
        """Its fields as JSON text."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls, folder: RunFolder) -> CalibrationPlan:
        """The plan of a calibration's folder; RunError where it is none or damaged."""
        path = folder.path / PLAN
        if not path.exists():
            raise RunError(f"{folder.path}: not a calibration's run folder (it has no {PLAN})")
        plan = read_whole(cls, path)
        strangers = [device for device in plan.devices if not 0 <= device < len(folder.info.device_names)]
        if strangers or not plan.devices:
            raise RunError(f"{path}: devices: expected indices of the run's devices, got {plan.devices}")
        return plan


def chosen_devices(names: Sequence[str], experiment: Experiment) -> tuple[int, ...]:
    """Indices of the named devices, all of the experiment's for none; ConfigError names strangers."""
    known = experiment.fleet.board_names
    strangers = [name for name in names if name not in known]
    if strangers:
        raise ConfigError(
            [f"--devices: expected names of {known[0]} to {known[-1]}, got {name!r}" for name in strangers]
        )
    return tuple(known.index(name) for name in dict.fromkeys(names)) if names else tuple(range(len(known)))


def with_agents_up_to(experiment: Experiment, devices: Sequence[int]) -> Experiment:
    """Agents up to the highest chosen one: a board's emulated parts are drawn by its place in the fleet."""
    fleet = experiment.fleet.model_copy(update={"agents": max(devices) + 1})
    return experiment.model_copy(update={"fleet": fleet})


def on_devices(experiment: Experiment, fleet: str, only: Sequence[str]) -> tuple[Experiment, tuple[int, ...]]:
    """The experiment with the boards that are needed to sweep `only` these devices of `fleet` (all for none),
    and their indices. On a bench as many as hosts are meant, not as many as the trace has."""
    kind, file = fleet_of(fleet, AGENT_FLEETS)
    if not kind.has_file:
        chosen = chosen_devices(only, experiment)
        return with_agents_up_to(experiment, chosen), chosen
    chosen = tuple(range(len(load_bench(Path(file)).only(only))))
    return with_agents_up_to(experiment, chosen), chosen


def run_calibration(
    place: AgentsPlace,
    settings: SweepSettings,
    devices: tuple[int, ...],
    path: Path,
    console: Console,
    *,
    at_once: int = 1,
) -> None:
    """Sweep `devices` of `place`, `at_once` of them together (they share the air); all goes to `path`.

    Raises RoambenchError leaves. A window that fails is noted and left out by the analysis.
    """
    boards = len(place.experiment.fleet.board_names)
    made = new_run_folder(place, path, system=SYSTEM, trace_hash="", devices=boards)
    with made as folder, logged(path, f"run {path.name}"):
        folder.update(doubts=place.doubts)
        plan = CalibrationPlan(settings, place.experiment.seed, folder.info.run_id, devices)
        write_whole(path / PLAN, plan.to_json())
        run_async(_sweep_all(place, plan, folder, console, at_once), STOPPING)


async def _sweep_all(
    place: AgentsPlace, plan: CalibrationPlan, folder: RunFolder, console: Console, at_once: int
) -> None:
    names = folder.info.device_names
    experiment = _patient(place.experiment, plan)
    learning_task = learning_task_of(experiment, len(names))
    turns = -(-len(plan.devices) // at_once)
    minutes = turns * plan.lasts_s() / 60.0
    say(
        console,
        f"{count(len(plan.settings.points()), 'point')} x {count(plan.settings.windows, 'window')} on "
        f"{count(len(plan.devices), 'device')}, {at_once} at once: {minutes:.0f} minutes of device time, "
        f"{minutes / folder.info.time_scale:.0f} of this machine",
    )
    async with place.agents(experiment, learning_task, folder, console) as bench:
        await bench.clocks.before({name: folder.records.events(name) for name in names})
        folder.update(start_device_ns=bench.clock.now_ns())
        some = asyncio.Semaphore(at_once)
        await asyncio.gather(*(_sweep(plan, device, names, bench, some, console) for device in plan.devices))
        folder.update(end_device_ns=bench.clock.now_ns())
        await bench.clocks.after()
    folder.update(state=RunState.FINISHED)


def _patient(experiment: Experiment, plan: CalibrationPlan) -> Experiment:
    """With time for the longest window."""
    longest_s = max(window.duration_s for device in plan.devices for window in plan.windows(device))
    fleet = experiment.fleet.model_copy(update={"deadline_s": _PATIENCE * longest_s + _PATIENCE_S})
    return experiment.model_copy(update={"fleet": fleet})


async def _sweep(
    plan: CalibrationPlan,
    device: int,
    names: Sequence[str],
    bench: AgentBench,
    some: asyncio.Semaphore,
    console: Console,
) -> None:
    """One device's windows with idle time around each."""
    async with some:
        failed = 0
        for window in plan.windows(device):
            await bench.clock.sleep(plan.settings.idle_s)
            point = window.point
            order = TransferOrder(
                plan.order_of(device, window),
                device,
                0,
                point.direction == "up",
                point.size_bytes,
                point.mbit_s,
                window.repeats,
            )
            (answer,) = await bench.agents_fleet.transfer([order])
            if answer.status is not AnswerStatus.DONE:
                failed += 1
                say(
                    console,
                    f"{names[device]}: window {window.index} ({point.direction}, {point.size_bytes} bytes at "
                    f"{point.mbit_s:g} Mbit/s) {answer.status.value}: {answer.reason}",
                )
        await bench.clock.sleep(plan.settings.idle_s)
        failures = f", {failed} failed" if failed else ""
        say(console, f"{names[device]}: {count(len(plan.windows(device)), 'window')}{failures}")
