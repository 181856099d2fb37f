"""One run while it goes on: its folder's records read as they come, and what they add up to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from roambench.contract.errors import RoambenchError, RunError
from roambench.contract.phases import Outcome
from roambench.experiment.sections import Experiment
from roambench.live.board_records import BoardRecords
from roambench.live.boards import Board, DarkBoards
from roambench.live.history import RunHistory
from roambench.live.modelled import ModelledJoules
from roambench.meters.traits import LATENESS_LIMIT_S
from roambench.mobility.files import read_trace
from roambench.mobility.trace import Trace
from roambench.rounds.records import BatteriesSeen, BoardSwitched, ClockProbed
from roambench.runs.event_tail import EventTail
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo, RunState
from roambench.runs.marks import EVENTS

#: Records per look, so that a look at a run of hours does not take seconds.
_MOST: Final = 20_000
#: Seconds without a new record after which it is asked whether the run's process still lives.
_SILENCE_S: Final = 3.0
_WITHOUT_EVENTS: Final = "steps, scores, orders and outcomes are not shown"
_WITHOUT_RECORDS: Final = "measured joules, power and the state of boards are not shown"


class RunView:
    """One run, followed by reading its folder; `look` as often as you like. Not for two threads at once.

    `history` holds what the event log says and what changed, `boards` what was read of each device's board,
    `trace` the movement (None: not written yet, or damaged), `experiment` what the run is to do. All are new
    ones where `resets` has grown.
    """

    def __init__(self, path: Path, now_s: Callable[[], float] = time.time) -> None:
        """RunError where `path` is no run folder, or its experiment cannot be read."""
        self.path = path
        self._events: EventTail | None = None
        self._records: BoardRecords | None = None
        self.lost: tuple[str, ...] = ()  # what is not shown, and why
        self.now_s = now_s
        self._folder = RunFolder.open(path)
        self._stamp = (0, 0)
        self._grew_s = now_s()  # when there was last something new
        self.resets = -1  # how often reading began again: what was known before is void
        self._reset()

    def close(self) -> None:
        """Close the databases."""
        self._close_databases()
        self._folder.close()

    def _close_databases(self) -> None:
        for opened in (self._events, self._records):
            if opened is not None:
                opened.close()
        self._events = self._records = None

    @property
    def info(self) -> RunInfo:
        """The run's own account; a run whose process is gone is interrupted."""
        return self._folder.info

    @property
    def joules(self) -> float:
        """Provisional gross joules so far: measured ones, or those of virtual devices, which are modelled."""
        if self._modelled is not None:
            return math.fsum(self._modelled.by_step.values())
        return math.fsum(board.joules for board in self.boards)

    @property
    def learning_joules(self) -> float:
        """The joules used for learning: those of all local updates."""
        if self._modelled is not None:
            return self.joules
        return math.fsum(map(self.update_joules, range(len(self.history.updates))))

    def outcome_joules(self, outcome: Outcome) -> float:
        """The joules of the local updates of an outcome."""
        return math.fsum(
            self.update_joules(index)
            for index, update in enumerate(self.history.updates)
            if update.outcome is outcome
        )

    @property
    def has_joules(self) -> bool:
        """True once anything was measured or modelled."""
        return self._modelled is not None or any(board.readings for board in self.boards)

    def step_joules(self, step: int) -> float | None:
        """Joules of all boards in a step, or before the first or after the last one; None: nothing is known
        yet."""
        if self._modelled is not None:
            return self._modelled.by_step.get(step)
        cells = [board.cells[step] for board in self.boards if step in board.cells]
        return math.fsum(cell.joules for cell in cells) if cells else None

    def update_joules(self, index: int) -> float:
        """Joules of the local update at an index of `history.updates`, those of its transfers included."""
        update = self.history.updates[index]
        if self._modelled is not None:
            return self._modelled.by_update.get(update.order_id, 0.0)
        return self.boards[update.device].by_update.get(update.order_id, 0.0)

    def joules_by_step(self) -> dict[int, float]:
        """By step; what boards drew before the first one is step -1, what they drew after the last one its
        number and one."""
        if self._modelled is not None:
            return dict(self._modelled.by_step)
        steps = {step for board in self.boards for step in board.cells}
        return {step: self.step_joules(step) or 0.0 for step in sorted(steps)}

    @property
    def watts(self) -> float | None:
        """Sum of the newest readings of all boards; None without any."""
        known = [board.watts for board in self.boards if math.isfinite(board.watts)]
        return math.fsum(known) if known else None

    @property
    def eta_s(self) -> float | None:
        """Seconds left if the steps to come last as long as the closed ones; None before there is one."""
        closed = [step.wall_s for step in self.history.steps.values() if step.wall_s is not None]
        left = self.steps - len(closed)
        if not closed or self.info.state is not RunState.RUNNING or left < 0:
            return None
        return math.fsum(closed) / len(closed) * left

    @property
    def steps(self) -> int:
        """The number of steps that the run is to have; 0 where its trace cannot be read."""
        return self.trace.steps if self.trace is not None else 0

    def look(self) -> bool:
        """Read what is new, at most some thousand records of each kind; whether there may be more."""
        self._refresh_info()
        events = self._events.more(_MOST) if self._events is not None else []
        if events is None:
            self._reset()
            return True
        for record in events:
            self.history.add(record)
            if isinstance(record, ClockProbed) and self._records is not None:
                self._records.note_clock(record)
            elif isinstance(record, BatteriesSeen | BoardSwitched):
                self._dark.follow(record)
        if self._modelled is not None:
            self.history.changes.steps |= self._modelled.add(events)
        drained = self._records.read(_MOST) if self._records is not None else 0
        if events or drained:
            self._grew_s = self.now_s()
        more = len(events) >= _MOST or drained >= _MOST
        self._caught_up |= not more
        return more

    def _seen_s(self) -> float:
        """The time of the records that are read now; 0 for what was there before the first look was over."""
        return self.now_s() if self._caught_up else 0.0

    def _reset(self) -> None:
        """Begin again with the folder's first record."""
        self._close_databases()
        self.resets += 1
        folder, info = self._folder, self._folder.info
        path = folder.path / "trace.parquet"
        self._had_trace = path.is_file()
        self.trace: Trace | None = None
        with suppress(RoambenchError):  # not written yet, or damaged: then there is no map
            self.trace = read_trace(path)
        lost = []
        self.experiment: Experiment | None = None
        try:
            self.experiment = folder.experiment
        except RunError as error:
            lost.append(f"{error}: thresholds and modelled joules are not shown")
        self._caught_up = False
        # What agents of a quiet run do comes late: until then their orders are all that is known.
        quiet = self.experiment is not None and self.experiment.energy.quiet
        rests = info.kind.has_agents and info.rest_s > 0.0 and not quiet
        self.history = RunHistory(info.device_names, LATENESS_LIMIT_S, self._seen_s, rests=rests)
        self.boards = [Board() for _ in info.device_names]
        self._dark = DarkBoards(self.boards, info.start_device_ns)
        self._modelled: ModelledJoules | None = None
        if info.kind.is_virtual and self.experiment is not None:
            self._modelled = ModelledJoules(folder)
        try:
            self._events = EventTail(folder.path / EVENTS)
        except RunError as error:
            lost.append(f"{error}: {_WITHOUT_EVENTS}")
        try:
            self._records = BoardRecords(folder, self.boards, self.history, self.now_s)
        except RunError as error:
            lost.append(f"{error}: {_WITHOUT_RECORDS}")
        self.lost = tuple(lost)
        self._start_ns = info.start_device_ns

    def _refresh_info(self) -> None:
        """Read run.json again where it was replaced. Whether its process lives is only asked of a run that
        says nothing: to ask, the lock is held for a moment."""
        try:
            stat = (self.path / "run.json").stat()
        except OSError as error:
            raise RunError(f"{self.path}: {error.strerror or error}; was the run removed?") from None
        stamp = (stat.st_mtime_ns, stat.st_ino)
        silent = self.now_s() - self._grew_s > _SILENCE_S
        if stamp == self._stamp and not (silent and self.info.state is RunState.RUNNING):
            return
        self._stamp = stamp
        self._grew_s = self.now_s()
        self._folder.close()
        self._folder = RunFolder.open(self.path)
        has_trace = (self.path / "trace.parquet").is_file()
        if has_trace != self._had_trace or self.info.start_device_ns != self._start_ns:
            self._reset()
