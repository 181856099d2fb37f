"""Everything that a page shows of one run, as values for JSON: whole, or what changed since the last look.

Rows are lists in the order that their function's docstring says; a number that is not known is None.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roambench.contract.errors import RoambenchError, RunError
from roambench.contract.phases import Outcome
from roambench.live.boards import Board, BoardStream
from roambench.live.history import Happening, RunHistory, Step
from roambench.meters.traits import LATENESS_LIMIT_S
from roambench.mobility.files import read_trace
from roambench.mobility.trace import FloatColumn, Trace
from roambench.rounds.records import ClockProbed
from roambench.runs.event_tail import EventTail
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo, RunState
from roambench.runs.record_store import RecordStore

if TYPE_CHECKING:
    from roambench.live.modelled import ModelledJoules

Row = list[Any]
Message = dict[str, Any]

_OUTCOMES: Final = (Outcome.PENDING, Outcome.AGGREGATED, Outcome.WASTED)
#: Records per look, so that a look at a run of hours does not take seconds.
_MOST: Final = 20_000
#: Seconds without a new record after which it is asked whether the run's process still lives.
_SILENCE_S: Final = 3.0
_LEEWAY_S: Final = 3600.0


@dataclass(slots=True)
class _Stream:
    stream: BoardStream
    seq: int = -1  # of the last record read


class RunView:
    """One run, followed by reading its folder; `look` as often as you like. Not for two threads at once."""

    def __init__(self, path: Path, now_s: Callable[[], float] = time.time) -> None:
        """RunError where `path` is no run folder or cannot be read."""
        self.path = path
        self._sent_head: Message = {}
        self._opened: tuple[EventTail | RecordStore, ...] = ()
        self.now_s = now_s
        self._folder = RunFolder.open(path)
        self._stamp = (0, 0)
        self._news_s = now_s()
        self._reset()

    def close(self) -> None:
        """Close the databases."""
        for opened in self._opened:
            opened.close()
        self._folder.close()

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
    def wasted_joules(self) -> float:
        """Of them, those of the local updates that are wasted."""
        return math.fsum(
            self.update_joules(place)
            for place, update in enumerate(self.history.updates)
            if update.outcome is Outcome.WASTED
        )

    @property
    def has_joules(self) -> bool:
        """Whether anything was measured or modelled yet."""
        return self._modelled is not None or any(board.readings for board in self.boards)

    def _step_joules(self, step: int) -> float | None:
        if self._modelled is not None:
            return self._modelled.by_step.get(step)
        cells = [board.cells[step] for board in self.boards if step in board.cells]
        return math.fsum(cell.joules for cell in cells) if cells else None

    def update_joules(self, place: int) -> float:
        """Of the local update at a place of `history.updates`, its transfers with it."""
        update = self.history.updates[place]
        if self._modelled is not None:
            return self._modelled.by_update.get(update.order_id, 0.0)
        return self.boards[update.device].by_update.get(update.order_id, 0.0)

    def joules_by_step(self) -> dict[int, float]:
        """By step; what boards drew before the first one is step -1, what they drew after the last one its
        number and one."""
        if self._modelled is not None:
            return dict(self._modelled.by_step)
        steps = {step for board in self.boards for step in board.cells}
        return {step: self._step_joules(step) or 0.0 for step in sorted(steps)}

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
        """How many steps the run is to have; 0 where its trace cannot be read."""
        return self._trace.steps if self._trace is not None else 0

    def look(self) -> bool:
        """Read what is new, at most some thousand records of each kind; whether there may be more."""
        self._refresh_info()
        events = self._events.more(_MOST)
        if events is None:
            self._reset()
            return True
        for record in events:
            self.history.add(record)
            if isinstance(record, ClockProbed):
                self._note_clock(record)
        if self._modelled is not None:
            self._changed_steps |= self._modelled.add(events)
        drained = self._drain()
        if events or drained:
            self._news_s = self.now_s()
        more = len(events) == _MOST or drained >= _MOST
        self._caught_up |= not more
        return more

    def _seen_s(self) -> float:
        """When what is read now happened; 0 for what was there before the first look was over."""
        return self.now_s() if self._caught_up else 0.0

    # ---- messages --------------------------------------------------------------------------------

    def whole(self) -> Message:
        """All of the run."""
        steps = [step for _, step in sorted(self.history.steps.items())]
        return {
            "whole": True,
            "head": self._head(),
            "now": self._now(),
            "steps": [self._step_row(step) for step in steps] + self._idle_rows(),
            "places": [self._place_row(step) for step in steps],
            "links": [[step.step, step.links] for step in steps if step.links],
            "updates": [self._update_row(place) for place in range(len(self.history.updates))],
            "boards": [self._board_row(device) for device in range(len(self.boards))],
            "cells": [row for device in range(len(self.boards)) for row in self._cell_rows(device, None)],
            "events": [self._event_row(happening) for happening in self.history.happenings],
            "power": [
                [device, board.power.width_s, 0, board.power.means()]
                for device, board in enumerate(self.boards)
                if board.readings
            ],
        }

    def changes(self) -> Message:
        """What changed since this was called last; "head" only where it did."""
        taken = self.history.taken()
        message: Message = {"now": self._now()}
        head = self._head()
        if head != self._sent_head:
            self._sent_head = head
            message["head"] = head
        steps = sorted(taken.steps | self._changed_steps)
        known = [self.history.steps[step] for step in steps if step in self.history.steps]
        rows = {
            "steps": [self._step_row(step) for step in known]
            + (self._idle_rows() if set(steps) - self.history.steps.keys() else []),
            "places": [self._place_row(step) for step in known if step.step not in self._placed],
            "links": [[step, self.history.steps[step].links] for step in sorted(taken.links)],
            "updates": [self._update_row(place) for place in sorted(taken.updates | self._changed_updates)],
            "boards": [self._board_row(device) for device in sorted(taken.devices | self._changed_boards)],
            "cells": [
                row for device, steps in self._changed_cells.items() for row in self._cell_rows(device, steps)
            ],
            "events": [self._event_row(happening) for happening in taken.happenings],
            "power": [
                [device, board.power.width_s, *changed]
                for device, board in enumerate(self.boards)
                if board.readings and (changed := board.power.taken()) is not None
            ],
        }
        self._placed.update(step.step for step in known)
        self._forget_changes()
        return message | {name: found for name, found in rows.items() if found}

    def _head(self) -> Message:
        """What changes rarely, and what never does."""
        info = self.info
        return self._lasting | {
            "state": str(info.state),
            "reason": info.reason,
            "doubts": list(info.doubts),
            "without_server": self.history.without_server,
        }

    def _lasting_head(self) -> Message:
        info, trace, experiment = self.info, self._trace, self._folder.experiment
        kind = info.kind
        return {
            "run": info.run_id,
            "system": info.system,
            "seed": info.seed,
            "fleet": info.fleet,
            "basis": "measured" if kind.has_agents else "modelled" if kind.is_virtual else "",
            "emulated": kind.emulates,
            "created": info.created_utc,
            "steps": self.steps,
            "step_s": trace.step_s if trace is not None else None,
            "start_utc_s": trace.start_utc_s if trace is not None else 0,
            "devices": list(info.device_names),
            "aps": _points(trace.ap_x_m, trace.ap_y_m) if trace is not None else [],
            "made_up": trace.made_up if trace is not None else False,
            "time_scale": info.time_scale,
            "quiet": experiment.energy.quiet and kind.has_agents,
            "threshold": experiment.rounds.accuracy_threshold,
            "metric_threshold": experiment.rounds.metric_threshold,
        }

    def _now(self) -> Message:
        history, now = self.history, self.history.now
        return {
            "t": round(self.now_s(), 2),
            "step": now.step if now is not None else None,
            "begun": round(history.begun_s, 1),
            "present": len(now.devices) if now is not None else 0,
            "watts": _rounded(self.watts, 3),
            "joules": _rounded(self.joules, 1) if self.has_joules else None,
            "eta_s": _rounded(self.eta_s, 1),
            "paused": history.paused,
            "metric": history.metric.name,
            "better": history.metric.better,
        }

    def _step_row(self, step: Step) -> Row:
        """Step, updates ordered, aggregated, outstanding, score, loss, seconds (None: open), whether the
        cloud aggregated, joules, when it ended: seconds of device time since the run's begin."""
        ends = [board.cells[step.step].until_s for board in self.boards if step.step in board.cells]
        return [
            step.step,
            step.updates,
            step.aggregated,
            step.outstanding,
            _rounded(step.score, 5),
            _rounded(step.loss, 5),
            _rounded(step.wall_s, 3),
            step.cloud,
            _rounded(self._step_joules(step.step), 2),
            _rounded(max(ends, default=None), 1),
        ]

    def _idle_rows(self) -> list[Row]:
        """Of what boards drew before the first step and after the last one, step and joules."""
        return [
            [step, 0, 0, 0, None, None, None, False, _rounded(self._step_joules(step), 2), None]
            for step in sorted({step for board in self.boards for step in board.cells})
            if step not in self.history.steps
        ]

    def _place_row(self, step: Step) -> Row:
        """Step, the devices present, the access point of each, where each is: x and y in metres."""
        trace = self._trace
        where: dict[int, tuple[int, int]] = {}
        if trace is not None and 0 <= step.step < trace.steps:
            rows = trace.rows(step.step)
            columns = (trace.device[rows], trace.x_m[rows].round(), trace.y_m[rows].round())
            where = {
                device: (int(x_m), int(y_m))
                for device, x_m, y_m in zip(*(column.tolist() for column in columns), strict=True)
            }
        places = [where.get(device, (None, None)) for device in step.devices]
        return [
            step.step,
            list(step.devices),
            list(step.aps),
            [x_m for x_m, _ in places],
            [y_m for _, y_m in places],
        ]

    def _update_row(self, place: int) -> Row:
        """Its number, device, step, outcome (0 pending, 1 aggregated, 2 wasted), step in which that was
        decided, why, joules."""
        update = self.history.updates[place]
        outcome = _OUTCOMES.index(update.outcome)
        joules = _rounded(self.update_joules(place), 2)
        return [place, update.device, update.step, outcome, update.decided_step, update.reason, joules]

    def _board_row(self, device: int) -> Row:
        """Device, phase, since when, access point, watts, temperature, what throttles it, when its newest
        reading was taken, what is wrong with its meter, how late its last training was, joules."""
        board, activity = self.boards[device], self.history.activities[device]
        return [
            device,
            str(activity.phase),
            round(activity.since_s, 1),
            activity.ap,
            _rounded(board.watts, 3),
            _rounded(board.temperature_c, 1),
            board.throttled,
            round(board.seen_s, 1),
            board.meter,
            _rounded(activity.late_s, 2),
            _rounded(board.joules, 1),
        ]

    def _cell_rows(self, device: int, steps: Iterable[int] | None) -> list[Row]:
        """Device, step, mean watts, temperature, throttle bits."""
        cells = self.boards[device].cells
        return [
            [device, step, _rounded(cell.watts, 3), _rounded(cell.temperature_c, 1), cell.throttle_bits]
            for step in (sorted(cells) if steps is None else sorted(steps))
            for cell in [cells[step]]
        ]

    def _event_row(self, happening: Happening) -> Row:
        """Step, device (-1: none), kind, gravity (2 the gravest), detail."""
        return [happening.step, happening.device, happening.kind, happening.gravity, happening.detail]

    # ---- reading ---------------------------------------------------------------------------------

    def _reset(self) -> None:
        """Begin anew with the folder's first record."""
        for opened in self._opened:
            opened.close()
        folder = self._folder
        path = folder.path / "trace.parquet"
        self._had_trace = path.is_file()
        try:
            trace = read_trace(path)
        except RoambenchError:  # not written yet, or damaged: then there is no map
            trace = None
        names = folder.info.device_names
        self._trace: Trace | None = trace
        self.history = RunHistory(names, LATENESS_LIMIT_S, self._seen_s)
        self._caught_up = False
        self.boards = [Board() for _ in names]
        self._modelled: ModelledJoules | None = None
        if folder.info.kind.is_virtual:
            # Late: the link models' scipy costs a page of measured runs as much again as all the rest.
            from roambench.live.modelled import ModelledJoules

            self._modelled = ModelledJoules(folder)
        self._events = EventTail(folder.path / "events.sqlite")
        self._records = RecordStore(folder.path / "records.sqlite", read_only=True)
        self._opened = (self._events, self._records)
        self._version = -1
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._place = {name: device for device, name in enumerate(names)}
        self._offsets: dict[tuple[str, str], float] = {}
        self._sent_head = {}
        self._placed: set[int] = set()
        self._throttled: dict[int, str] = {}
        self._start_ns = folder.info.start_device_ns
        self.resets = getattr(self, "resets", -1) + 1
        self._lasting = self._lasting_head()
        self._forget_changes()

    def _refresh_info(self) -> None:
        """Read run.json again where it was replaced. Whether its process lives is only asked of a run that
        says nothing: to ask, the lock is held for a moment."""
        try:
            stat = (self.path / "run.json").stat()
        except OSError as error:
            raise RunError(f"{self.path}: {error.strerror or error}; was the run removed?") from None
        stamp = (stat.st_mtime_ns, stat.st_ino)
        silent = self.now_s() - self._news_s > _SILENCE_S
        if stamp == self._stamp and not (silent and self.info.state is RunState.RUNNING):
            return
        self._stamp = stamp
        self._news_s = self.now_s()
        self._folder.close()
        self._folder = RunFolder.open(self.path)
        has_trace = (self.path / "trace.parquet").is_file()
        if has_trace != self._had_trace or self.info.start_device_ns != self._start_ns:
            self._reset()

    def _drain(self) -> int:
        """Read what boards have drained; returns how many records that were."""
        version = self._records.version()
        if version == self._version:
            return 0
        arrival_s = self.now_s() if self._version >= 0 else self._written_s()
        read = 0
        for key in self._records.spools():
            at = self._streams.get(key)
            if at is None:
                if key[0] not in self._place:
                    continue  # of no device of this run
                at = self._streams[key] = _Stream(self._stream_of(key[0]))
            records = self._records.records_beyond(*key, at.seq, _MOST - read)
            if not records:
                continue
            for _, kind, payload in records:
                at.stream.add(kind, payload)
            at.seq = records[-1][0]
            read += len(records)
            self._note_board(key[0], at.stream, arrival_s)
            if read >= _MOST:
                return read  # the version is not noted: there is more of it
        self._version = version
        return read

    def _written_s(self) -> float:
        """When the record store was written last; at the first look nobody saw its records arrive."""
        files = (self.path / "records.sqlite", self.path / "records.sqlite-wal")
        return max((file.stat().st_mtime for file in files if file.is_file()), default=self.now_s())

    def _stream_of(self, device: str) -> BoardStream:
        def on_one_clock(boot: str, ns: int) -> int | None:
            offset_ns = self._offsets.get((device, boot)) if self.info.kind.own_clocks else 0.0
            if self._start_ns is None or offset_ns is None:
                return None
            since_ns = ns - self._start_ns - round(offset_ns)
            return since_ns if since_ns * 1e-9 < self._longest_s() else None

        return BoardStream(device, self.boards[self._place[device]], self.info.time_scale, on_one_clock)

    def _longest_s(self) -> float:
        """Device time that can have passed since the run's begin: a board's clock may say anything."""
        try:
            begun_s = datetime.fromisoformat(self.info.created_utc).timestamp()
        except ValueError:
            return math.inf
        since_s = self.now_s() - begun_s
        return (since_s + _LEEWAY_S) * self.info.time_scale if since_s > -_LEEWAY_S else math.inf

    def _note_board(self, name: str, stream: BoardStream, arrival_s: float) -> None:
        device = self._place[name]
        board = self.boards[device]
        throttled = self._throttled.get(device, "")
        stream.arrived(arrival_s)
        if board.throttled != throttled:
            self._throttled[device] = board.throttled
            now = self.history.now
            step = now.step if now is not None else -1
            if board.throttled:
                self.history.note(step, device, "throttled", 2, board.throttled)
            else:
                self.history.note(step, device, "no longer throttled", 0, f"was: {throttled}")
        self._changed_boards.add(device)
        if stream.changed_steps:
            self._changed_steps |= stream.changed_steps
            self._changed_cells.setdefault(device, set()).update(stream.changed_steps)
            stream.changed_steps.clear()
        for order_id in stream.changed_updates:
            place = self.history.place(order_id)
            if place is not None:
                self._changed_updates.add(place)
        stream.changed_updates.clear()

    def _note_clock(self, probe: ClockProbed) -> None:
        """A board's clock against the controller's; emulated boards go by the controller's own."""
        if self.info.kind.own_clocks and 0 <= probe.device < len(self.info.device_names):
            self._offsets[self.info.device_names[probe.device], probe.boot_id] = probe.offset_ns

    def _forget_changes(self) -> None:
        self._changed_steps: set[int] = set()
        self._changed_updates: set[int] = set()
        self._changed_boards: set[int] = set()
        self._changed_cells: dict[int, set[int]] = {}


def _rounded(value: float | None, digits: int) -> float | None:
    """None for what is none; JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _points(x_m: FloatColumn, y_m: FloatColumn) -> list[list[int]]:
    return [[round(x), round(y)] for x, y in zip(x_m.tolist(), y_m.tolist(), strict=True)]
