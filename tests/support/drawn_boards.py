"""A board whose power is drawn exactly, and a Smart Power 2 that reads it: with numpy alone, nothing of the
estimator is in them. `accounted` leads both through a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.contract.records import Reading, RecordKind, phase_to_bytes
from roambench.experiment.sections import Experiment
from roambench.meters.traits import MeterDescription
from roambench.rounds.records import RoundRecord
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import DeviceEnergy, account_run
from small_runs import a_run

S = 10**9
Floats = npt.NDArray[np.float64]
CONVERSION_S = 0.2638
#: A meter without a gain and with hardly an offset: what is left is sampling.
EXACT = {"gain": 1.0, "offset_w": 0.0, "u_gain": 0.0, "u_offset_w": 0.0}


@dataclass
class Board:
    """Phases one after the other, each at its own power above `idle_w`; 0 W in `OFF`."""

    idle_w: float = 1.9
    spans: list[tuple[Phase, float, float]] = field(default_factory=list)
    watts: list[float] = field(default_factory=list)

    @property
    def now_s(self) -> float:
        return self.spans[-1][2] if self.spans else 0.0

    def add(self, phase: Phase, seconds: float, above_w: float = 0.0) -> None:
        self.spans.append((phase, self.now_s, self.now_s + seconds))
        self.watts.append(0.0 if phase is Phase.OFF else self.idle_w + above_w)

    def joules(self, until_s: Floats) -> Floats:
        """Drawn from 0 s on; before and after all phases it idles."""
        borders_s = np.array([0.0, *(end_s for _, _, end_s in self.spans)])
        sums = np.concatenate(([0.0], np.cumsum(np.diff(borders_s) * self.watts)))
        idling_s = np.minimum(until_s, 0.0) + np.maximum(until_s - borders_s[-1], 0.0)
        return np.interp(until_s, borders_s, sums) + self.idle_w * idling_s

    def caused(self, phase: Phase) -> float:
        """Joules above idle of all its phases of a kind."""
        return sum(
            (end_s - start_s) * (watts - self.idle_w)
            for (kind, start_s, end_s), watts in zip(self.spans, self.watts, strict=True)
            if kind is phase
        )


def smart_power_2(board: Board, draw: np.random.Generator) -> tuple[Floats, Floats]:
    """Arrivals and watts: each second the latest finished conversion, in its steps, with a little noise."""
    printed_s = np.arange(-2.0 + draw.uniform(0.0, 1.0), board.now_s + 2.0, 1.0 + draw.normal() * 3e-5)
    first_s = draw.uniform(0.0, CONVERSION_S)
    ended_s = first_s + np.floor((printed_s - first_s) / CONVERSION_S) * CONVERSION_S
    watts = (board.joules(ended_s) - board.joules(ended_s - CONVERSION_S)) / CONVERSION_S
    watts += draw.normal(0.0, 0.004, len(watts)) * (watts > 0.0)
    arrived_s = printed_s + draw.exponential(0.003, len(printed_s))
    return arrived_s, np.round(np.maximum(watts, 0.0) / 0.00381687) * 0.00381687


def rounds(board: Board, draw: np.random.Generator, count: int = 20, *, rest_s: float = 4.0) -> Board:
    """Download, training and upload between rests, `count` times."""
    for _ in range(count):
        for phase, seconds, above_w in (
            (Phase.DOWNLOAD, 2.0, 0.45),
            (Phase.TRAIN, 12.0, 3.0),
            (Phase.UPLOAD, 2.0, 0.7),
        ):
            board.add(Phase.REST, 2.0 + draw.uniform(0.0, 1.0))
            board.add(phase, seconds * draw.uniform(0.85, 1.15), above_w)
            board.add(Phase.REST, rest_s)
        board.add(Phase.WAIT, draw.uniform(1.0, 4.0))
    return board


def accounted(
    folder: Path,
    board: Board,
    lines: tuple[Floats, Floats],
    *,
    energy: dict[str, object] | None = None,
    log: Sequence[RoundRecord] = (),
) -> DeviceEnergy:
    """The account of a run of the board, which reads its own meter. Time without power is in no phase:
    `log` tells of it."""
    with a_run(
        folder, "bench", ["pi-01"], Experiment.model_validate({"seed": 1, "energy": energy or EXACT})
    ) as run:
        rows = [
            (
                RecordKind.EVENT,
                MeterDescription("smartpower2-serial", "/dev/x", "smartpower2").to_event(0).to_bytes(),
            )
        ]
        for k, (phase, start_s, end_s) in enumerate(board.spans):
            order = (f"{phase}{k}",) * 2 if phase in ACTIVE_PHASES else ()
            span = PhaseSpan("pi-01", "b", phase, 0, round(start_s * S), round(end_s * S), *order)
            if phase is not Phase.OFF:
                rows.append((RecordKind.PHASE, phase_to_bytes(span)))
        rows += [
            (RecordKind.READING, Reading(round(at_s * S), 5.0, watts / 5.0, watts).to_bytes())
            for at_s, watts in zip(*(column.tolist() for column in lines), strict=True)
        ]
        run.records.insert("pi-01", "own", [(k, *row) for k, row in enumerate(rows)])
        run.update(start_device_ns=0, end_device_ns=round(board.now_s * S), state=RunState.FINISHED)
        found = account_run(run, log)
    assert found is not None
    return found.devices[0]
