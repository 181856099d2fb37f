"""Live progress of one run: what the records say so far, as one line per time step.

On a terminal the step in progress is redrawn in place below the finished ones; elsewhere (a file, CI) each
finished step is one plain line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text

from roambench.contract.metric import ACCURACY, Metric
from roambench.contract.orders import AnswerStatus
from roambench.mobility.trace import Trace
from roambench.rounds.record_batch import RecordBatch
from roambench.rounds.records import (
    EdgeAggregated,
    MetricsScored,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.runner.screen import detail, say, tells_all

_HOUR_S = 3600.0
_COUNTED = ("train", "upload", "exchange")  # orders


@dataclass(slots=True)
class StepProgress:
    """One time step, as far as its records tell."""

    step: int
    present: int = 0
    out: set[str] = field(default_factory=set)  # train and upload orders
    answered: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class StepDone:
    """One time step that was closed. `accuracy` and `loss` are the global model's; None: not scored in this
    step. `joules`: measured so far on all devices, as the meters say it; None where no meter is."""

    system: str
    step: int  # from 0
    steps: int  # of the whole trace
    present: int
    aggregated: int
    accuracy: float | None
    loss: float | None
    joules: float | None
    metrics: Mapping[str, float] = field(
        default_factory=dict
    )  # the task's own, scored in this step; NaN: none


OnStepDone = Callable[[StepDone], object]


class RunProgress:
    """Feed it every record of the round loop (`on_record`) and, now and then, the joules measured so far.

    Use it as a context manager. It keeps nothing but the step in progress and the last figures.
    """

    def __init__(
        self,
        console: Console,
        trace: Trace,
        *,
        system: str,
        seconds: Callable[[], float] = time.monotonic,
        on_step: OnStepDone | None = None,
    ) -> None:
        self._console = console
        self._trace = trace
        self._system = system
        self._seconds = seconds
        self._listener = on_step
        self._started_s = seconds()
        self._step = StepProgress(-1)
        self._first: int | None = None
        self._metric = ACCURACY
        self._score: float | None = None
        self._metrics: dict[str, float] = {}
        self._joules: float | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._started_s = self._seconds()
        if self._console.is_terminal and not self._console.quiet:
            self._live = Live(
                console=self._console, get_renderable=self._status, refresh_per_second=4, transient=True
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def on_records(self, records: Sequence[RoundRecord]) -> None:
        """The same of many: orders and answers of a big step are counted together."""
        if isinstance(records, RecordBatch) and not tells_all():
            self._on_batch(records)
            return
        kinds = set(map(type, records))
        if kinds == {OrderGiven}:
            given = cast("Sequence[OrderGiven]", records)
            self._step.out.update(order.order_id for order in given if order.kind in _COUNTED)
        elif kinds == {OrderAnswered} and not tells_all():
            answers = cast("Sequence[OrderAnswered]", records)
            counted = [answer.status for answer in answers if answer.order_id in self._step.out]
            self._step.answered += len(counted)
            self._step.failed += len(counted) - counted.count(AnswerStatus.DONE)
        elif not kinds <= {EdgeAggregated, OutcomeDecided}:
            for record in records:
                self.on_record(record)

    def _on_batch(self, batch: RecordBatch) -> None:
        columns = batch.columns
        if batch.kind is OrderGiven and columns["kind"] in _COUNTED:
            self._step.out.update(columns["order_id"])
        elif batch.kind is OrderAnswered and not self._step.out.isdisjoint(columns["order_id"]):
            self._step.answered += len(batch)

    def on_record(self, record: RoundRecord) -> None:
        """Any record of the round loop; those that do not concern progress change nothing."""
        match record:
            case StepOpened():
                self._step = StepProgress(record.step, present=len(record.devices))
                self._first = record.step if self._first is None else self._first
            case OrderGiven():
                self.on_order_given(record)
            case OrderAnswered():
                self.on_order_answered(record)
                if tells_all():
                    detail(self._console, _told(self._system, record))
            case MetricsScored():
                self._metrics = dict(zip(record.names, record.values, strict=True))
                if record.better[0]:
                    self._metric, self._score = Metric(record.names[0], record.better[0]), record.values[0]
            case StepClosed():
                self.on_step(record)

    def on_order_given(self, record: OrderGiven) -> None:
        """Count an order that is out."""
        if record.kind in _COUNTED:
            self._step.out.add(record.order_id)

    def on_order_answered(self, record: OrderAnswered) -> None:
        """Count an order that is answered."""
        if record.order_id in self._step.out:
            self._step.answered += 1
            self._step.failed += record.status != AnswerStatus.DONE

    def on_step(self, record: StepClosed) -> None:
        """Print the finished step, and hand it to who listens."""
        if record.accuracy is not None:
            self._metric, self._score = ACCURACY, record.accuracy
        self._console.print(self._line(record.step, record.aggregated, record.step + 1), soft_wrap=True)
        if self._listener is not None:
            self._listener(
                StepDone(
                    self._system,
                    record.step,
                    self._trace.steps,
                    self._step.present,
                    record.aggregated,
                    record.accuracy,
                    record.loss,
                    self._joules,
                    self._metrics,
                )
            )
        self._metrics = {}

    def set_joules(self, joules: float) -> None:
        """The energy measured so far, summed over all devices."""
        self._joules = joules

    def say(self, text: str) -> None:
        """A sentence above the step in progress."""
        say(self._console, text)

    def eta_s(self, steps_done: int) -> float | None:
        """Seconds left if the steps to come last as long as those done here; None before the first is."""
        here = steps_done - (self._first or 0)
        if not here:
            return None
        return (self._seconds() - self._started_s) / here * max(0, self._trace.steps - steps_done)

    def _status(self) -> Text:
        if self._step.step < 0:
            return Text(f"{self._system}  starting")
        return self._line(self._step.step, None, self._step.step)

    def _scored(self) -> str:
        """Return what the run is judged by, of the last model that was scored."""
        if self._metric != ACCURACY and self._score is not None:
            return f"{self._metric.name} {self._score:.4g}"
        return "score --  " if self._score is None else f"acc {self._score:6.1%}"

    def _line(self, step: int, aggregated: int | None, steps_done: int) -> Text:
        """The step as one line; `aggregated` is None while it is in progress."""
        now = self._step
        width = len(str(self._trace.steps))
        eta_s = self.eta_s(steps_done)
        # How soon a part gives way in a terminal that is too narrow for all: the highest first.
        parts = [
            (0, Text(f"{self._system:<8} ", style="bold")),
            (0, Text(f"{step + 1:>{width}}/{self._trace.steps} {trace_time(self._trace, step)}")),
            (6, Text(f"  present {now.present:>2}")),
            (5, Text(f"  orders {now.answered:>2}/{len(now.out):<2}")),
            (1, Text(f" ({now.failed} failed)" if now.failed else "", style="red")),
            (1, Text(f"  {self._scored()}")),
            (4, Text("  -- J" if self._joules is None else f"  boards {self._joules:,.0f} J")),
            (2, Text("" if eta_s is None else f"  ETA {duration(eta_s)}")),
            (3, Text("" if aggregated is None else f"  aggregated {aggregated}")),
        ]
        while self._console.is_terminal and sum(len(part) for _, part in parts) > self._console.width:
            first = max(rank for rank, _ in parts)
            if not first:
                break
            parts = [(rank, part) for rank, part in parts if rank != first]
        line = Text(style="dim" if aggregated is None else "", no_wrap=True, overflow="ellipsis")
        return line.append_text(Text.assemble(*(part for _, part in parts)))


def _told(system: str, answer: OrderAnswered) -> str:
    """An answer for -v: which order, how it ended, and how long its work took."""
    figures = [f"{answer.train_s:.1f} s of training"] if answer.train_s else []
    if answer.transferred_bytes:
        figures.append(f"{answer.transferred_bytes:,} B in {answer.transfer_s:.2f} s")
    what = f"step {answer.step + 1} device {answer.device} {answer.order_id.rpartition('/')[2]}"
    reason = f": {answer.reason}" if answer.reason else ""
    return f"{system} {what}: {', '.join([answer.status, *figures])}{reason}"


def trace_time(trace: Trace, step: int) -> str:
    """Return when a step begins: `Tue 17 Apr 13:00` where the trace has a calendar, else `day 1 13:00`."""
    seconds = round(step * trace.step_s)
    if trace.start_utc_s:
        return datetime.fromtimestamp(trace.start_utc_s + seconds, UTC).strftime("%a %d %b %H:%M")
    return f"day {seconds // 86400 + 1} {seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}"


def duration(seconds: float) -> str:
    """1:05 for 65 s, 2:00:00 for two hours."""
    whole = round(seconds)
    hours, rest = divmod(whole, round(_HOUR_S))
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes}:{second:02d}"
