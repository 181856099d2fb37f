"""A controller that stands still for longer than its deadline, while its boards work on."""

from __future__ import annotations

import signal
import time

import pytest

from roambench.contract.events import EventKind
from roambench.contract.phases import Outcome
from roambench.rounds.records import OrderAnswered, OutcomeDecided

pytestmark = pytest.mark.timeout(600)

DEADLINE_S = 8.0  # of device time, which is the host's here
TRAINING_S = 3.0
STOPPED_S = 12.0


def test_what_boards_finished_while_the_controller_was_stopped_is_no_timeout(launch) -> None:
    run = launch(
        "fleet.agents=2",
        "trace.steps=3",
        "local.time_scale=1",
        f"local.sgd_step_s={TRAINING_S / 5}",
        f"fleet.deadline_s={DEADLINE_S}",
    )
    for name in ("pi-01", "pi-02"):
        run.wait_for_event(EventKind.TRAIN_STARTED, name, "%")
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    run.process.send_signal(signal.SIGCONT)
    run.finish(400)
    answers = run.of(OrderAnswered)
    assert {answer.status for answer in answers} == {"done"}, answers
    assert Outcome.FAILED not in {record.outcome for record in run.of(OutcomeDecided)}
