"""A trainer, and an agent, that are killed while a model is coded: the run goes on."""

from __future__ import annotations

import time

import pytest

from roambench.contract.events import EventKind
from roambench.contract.orders import order_id
from roambench.contract.phases import Phase
from roambench.rounds.records import OrderAnswered, OrderGiven, OutcomeDecided, StepClosed

pytestmark = [pytest.mark.timeout(600)]


def test_who_is_killed_in_mid_coding_loses_no_more_than_its_own_upload(launch) -> None:
    """pi-02's trainer in step 1, pi-03's reader in step 3, while the trainer is stopped in the encoding."""
    run = launch('links.codec_up="topk:0.05"', "fleet.deadline_s=600", "rounds.cloud_every_steps=6")

    def order(step: int, device: int, kind: str) -> str:
        return order_id("small-mohawk", step, device, kind)

    for step, name, victim in ((1, "pi-02", "trainer"), (3, "pi-03", "reader")):
        device = int(name[-2:]) - 1
        run.wait_for_event(EventKind.TRAIN_FINISHED, name, order(step - 1, device, "train"))
        processes = run.agent(name)
        processes.trainer.suspend()
        wanted = order(step, device, "upload")
        launch.until(
            lambda wanted=wanted: [given for given in run.of(OrderGiven) if given.order_id == wanted],
            180,
            f"order {wanted}",
        )
        time.sleep(0.5)  # it reaches the agent, which waits for the trainer
        getattr(processes, victim).kill()
    run.finish()
    assert [record.step for record in run.of(StepClosed)] == [0, 1, 2, 3, 4, 5]
    answers = {answer.order_id: answer for answer in run.of(OrderAnswered)}
    killed, came_back = answers[order(1, 1, "upload")], answers[order(3, 2, "upload")]
    assert (killed.status, came_back.status) == ("failed", "done")
    assert "SIGKILL" in killed.reason
    # Their models lie on disk: one is uploaded in the next step, one as soon as its agent is back.
    outcomes = {record.train_order_id: (record.step, record.outcome) for record in run.of(OutcomeDecided)}
    assert outcomes[order(0, 1, "train")] == (2, "aggregated")
    assert outcomes[order(2, 2, "train")] == (3, "aggregated")
    others = [answer for answer in answers.values() if answer.device in (0, 3)]
    assert {answer.status for answer in others} == {"done"}
    coded = {span.order_id for span in run.energy().spans if span.phase is Phase.ENCODE}
    assert {order(step, device, "upload") for step in range(1, 6) for device in (0, 3)} <= coded
