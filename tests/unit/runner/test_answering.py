"""A fleet that lives and answers nothing is a fleet that is gone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from roambench.contract.errors import FleetError
from roambench.contract.events import EventKind
from roambench.rounds.records import OrderAnswered, OrderGiven, StepClosed
from roambench.runner.agents.watch import SILENT_STEPS, Answering, Watch


def step(answering: Answering, number: int, *answers: str, late: bool = False) -> None:
    """Each of as many devices trains, with that answer; all are told to idle besides."""
    for device, status in enumerate(answers):
        for kind, answer in (("idle", "done"), ("train", status)):
            order = f"{number}/{device}/{kind}"
            answering.follow(OrderGiven(number, device, order, kind, 0))
            answering.follow(OrderAnswered(number, device, order, answer))
    if late:
        answering.answered()
    answering.follow(StepClosed(number, 0, (), (), None, None, 1.0))


def test_nobody_for_three_steps_is_the_end_and_idling_is_no_answer() -> None:
    answering = Answering()
    step(answering, 0, "done", "lost")
    for number in range(1, SILENT_STEPS):
        step(answering, number, "timeout", "lost")
    with pytest.raises(FleetError, match="no agent answered in 3 steps in a row, from step 2 on"):
        step(answering, SILENT_STEPS, "timeout", "timeout")


@pytest.mark.parametrize("answer", ["done", "failed", "refused", "garbage"])
def test_one_answer_of_one_device_is_enough(answer: str) -> None:
    answering = Answering()
    for number in range(4 * SILENT_STEPS):
        step(answering, number, "timeout", answer if number % SILENT_STEPS == 0 else "lost")


def test_an_answer_that_comes_too_late_is_one() -> None:
    answering = Answering()
    for number in range(4 * SILENT_STEPS):
        step(answering, number, "timeout", late=number % SILENT_STEPS == 0)


def test_steps_in_which_nobody_has_work_say_nothing() -> None:
    answering = Answering()
    for number in range(2 * SILENT_STEPS):
        step(answering, number)
    for number in range(SILENT_STEPS - 1):
        step(answering, 10 + 2 * number, "lost")
        step(answering, 11 + 2 * number)
    with pytest.raises(FleetError, match="from step 11 on"):
        step(answering, 20, "lost")


def test_the_end_repeats_what_was_last_said_of_who_has_not_come_back() -> None:
    names = ("pi1", "pi2", "pi3")
    watch = Watch(SimpleNamespace(journal=[], info=SimpleNamespace(device_names=names)))  # type: ignore[arg-type]
    for device, (name, kind, said) in enumerate(
        [
            ("pi1", EventKind.SESSION_LOST, "ended without goodbye"),
            ("pi2", EventKind.SESSION_LOST, "ended without goodbye"),
            ("192.0.2.9", EventKind.CONNECTION_REFUSED, "no certificate"),  # a stranger
            ("pi1", EventKind.SESSION_REFUSED, "it speaks version 1"),
            ("pi2", EventKind.SESSION_OPENED, "a life of 3 s"),
        ]
    ):
        watch.observe(device, name, kind, said)
    step_ends = [StepClosed(number, 0, (), (), None, None, 1.0) for number in range(SILENT_STEPS)]
    for end in step_ends:
        watch.follow(OrderGiven(end.step, 0, f"{end.step}", "train", 0))
        if end is not step_ends[-1]:
            watch.follow(end)
    with pytest.raises(FleetError) as raised:
        watch.follow(step_ends[-1])
    assert str(raised.value).endswith("order(s) among it; pi1: session refused: it speaks version 1")
