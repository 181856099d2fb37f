"""A fleet that idles at rising levels of its agents, and what that tells of the instrument's own cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console

from roambench.contract.awake_timeout import AwakeTimeout
from roambench.contract.counts import count
from roambench.contract.duty import DUTY_OVER, DutyLevel
from roambench.contract.errors import ConfigError, FleetError, MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.emulation.truth import read_truth
from roambench.energy.readings.samples import UNUSABLE
from roambench.experiment.sections import Experiment
from roambench.instrument.overhead import (
    DutyBlock,
    Overhead,
    PowerDifference,
    board_overhead,
    duty_plan,
    mean_overhead,
)
from roambench.runner.agents.agent_bench import AgentBench
from roambench.runner.places.place import AgentsPlace, new_run_folder
from roambench.runner.run_log import logged
from roambench.runner.screen import say
from roambench.runner.stopping import STOPPING, run_async
from roambench.runner.world import learning_task_of
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.meters import device_meter
from roambench.runs.whole_file import write_whole

#: Left out at the start of every block: a session is dialled, the meter's window still looks back.
SETTLE_S: Final = 5.0
#: Host seconds for which no agent may dial again after its last block, while some have not: on a busy machine
#: they come one after the other.
_BACK_PATIENCE_S: Final = 30.0
RESULT: Final = "overhead.json"


@dataclass(frozen=True, slots=True)
class BoardResult:
    """One board; `true_instrument_w` is what its emulator says it cost, None on a real one.

    `own_reading_w`: about what reading its own sensor costs it, at every level; 0 where another host reads.
    """

    device: str
    overhead: Overhead
    true_instrument_w: float | None
    own_reading_w: float = 0.0


@dataclass(frozen=True, slots=True)
class OverheadResult:
    """The power that the agent itself draws, block by block."""

    minutes: float
    block_s: float
    blocks: int
    time_scale: float
    boards: tuple[BoardResult, ...]
    fleet: Overhead  # the mean board
    doubts: tuple[str, ...] = ()  # checks of the bench that were waived

    @property
    def verdict(self) -> str:
        """One sentence, k = 2."""
        costs = [board.own_reading_w for board in self.boards if board.own_reading_w > 0.0]
        more = f"; reading their own sensors about {1e3 * np.mean(costs):.1f} mW more" if costs else ""
        return self.fleet.verdict() + more

    def to_json(self) -> str:
        """The result as JSON text, written to the run's folder."""
        values = {
            "minutes": self.minutes,
            "block_s": self.block_s,
            "blocks": self.blocks,
            "settle_s": SETTLE_S,
            "time_scale": self.time_scale,
            "verdict": self.verdict,
            "doubts": list(self.doubts),
            "fleet": _values(self.fleet),
            "boards": [
                {
                    "device": board.device,
                    **_values(board.overhead),
                    "true_instrument_w": board.true_instrument_w,
                    "own_reading_w": board.own_reading_w,
                }
                for board in self.boards
            ],
        }
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def measure_overhead(place: AgentsPlace, minutes: float, path: Path, console: Console) -> OverheadResult:
    """Let the agents of `place` idle for `minutes` of device time; `path` keeps records and result.

    Raises RoambenchError leaves: FleetError when agents do not come back or a meter said too little.
    """
    experiment = place.experiment
    devices = len(experiment.fleet.board_names)
    made = new_run_folder(place, path, system="overhead", trace_hash="", devices=devices)
    with made as folder, logged(path, f"run {path.name}"):
        folder.update(doubts=place.doubts)
        levels, block_s = duty_plan(minutes)
        run_async(_idle(place, folder, levels, block_s, console), STOPPING)
        result = overhead_of(folder, experiment, minutes, block_s, len(levels))
        write_whole(path / RESULT, result.to_json())
        folder.update(state=RunState.FINISHED)
    return result


async def _idle(
    place: AgentsPlace,
    folder: RunFolder,
    levels: Sequence[DutyLevel],
    block_s: float,
    console: Console,
) -> None:
    names = folder.info.device_names
    learning_task = learning_task_of(place.experiment, len(names))
    async with place.agents(place.experiment, learning_task, folder, console, agent_cost=True) as bench:
        await bench.clocks.before({name: folder.records.events(name) for name in names})
        folder.update(start_device_ns=bench.clock.now_ns())
        reached = bench.agents_fleet.give_duty(levels, block_s)
        if reached < len(names):
            raise FleetError(f"{len(names) - reached} of {len(names)} agents have no session")
        say(
            console,
            f"{count(len(names), 'board')} idle for {count(len(levels), 'block')} of {block_s:.0f} s: "
            + " ".join(level.value for level in levels),
        )
        await bench.clock.sleep(len(levels) * block_s)
        await _all_back(bench, len(names))
        folder.update(end_device_ns=bench.clock.now_ns())
        await bench.clocks.after()


