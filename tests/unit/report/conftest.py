"""A run folder made by hand: whole seconds, whole watts, so that every sum can be done in the head."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.contract.records import AgentEvent, HostSample, Reading, RecordKind, phase_to_bytes
from roambench.experiment.sections import Experiment
from roambench.mobility.files import write_trace
from roambench.mobility.trace import Trace
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
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
START_NS = 100 * S


@dataclass
class HandMade:
    """Two boards, two steps, 100 s. Each board, from the run's start (s), as the tests rely on:

    0-10 idle, 10-14 download, 14-34 train, 34-50 wait, 50-54 upload (only who is aggregated), 54-100 idle

    The first board's training of step 0 is aggregated in step 1, every other one is wasted. The
    power is `watts` all the time (`watts_after` from 54 s on, if given); the meter reads `gain` times
    that, and nothing during `stall_s`, which is (first second, seconds).
    """

    path: Path
    system: str = "mohawk"
    fleet: str = "local"
    names: Sequence[str] = ("pi-01", "pi-02")
    watts: float = 2.0
    watts_after: float | None = None
    gain: float = 1.0
    stall_s: tuple[float, float] = (0.0, 0.0)
    lead_s: int = 0  # seconds of idling before the run's second 0
    aggregated: Sequence[int] = (0,)
    accuracies: Sequence[float | None] = (0.1, 0.85)
    state: RunState | None = RunState.FINISHED
    readings: bool = True
    phases: bool = True
    reason: str = "absent"
    trace_hash: str = "ab" * 32
    extra: Sequence[RoundRecord] = ()
    events: Sequence[AgentEvent] = ()
    own_events: Mapping[str, Sequence[AgentEvent]] = field(default_factory=dict)  # by board
    host: Sequence[HostSample] = ()
    config: dict[str, object] = field(
        default_factory=lambda: {
            "rounds": {"accuracy_threshold": 0.8, "cloud_every_steps": 1},
            "energy": {"gain": 1.0, "offset_w": 0.0, "u_gain": 0.01, "u_offset_w": 0.0},
            "simulated": {"power_spread": 0.0},
        }
    )

    def make(self) -> Path:
        with RunFolder.create(
            self.path,
            Experiment.model_validate({"seed": 7, **self.config}),
            run_id=self.path.name,
            system=self.system,
            trace_hash=self.trace_hash,
            fleet=self.fleet,
            device_names=self.names,
            time_scale=4.0,
            versions={"roambench": "0.1.0"},
        ) as folder:
            for record in self.records():
                folder.journal.append(record)
            for index, name in enumerate(self.names):
                self._drain(folder, index, name)
            write_trace(self._trace(), self.path / "trace.parquet")
            if self.phases or self.readings:
                folder.update(start_device_ns=START_NS - self.lead_s * S, end_device_ns=START_NS + 100 * S)
            if self.state is not None:
                folder.update(state=self.state, reason="" if self.state is RunState.FINISHED else "Ctrl-C")
        return self.path

    def records(self) -> Iterator[RoundRecord]:
        devices = tuple(range(len(self.names)))
        for step in (0, 1):
            yield StepOpened(step, devices, (0,) * len(devices), (900.0,) * len(devices))
            if step == 1:
                for device in self.aggregated:
                    order = f"r/1/{device}/upload"
                    yield OrderGiven(
                        1, device, order, "upload", 0, f"r/0/{device}/train", "", 900.0, "lte", 10.0
                    )
                    yield OrderAnswered(1, device, order, "done", "", 2_500_000, 4.0)
                if self.aggregated:
                    orders = tuple(f"r/0/{device}/train" for device in self.aggregated)
                    count = len(self.aggregated)
                    yield EdgeAggregated(1, 0, tuple(self.aggregated), orders, (1 / count,) * count, "aa")
                yield CloudAggregated(1, (0,) if self.aggregated else (), (1.0,), "bb")
                for device in devices:
                    used = device in self.aggregated
                    outcome = Outcome.AGGREGATED if used else Outcome.WASTED
                    yield OutcomeDecided(
                        1, device, f"r/0/{device}/train", outcome, "" if used else self.reason
                    )
            else:
                for device in devices:
                    order = f"r/0/{device}/train"
                    yield OrderGiven(0, device, order, "train", 0, "", "cc", 900.0, "lte", 20.0)
                    yield OrderAnswered(0, device, order, "done", "", 2_500_000, 4.0, 20.0, 60, 1.5, 0.02)
            accuracy = self.accuracies[step]
            loss = None if accuracy is None else 1.0 - accuracy
            yield StepClosed(step, len(self.aggregated) if step else 0, (), (), accuracy, loss, 1.0)
        yield from self.extra

    def _drain(self, folder: RunFolder, index: int, name: str) -> None:
        records: list[tuple[int, bytes]] = []
        if self.readings:
            first, length = self.stall_s
            for second in range(-3 - self.lead_s, 104):
                if not (length and first <= second < first + length):
                    late = self.watts_after is not None and second > 54
                    watts = self.gain * (self.watts_after if late else self.watts)
                    reading = Reading(START_NS + second * S, 5.0, watts / 5.0, watts, math.nan)
                    records.append((RecordKind.READING, reading.to_bytes()))
        if self.phases:
            records += [(RecordKind.PHASE, phase_to_bytes(span)) for span in self._spans(index, name)]
        records += [
            (RecordKind.EVENT, event.to_bytes()) for event in (*self.events, *self.own_events.get(name, ()))
        ]
        records += [(RecordKind.HOST, sample.to_bytes()) for sample in self.host]
        folder.records.insert(name, "spool", [(seq, *record) for seq, record in enumerate(records)])
        truth = self.path / "truth" / f"{name}.csv"
        if truth.parent == self.path / "truth":
            truth.write_text(
                f"ns,watts,idle_watts\n{START_NS - 60 * S},{self.watts}\n{START_NS + 200 * S},\n"
            )

    def _spans(self, index: int, name: str) -> Iterator[PhaseSpan]:
        training = f"r/0/{index}/train"
        active = [(10, 14, Phase.DOWNLOAD, training), (14, 34, Phase.TRAIN, training)]
        if index in self.aggregated:
            active.append((50, 54, Phase.UPLOAD, f"r/1/{index}/upload"))
        at = -self.lead_s
        for first, last, phase, order in active:
            background = Phase.IDLE if at != 34 else Phase.WAIT
            yield self._span(name, background, at, first, "", "")
            yield self._span(name, phase, first, last, order, training)
            at = last
        yield self._span(name, Phase.IDLE, at, 100, "", "")

    def _span(self, name: str, phase: Phase, first: int, last: int, order: str, training: str) -> PhaseSpan:
        moved = 2_500_000 if phase in (Phase.DOWNLOAD, Phase.UPLOAD) else 0
        step = 1 if first >= 50 else 0
        return PhaseSpan(
            name, "boot", phase, step, START_NS + first * S, START_NS + last * S, order, training, moved
        )

    def _trace(self) -> Trace:
        count = len(self.names)
        return Trace(
            steps=2,
            step_s=3600.0,
            device_names=tuple(f"person-{index}" for index in range(count)),
            step=np.repeat(np.arange(2, dtype=np.int32), count),
            device=np.tile(np.arange(count, dtype=np.int32), 2),
            x_m=np.linspace(100.0, 2000.0, 2 * count),
            y_m=np.linspace(500.0, 1500.0, 2 * count),
            ap_names=("AP0",),
            ap_x_m=np.array([1000.0]),
            ap_y_m=np.array([1000.0]),
            place_x_m=np.array([100.0, 1900.0]),
            place_y_m=np.array([500.0, 1400.0]),
        )


@pytest.fixture
def hand_made(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run folder below tmp_path and returns its path."""
    return partial(_made, tmp_path)


@pytest.fixture(scope="module")
def hand_made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a run folder that the tests of a file share."""
    return partial(_made, tmp_path_factory.mktemp("once"))


def _made(folder: Path, name: str = "demo-mohawk", **changes: object) -> Path:
    return HandMade(folder / name, **changes).make()  # type: ignore[arg-type]
