"""A fleet that lives and answers nothing is a fleet that is gone."""

from __future__ import annotations

import pytest

from roambench.contract.errors import FleetError
from roambench.rounds.records import OrderAnswered, OrderGiven, StepClosed
from roambench.runner.agents.watch import SILENT_STEPS, Answering


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