async def _all_back(bench: AgentBench, count: int) -> None:
    """The last block holds no session: wait until all agents are here to hand over what they spooled."""
    await bench.clock.sleep(1.0)
    sessions, before = bench.agents_fleet.sessions, -1
    back = asyncio.create_task(sessions.wait_for_count(count))
    while not await _is_back(back):
        here = len(sessions.all())
        if here <= before:
            back.cancel()
            raise FleetError(
                f"{count - here} of {count} agents did not come back, and for {_BACK_PATIENCE_S:.0f} s none "
                "more did; see agents/<name>/agent.log in the run folder, or roambench fleet logs"
            )
        before = here


async def _is_back(back: asyncio.Task[None]) -> bool:
    try:
        async with AwakeTimeout(_BACK_PATIENCE_S):
            await asyncio.shield(back)
    except TimeoutError:
        return False
    return True


def overhead_of(
    folder: RunFolder, experiment: Experiment, minutes: float, block_s: float, blocks: int
) -> OverheadResult:
    """The result from the folder's records; FleetError names a board that has too few readings, RunError a
    calibration whose keys do not go together."""
    boards = []
    for name in folder.info.device_names:
        events = folder.records.events(name)
        found, meter = duty_blocks(events), device_meter(name, events, experiment.energy)
        readings = folder.records.readings(name)
        usable = (readings.flags & int(UNUSABLE)) == 0
        try:
            overhead = board_overhead(
                readings.ns[usable],
                readings.watts[usable],
                found,
                settle_s=SETTLE_S,
                step_w=meter.traits.step_w,
                calibration=meter.calibration,
            )
        except ConfigError as error:
            raise FleetError(f"{name}: {error}") from None
        truth_w = _true_instrument_w(folder.path / "truth" / f"{name}.csv", found)
        own_w = meter.description.reading_w if meter.description is not None else 0.0
        boards.append(BoardResult(name, overhead, truth_w, own_w))
    fleet = mean_overhead([board.overhead for board in boards])
    info = folder.info
    return OverheadResult(minutes, block_s, blocks, info.time_scale, tuple(boards), fleet, info.doubts)


def duty_blocks(events: Sequence[AgentEvent]) -> list[DutyBlock]:
    """The blocks that an agent says it lived through: an unknown level is none, nor one that never ended."""
    began = [event for event in events if event.kind == EventKind.DUTY_BEGAN]
    known = {level.value: level for level in DutyLevel}
    return [
        DutyBlock(known[event.detail], event.monotonic_ns, after.monotonic_ns)
        for event, after in pairwise(began)
        if event.detail in known and event.detail != DUTY_OVER
    ]


def _true_instrument_w(path: Path, blocks: Sequence[DutyBlock]) -> float | None:
    """Streaming minus reading alone as the emulator drew it; None where there is no truth."""
    if not path.is_file():
        return None
    try:
        signal = read_truth(path)
        means: dict[DutyLevel, list[float]] = {level: [] for level in DutyLevel}
        for block in blocks:
            start_ns = block.start_ns + round(SETTLE_S * 1e9)
            seconds = (block.end_ns - start_ns) * 1e-9
            means[block.level].append(signal.energy_j(start_ns, block.end_ns) / seconds)
    except (MeterError, ValueError):
        return None
    if not (means[DutyLevel.STREAMING] and means[DutyLevel.READER]):
        return None
    return float(np.mean(means[DutyLevel.STREAMING]) - np.mean(means[DutyLevel.READER]))


def _values(overhead: Overhead) -> Mapping[str, Any]:
    def part(difference: PowerDifference) -> dict[str, Any]:
        return {**asdict(difference), "resolved": difference.resolved}

    return {
        "idle_w": {level.value: watts for level, watts in overhead.levels.items()},
        "agent": part(overhead.agent),
        "streaming": part(overhead.streaming),
        "instrument": part(overhead.instrument),
        "readings": overhead.readings,
    }
