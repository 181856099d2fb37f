"""A run as messages to pages, values for JSON: whole, or what changed since the last look.

Rows are lists in the order that their function's docstring says; a number that is not known is None. Local
updates, of which there may be a million, are columns. What a page shows of one step only (positions, links,
the boards' cells) is sent of the newest steps: a page asks for that of the step it shows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from roambench.contract.phases import Outcome
from roambench.live.history import Happening, LiveStep
from roambench.live.view import RunView
from roambench.mobility.trace import FloatColumn
from roambench.report.quantities import QUANTITIES

Row = list[Any]
Message = dict[str, Any]

#: Parts of `RunMessages.details`.
DETAILS: Final = ("places", "links", "charges", "cells")
_PLACES: Final = {outcome: place for place, outcome in enumerate(Outcome)}
#: A page shows a step, and where devices were in the one before.
_NEWEST: Final = 2
#: The quantities that a page shows of a run as it goes on.
_SHOWN: Final = ("whole_run_j", "consumed_j", "wasted_j", "wasted_trainings", "failed_trainings")


def encoded(message: Any) -> str:
    """A message as one line of JSON."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class RunMessages:
    """The messages to pages about the run of a view, and a memory of what was sent."""

    def __init__(self, view: RunView) -> None:
        self._view = view
        self._resets = -1  # of the view, when the run was last sent whole
        self._head_sent: Message = {}
        self._steps_sent: set[int] = set()  # whose positions, which never change, were sent

    def whole(self) -> Message:
        """All of the run, with the details of its newest steps."""
        view, history = self._view, self._view.history
        steps = [step for _, step in sorted(history.steps.items())]
        return self.details(sorted(history.steps)[-_NEWEST:]) | {
            "whole": True,
            "head": self._head(),
            "now": self._now(),
            "steps": [self._step_row(step) for step in steps] + self._idle_rows(),
            "updates": self._update_columns(range(len(history.updates))),
            "boards": [self._board_row(device) for device in range(len(view.boards))],
            "events": [self._event_row(happening) for happening in history.happenings],
            "power": [
                [device, board.power.width_s, 0, board.power.means()]
                for device, board in enumerate(view.boards)
                if board.readings
            ],
        }

    def step(self, step: int) -> Message:
        """The details of a step and of the one before: where devices are, links, cells."""
        return self.details(shown_with(step))

    def details(self, steps: Iterable[int]) -> Message:
        """Return the positions, links and cells of these steps."""
        history, boards = self._view.history, self._view.boards
        known = [history.steps[step] for step in steps if step in history.steps]
        return {
            "places": [self._position_row(step) for step in known],
            "links": [[step.step, step.links] for step in known if step.links],
            "charges": self._charge_rows(known),
            "cells": [
                row
                for device, board in enumerate(boards)
                for row in self._cell_rows(device, [step.step for step in known if step.step in board.cells])
            ],
        }

    def curves(self) -> Message:
        """The run's metric, and step by step: step, score, joules and wasted joules so far, wasted local
        updates so far."""
        view = self._view
        steps = sorted(view.history.steps.values(), key=lambda step: step.step)
        by_step = view.joules_by_step()
        wasted = [0] * (len(steps) + 1)
        wasted_j = [0.0] * (len(steps) + 1)
        for index, update in enumerate(view.history.updates):
            if update.outcome is Outcome.WASTED and 0 <= update.decided_step < len(steps):
                wasted[update.decided_step] += 1
                wasted_j[update.decided_step] += view.update_joules(index)
        rows: list[Row] = []
        joules, lost, lost_j = math.fsum(joules for step, joules in by_step.items() if step < 0), 0, 0.0
        for index, step in enumerate(steps):
            joules += by_step.get(step.step, 0.0)
            lost, lost_j = lost + wasted[index], lost_j + wasted_j[index]
            rows.append([step.step, _rounded(step.score, 5), round(joules, 1), round(lost_j, 1), lost])
        return {"metric": view.history.metric.name, "rows": rows}

    def changes(self) -> Message:
        """The changes since the last call, "head" only where it did; all of the run the first time,
        and where the view began again."""
        view, history = self._view, self._view.history
        taken = history.taken()
        curves = [(device, board.power, board.power.taken()) for device, board in enumerate(view.boards)]
        head = self._head()
        if view.resets != self._resets:
            self._resets, self._head_sent = view.resets, head
            self._steps_sent = set(history.steps)
            return self.whole()
        message: Message = {"now": self._now()}
        if head != self._head_sent:
            self._head_sent = head
            message["head"] = head
        known = [history.steps[step] for step in sorted(taken.steps) if step in history.steps]
        rows = {
            "steps": [self._step_row(step) for step in known]
            + (self._idle_rows() if taken.steps - history.steps.keys() else []),
            "places": [
                self._position_row(step) for step in known[-_NEWEST:] if step.step not in self._steps_sent
            ],
            "links": [[step, history.steps[step].links] for step in sorted(taken.links)],
            "charges": self._charge_rows(known[-_NEWEST:]),
            "updates": self._update_columns(sorted(taken.updates)),
            "boards": [self._board_row(device) for device in sorted(taken.devices)],
            "cells": [row for device, steps in taken.cells.items() for row in self._cell_rows(device, steps)],
            "events": [self._event_row(happening) for happening in taken.happenings],
            "power": [
                [device, power.width_s, *changed] for device, power, changed in curves if changed is not None
            ],
        }
        self._steps_sent.update(step.step for step in known)
        return message | {name: found for name, found in rows.items() if found}

    def _head(self) -> Message:
        """The part of a message that changes rarely or never."""
        view, info, trace, kind = self._view, self._view.info, self._view.trace, self._view.info.kind
        experiment = view.experiment
        return {
            "run": info.run_id,
            "system": info.system,
            "seed": info.seed,
            "fleet": info.fleet,
            "basis": "measured" if kind.has_agents else "modelled" if kind.is_virtual else "",
            "emulated": kind.emulates,
            "outcomes": [outcome.value for outcome in Outcome],
            "created": info.created_utc,
            "steps": view.steps,
            "step_s": trace.step_s if trace is not None else None,
            "start_utc_s": trace.start_utc_s if trace is not None else 0,
            "devices": list(info.device_names),
            "aps": _points(trace.ap_x_m, trace.ap_y_m) if trace is not None else [],
            "bounds": _corners(trace.x_m, trace.y_m) if trace is not None else [],
            "made_up": trace.made_up if trace is not None else False,
            "time_scale": info.time_scale,
            "rest_s": info.rest_s if kind.has_agents else 0.0,
            "quiet": experiment is not None and experiment.energy.quiet and kind.has_agents,
            "threshold": None if experiment is None else experiment.rounds.accuracy_threshold,
            "metric_threshold": None if experiment is None else experiment.rounds.metric_threshold,
            "state": str(info.state),
            "reason": info.reason,
            "doubts": [*view.lost, *info.doubts],
            "without_server": view.history.without_server,
            "batteries": any(step.charges for step in view.history.steps.values()),
            "titles": {name: QUANTITIES[name].title for name in _SHOWN},
        }

    def _now(self) -> Message:
        view, history, now = self._view, self._view.history, self._view.history.now
        return {
            "t": round(view.now_s(), 2),
            "step": now.step if now is not None else None,
            "begun": round(history.begun_s, 1),
            "present": len(now.devices) if now is not None else 0,
            "watts": _rounded(view.watts, 3),
            "joules": _rounded(view.joules, 1) if view.has_joules else None,
            "eta_s": _rounded(view.eta_s, 1),
            "paused": history.paused,
            "metric": history.metric.name,
            "better": history.metric.better,
        }

    def _step_row(self, step: LiveStep) -> Row:
        """Step, updates ordered, aggregated, outstanding, score, loss, seconds (None: open), whether the
        cloud aggregated, joules, when it ended: seconds of device time since the run's begin, devices present
        (None: no step of the run), mean and lowest charge of the batteries, devices without charge."""
        boards = self._view.boards
        ends = [board.cells[step.step].until_s for board in boards if step.step in board.cells]
        return [
            step.step,
            step.updates,
            step.aggregated,
            step.outstanding,
            _rounded(step.score, 5),
            _rounded(step.loss, 5),
            _rounded(step.wall_s, 3),
            step.cloud,
            _rounded(self._view.step_joules(step.step), 2),
            _rounded(max(ends, default=None), 1),
            len(step.devices),
            _rounded(math.fsum(step.charges) / len(step.charges), 4) if step.charges else None,
            _rounded(min(step.charges, default=None), 4),
            len(step.off),
        ]

    def _idle_rows(self) -> list[Row]:
        """Step and joules of the time before the first step and after the last one."""
        return [
            [
                *(step, 0, 0, 0, None, None, None, False),
                *(_rounded(self._view.step_joules(step), 2), None, None, None, None, 0),
            ]
            for step in sorted({step for board in self._view.boards for step in board.cells})
            if step not in self._view.history.steps
        ]

    def _position_row(self, step: LiveStep) -> Row:
        """Step, the devices present, the access point of each, where each is: x and y in metres."""
        trace = self._view.trace
        where: dict[int, tuple[int, int]] = {}
        if trace is not None and 0 <= step.step < trace.steps:
            rows = trace.rows(step.step)
            columns = (trace.device[rows], trace.x_m[rows].round(), trace.y_m[rows].round())
            where = {
                device: (int(x_m), int(y_m))
                for device, x_m, y_m in zip(*(column.tolist() for column in columns), strict=True)
            }
        positions = [where.get(device, (None, None)) for device in step.devices]
        return [
            step.step,
            list(step.devices),
            list(step.aps),
            [x_m for x_m, _ in positions],
            [y_m for _, y_m in positions],
        ]

    def _charge_rows(self, steps: Sequence[LiveStep]) -> list[Row]:
        """Step, the charge of each device's battery, the devices without charge."""
        return [
            [step.step, [_rounded(charge, 3) for charge in step.charges], list(step.off)]
            for step in steps
            if step.charges
        ]

    def _update_columns(self, indices: Sequence[int]) -> Message:
        """Local updates as columns: number, device and step, each less the one above; outcome (its place in
        the head's `outcomes`); steps until it was decided; why (its place in `reasons`); joules."""
        if not indices:
            return {}
        all_updates, joules = self._view.history.updates, self._view.update_joules
        updates = [all_updates[index] for index in indices]
        reasons = {reason: place for place, reason in enumerate({update.reason: None for update in updates})}
        columns = {
            "number": _differences(indices),
            "device": _differences([update.device for update in updates]),
            "step": _differences([update.step for update in updates]),
            "outcome": [_PLACES[update.outcome] for update in updates],
            "after": [update.decided_step - update.step for update in updates],
            "why": [reasons[update.reason] for update in updates],
            "joules": [_rounded(joules(index), 2) for index in indices],
        }
        return columns | {"reasons": list(reasons)}

    def _board_row(self, device: int) -> Row:
        """Device, phase, since when, access point, watts, temperature, what throttles it, when its newest
        reading was taken, what is wrong with its meter, how late its last training was, joules."""
        board, activity = self._view.boards[device], self._view.history.activities[device]
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

    def _cell_rows(self, device: int, steps: Iterable[int]) -> list[Row]:
        """Device, step, mean watts, temperature, throttle bits, seconds of device time that it rested."""
        cells = self._view.boards[device].cells
        return [
            [
                device,
                step,
                _rounded(cell.watts, 3),
                _rounded(cell.temperature_c, 1),
                cell.throttle_bits,
                _rounded(cell.rested_s, 1),
            ]
            for step in sorted(steps)
            for cell in [cells[step]]
        ]

    def _event_row(self, happening: Happening) -> Row:
        """Step, device (-1: none), kind, gravity (2 the gravest), detail."""
        return [happening.step, happening.device, happening.kind, happening.gravity, happening.detail]


def shown_with(step: int) -> range:
    """The steps whose details a page has to show a step."""
    return range(step - _NEWEST + 1, step + 1)


def _differences(numbers: Sequence[int]) -> list[int]:
    """Each number less the one above it; the first as it is."""
    values = np.asarray(numbers, np.int64)
    return list(map(int, np.diff(values, prepend=0)))


def _rounded(value: float | None, digits: int) -> float | None:
    """None for what is none; JSON has no NaN."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _corners(x_m: FloatColumn, y_m: FloatColumn) -> list[list[int]]:
    """The corners of what holds all points; none of no points."""
    return [[round(end(x_m)), round(end(y_m))] for end in (np.min, np.max)] if x_m.size else []


def _points(x_m: FloatColumn, y_m: FloatColumn) -> list[list[int]]:
    return [[round(x), round(y)] for x, y in zip(x_m.tolist(), y_m.tolist(), strict=True)]
