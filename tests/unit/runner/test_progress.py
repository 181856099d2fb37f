import io
from itertools import groupby

import numpy as np
import pytest
from rich.console import Console

from roambench.mobility.trace import Trace
from roambench.rounds.records import (
    CloudAggregated,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.runner.progress import RunProgress, duration, trace_time

MIDNIGHT_UTC_S = 1334620800  # 2012-04-17, a Tuesday


def empty_trace(steps: int, start_utc_s: int = 0) -> Trace:
    none_i, none_f = np.empty(0, np.int32), np.empty(0)
    return Trace(
        steps, 3600.0, ("a",), none_i, none_i, none_f, none_f, ("AP0",), np.zeros(1), np.zeros(1), start_utc_s
    )


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def one_step(step: int, accuracy: float | None) -> list[RoundRecord]:
    """Three present; a training, an upload that is lost, an idle order, a discard; two models aggregated."""
    return [
        StepOpened(step, (0, 1, 2), (0, 1, 1), (10.0, 20.0, 30.0)),
        OrderGiven(step, 0, f"{step}/0/train", "train", 0),
        OrderGiven(step, 1, f"{step}/1/upload", "upload", 1),
        OrderGiven(step, 2, f"{step}/2/idle", "idle", -1),
        OrderGiven(step, 2, f"{step}/2/discard", "discard", -1),
        OrderAnswered(step, 0, f"{step}/0/train", "done"),
        OrderAnswered(step, 1, f"{step}/1/upload", "lost", "killed"),
        OrderAnswered(step, 2, f"{step}/2/idle", "done"),
        CloudAggregated(step, (0,), (1.0,), "ab"),
        StepClosed(step, 2, (), (), accuracy, None),
    ]


def plain() -> tuple[io.StringIO, Console]:
    text = io.StringIO()
    return text, Console(file=text, width=200)


def test_every_closed_step_is_one_plain_line_where_there_is_no_terminal() -> None:
    text, console = plain()
    clock = Clock()
    with RunProgress(console, empty_trace(10, MIDNIGHT_UTC_S), system="mohawk", seconds=clock) as progress:
        clock.now_s += 6.0
        for record in one_step(0, None):
            progress.on_record(record)
        clock.now_s += 6.0
        progress.set_joules(1234.6)
        for record in one_step(1, 0.8125):
            progress.on_record(record)
    first, second = text.getvalue().splitlines()
    assert first == (
        "mohawk    1/10 Tue 17 Apr 00:00  present  3  orders  2/2  (1 failed)  score --    -- J  ETA 0:54"
        "  aggregated 2"
    )
    assert second == (
        "mohawk    2/10 Tue 17 Apr 01:00  present  3  orders  2/2  (1 failed)  acc  81.2%  boards 1,235 J"
        "  ETA 0:48  aggregated 2"
    )


def test_the_last_accuracy_stays_when_a_step_is_not_scored() -> None:
    text, console = plain()
    with RunProgress(console, empty_trace(2), system="hierfavg") as progress:
        for record in [*one_step(0, 0.5), *one_step(1, None)]:
            progress.on_record(record)
    assert [line.count("acc  50.0%") for line in text.getvalue().splitlines()] == [1, 1]


def test_a_terminal_sees_the_step_in_progress_before_it_closes() -> None:
    text = io.StringIO()
    console = Console(file=text, width=200, force_terminal=True, legacy_windows=False)
    with RunProgress(console, empty_trace(3), system="mohawk") as progress:
        for record in one_step(0, None)[:-1]:
            progress.on_record(record)
        progress.say("pi-03 redialled")
        assert "aggregated" not in text.getvalue()
    assert "pi-03 redialled" in text.getvalue()
    assert "present  3" in text.getvalue()


def test_nothing_is_promised_about_the_time_left_before_a_step_is_done() -> None:
    _, console = plain()
    clock = Clock()
    progress = RunProgress(console, empty_trace(4), system="mohawk", seconds=clock)
    clock.now_s += 30.0
    assert progress.eta_s(0) is None
    assert progress.eta_s(1) == pytest.approx(90.0)
    assert progress.eta_s(4) == 0.0


def test_a_trace_without_a_calendar_counts_days() -> None:
    assert trace_time(empty_trace(100), 0) == "day 1 00:00"
    assert trace_time(empty_trace(100), 25) == "day 2 01:00"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (65.2, "1:05"), (3599.6, "1:00:00"), (7325, "2:02:05")]
)
def test_durations_read_like_a_clock(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_step_is_one_line_of_any_terminal(width: int) -> None:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    progress = RunProgress(console, empty_trace(744, MIDNIGHT_UTC_S), system="hierfavg", seconds=Clock())
    progress.set_joules(1_234_567.0)
    for record in one_step(1, 0.8125):
        progress.on_record(record)
    (line,) = text.getvalue().splitlines()
    assert len(line) <= width
    assert line.startswith("hierfavg   2/744 Tue 17 Apr 01:00")
    assert ("acc  81.2%" in line) == (width > 40)
    assert ("present" in line) == (width > 100)


def test_records_of_a_kind_are_counted_together_as_one_by_one() -> None:
    told = []
    for together in (True, False):
        screen, console = plain()
        with RunProgress(console, empty_trace(3), system="mohawk") as progress:
            for _, group in groupby(one_step(0, 0.5), type):
                records = list(group)
                if together:
                    progress.on_records(records)
                else:
                    for record in records:
                        progress.on_record(record)
        told.append(screen.getvalue())
    assert told[0] == told[1]
    assert "orders  2/2  (1 failed)" in told[0]
