"""The figures of a run as OpenMetrics text, for Prometheus and what reads like it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from roambench.contract.metric import ACCURACY
from roambench.contract.phases import Outcome
from roambench.live.boards import Board
from roambench.live.view import RunView
from roambench.report.quantities import QUANTITIES
from roambench.runs.info import RunState

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name; a counter's samples are called NAME_total, as the format wants it."""

    name: str
    kind: Literal["gauge", "counter", "info"]
    unit: str
    help: str
    samples: tuple[Sample, ...]

    def lines(self, run: dict[str, str]) -> Iterator[str]:
        """The family's part of the text; each sample has the labels of its run, too."""
        yield f"# TYPE {self.name} {self.kind}"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {_escaped(self.help)}"
        suffix = {"counter": "_total", "info": "_info"}.get(self.kind, "")
        for labels, value in self.samples:
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in (run | dict(labels)).items())
            yield f"{self.name}{suffix}{{{inside}}} {value:.12g}"


def open_metrics(families: Iterable[Family], name: str) -> str:
    """The figures as text; every sample carries the run's name. What is not known is left out."""
    lines = [line for family in families if family.samples for line in family.lines({"run": name})]
    return "\n".join([*lines, "# EOF", ""])


def families_of(view: RunView) -> Iterator[Family]:
    """The figures of a run as they are now."""
    info, history, now_s = view.info, view.history, view.now_s()
    about = {"system": info.system, "fleet": info.fleet, "state": str(info.state)}
    yield Family("roambench_run", "info", "", "The run that the figures are of.", ((about, 1.0),))
    now = history.now
    done = sum(step.wall_s is not None for step in history.steps.values())
    yield _one("roambench_steps_closed", "Time steps that are over.", {}, done)
    yield _one("roambench_steps_planned", "Time steps of the whole run.", {}, view.steps or None)
    yield _one(
        "roambench_devices_present", "Devices in the open step.", {}, len(now.devices) if now else None
    )
    scored = [step.score for step in history.steps.values() if step.score is not None]
    score, judged = scored[-1] if scored else None, history.metric
    if judged == ACCURACY:
        yield _one("roambench_accuracy_ratio", "Accuracy of the global model.", {}, score, unit="ratio")
    else:
        labels = {"metric": judged.name, "better": judged.better}
        yield _one("roambench_task_metric", "The task's first metric, of the global model.", labels, score)
    basis = {"basis": "modelled" if info.kind.is_virtual else "measured"}
    for name, quantity, kind, joules_of in _JOULES:
        quantity = "consumed_j" if info.kind.is_virtual and quantity == "whole_run_j" else quantity
        meaning = f"Gross energy so far, {QUANTITIES[quantity].title}, provisional."
        joules = joules_of(view) if view.has_joules else None
        yield _one(f"roambench_{name}_joules", meaning, basis, joules, unit="joules", kind=kind)
    counts = tuple(({"outcome": str(o)}, float(history.count(o))) for o in Outcome)
    yield Family("roambench_local_updates", "gauge", "", "Local updates by outcome.", counts)
    boards = dict(zip(info.device_names, view.boards, strict=True))
    for key, unit, meaning, of_board in _OF_BOARDS:
        if key == "reading_age_seconds" and info.state is RunState.FINISHED:
            continue  # no more are expected
        values = {device: of_board(board, now_s) for device, board in boards.items() if board.readings}
        samples = tuple(
            ({"device": device}, value) for device, value in values.items() if math.isfinite(value)
        )
        yield Family(f"roambench_board_{key}", "gauge", unit, meaning, samples)


#: Name, the report's quantity, kind and value of the joules so far. Virtual devices draw nothing but what is
#: used for learning.
_JOULES: Final[tuple[tuple[str, str, Literal["gauge", "counter"], Callable[[RunView], float]], ...]] = (
    ("energy", "whole_run_j", "counter", lambda view: view.joules),
    ("learning_energy", "consumed_j", "gauge", lambda view: view.learning_joules),
    ("wasted_energy", "wasted_j", "gauge", lambda view: view.outcome_joules(Outcome.WASTED)),
    ("failed_energy", "failed_j", "gauge", lambda view: view.outcome_joules(Outcome.FAILED)),
)
#: Name, unit, help and value (at a time by our clock) of each board's state.
_OF_BOARDS: Final[tuple[tuple[str, str, str, Callable[[Board, float], float]], ...]] = (
    ("power_watts", "watts", "Newest reading of the board's meter.", lambda board, _: board.watts),
    ("temperature_celsius", "celsius", "Temperature.", lambda board, _: board.temperature_c),
    ("throttled", "", "1: it runs slower than it could.", lambda board, _: float(bool(board.throttled))),
    ("reading_age_seconds", "seconds", "Age of its newest reading.", lambda board, s: s - board.seen_s),
)


def _one(
    name: str,
    meaning: str,
    labels: dict[str, str],
    value: float | None,
    *,
    unit: str = "",
    kind: Literal["gauge", "counter"] = "gauge",
) -> Family:
    return Family(name, kind, unit, meaning, () if value is None else ((labels, float(value)),))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
