"""Connections that break in the middle of a transfer, over real gRPC: the model arrives all the same."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cut_device import BLOB, TRAINED, arrived, device, uploaded
from cut_links import Cut, How, faster_keepalive
from hand_agent import (
    MODEL,
    Bench,
    HandAgent,
    bench,
    connected,
    done,
    hand_agent,
    train_order,
    until,
)
from roambench.contract.events import EventKind
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import AnswerStatus, SyncOrder, UploadOrder
from roambench.contract.phases import Phase
from roambench.fleet.limits import AgentLimits
from roambench.mobility.trace import Trace
from roambench.rounds.loop import run_rounds
from roambench.rounds.records import OrderAnswered, OutcomeDecided
from roambench.rounds.rehearsal import MemoryJournal
from roambench.rounds.run import RunSettings
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import System
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1 import methods

pytestmark = pytest.mark.asyncio


#: In the handshake, after it, early, in the middle, in the last piece: the model has 1,200,096 bytes.
BYTES = [1, 4_000, 60_000, 700_000, 1_200_500]


@pytest.mark.parametrize("after_bytes", BYTES)
@pytest.mark.parametrize("how", ["reset", "half", "unanswered"])
async def test_an_upload_that_a_broken_connection_cut_is_done_again_within_its_order(
    tmp_path: Path, how: How, after_bytes: int
) -> None:
    async with bench(deadline_s=15.0) as where, device(where, tmp_path / "pi", [Cut(how, after_bytes)]) as pi:
        pi.shelve(TRAINED)
        where.fleet.publish(MODEL)
        arrived(await uploaded(where, pi))
        assert EventKind.UPLOAD_REFUSED not in where.kinds()
        assert pi.order_queue.model_cache.trained() is None
        assert pi.links.connections in (2, 3)  # gRPC may have begun one of its own by then
        # Every attempt is a phase, and only the one that arrived claims its bytes.
        moved = [span.transferred_bytes for span in pi.phases(Phase.UPLOAD)]
        assert moved in ([0, len(BLOB)], [len(BLOB)])  # a cut in the handshake is no attempt's


async def test_a_link_that_breaks_again_and_again_delivers_in_the_end(tmp_path: Path) -> None:
    cuts = [Cut("reset", 100_000), Cut("half", 600_000), Cut("reset", 900_000), Cut("unanswered", 1_200_000)]
    async with bench(deadline_s=20.0) as where, device(where, tmp_path / "pi", cuts) as pi:
        pi.shelve(TRAINED)
        where.fleet.publish(MODEL)
        arrived(await uploaded(where, pi))
        assert [span.transferred_bytes for span in pi.phases(Phase.UPLOAD)] == [0, 0, 0, 0, len(BLOB)]
        broken = [detail for _, _, kind, detail in where.seen if kind == EventKind.TRANSFER_BROKE_OFF]
        assert len(broken) == 4


async def test_a_black_hole_costs_the_step_and_not_the_model(tmp_path: Path) -> None:
    """Nobody learns that the connection is dead before the order's time is up; the next step dials anew."""
    async with bench(deadline_s=6.0) as where, device(where, tmp_path / "pi", [Cut("hole", 500_000)]) as pi:
        pi.shelve(TRAINED)
        where.fleet.publish(MODEL)
        first = await uploaded(where, pi)
        assert first.status in (AnswerStatus.FAILED, AnswerStatus.TIMEOUT)
        where.fleet._giver.deadline_s = 20.0
        arrived(await uploaded(where, pi, step=3))
        assert pi.links.connections in (2, 3)  # gRPC may have begun one of its own by then


@pytest.mark.parametrize("after_bytes", [1_000, 5_000, 600_000, 1_199_000])
async def test_a_download_that_a_broken_connection_cut_is_done_again_within_its_order(
    tmp_path: Path, after_bytes: int
) -> None:
    cuts = [Cut("down", after_bytes)]
    async with bench(deadline_s=10.0) as where, device(where, tmp_path / "pi", cuts) as pi:
        digest = where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([train_order(digest)])
        assert (answer.status, answer.reason) == (AnswerStatus.DONE, "")
        assert set(pi.downloaded) == {digest}
        assert pi.links.connections in (2, 3)  # gRPC may have begun one of its own by then


@pytest.mark.parametrize("how", ["down", "sink"])
@pytest.mark.parametrize("free", [False, True])
async def test_a_global_model_comes_over_the_next_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: How, free: bool
) -> None:
    faster_keepalive(monkeypatch)
    async with (
        bench(deadline_s=20.0) as where,
        device(where, tmp_path / "pi", [Cut(how, 600_000)]) as pi,
    ):
        digest = where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([SyncOrder("run/1/0/sync", 0, 1, 3, digest, free=free)])
        assert (answer.status, answer.reason) == (AnswerStatus.DONE, "")
        kept = pi.order_queue.model_cache.global_model()
        assert kept is not None
        assert digest_of(kept.read_bytes()) == digest


async def test_a_data_connection_that_nothing_moves_over_stays_open(tmp_path: Path) -> None:
    """The controller ends idle ones; a transfer's phase would hold the handshakes of another."""
    limits = AgentLimits(idle_s=0.3)
    async with bench(limits=limits, deadline_s=15.0) as where, device(where, tmp_path / "pi", []) as pi:
        pi.shelve(TRAINED)
        where.fleet.publish(MODEL)
        await pi.dial.connected(30.0)
        await until(lambda: where.fleet._ports.guard._open["pi-01", "Hold"])
        before = pi.links.connections
        await asyncio.sleep(1.0)  # a slower machine proves less
        arrived(await uploaded(where, pi))
        assert pi.links.connections == before


async def test_what_a_device_says_of_a_broken_upload_is_believed(tmp_path: Path) -> None:
    """FAILED stays FAILED: it was turned into garbage, a training that the device still had was given up."""

    async def fails(agent: HandAgent, order: wire.Order) -> None:
        with pytest.raises(ConnectionError):
            await agent.data.upload(order.order_id, TRAINED, 4, BLOB, digest_of(BLOB), 1.0, 0.5)
        agent.link.send(
            wire.AgentFrame(
                answer=wire.Answer(order_id=order.order_id, status=wire.Answer.FAILED, reason="broke off")
            )
        )

    async with bench() as where, hand_agent(where, on_order=fails):
        await connected(where)
        where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([UploadOrder("run/2/0/upload", 0, 2, 4, TRAINED)])
        assert (answer.status, answer.reason) == (AnswerStatus.FAILED, "broke off")


async def test_done_after_a_broken_upload_is_garbage_as_ever() -> None:
    async def lies(agent: HandAgent, order: wire.Order) -> None:
        with pytest.raises(ConnectionError):
            await agent.data.upload(order.order_id, TRAINED, 4, BLOB, digest_of(BLOB), 1.0, 0.5)
        agent.link.send(done(order, upload=wire.UploadReport(model_digest=b"d" * 32)))

    async with bench() as where, hand_agent(where, on_order=lies):
        await connected(where)
        where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([UploadOrder("run/2/0/upload", 0, 2, 4, TRAINED)])
        assert (answer.status, answer.reason) == (
            AnswerStatus.GARBAGE,
            "says done, but no model arrived on the data plane",
        )


def standing(devices: int, steps: int) -> Trace:
    """Everybody is there at every step, at one AP."""
    step, who = np.divmod(np.arange(devices * steps), devices)
    return Trace(
        steps=steps,
        step_s=3600.0,
        device_names=tuple(f"pi-0{device + 1}" for device in range(devices)),
        step=step.astype(np.int32),
        device=who.astype(np.int32),
        x_m=np.zeros(len(step)),
        y_m=np.zeros(len(step)),
        ap_names=("a0",),
        ap_x_m=np.zeros(1),
        ap_y_m=np.zeros(1),
    )


async def played(where: Bench, system: System, trace: Trace, journal: MemoryJournal) -> None:
    """The rounds of a whole run."""
    await run_rounds(
        RunSettings("r", 7, trace.steps, 1, (1, 1), False, True, math.inf, None, 1),
        system,
        system.association(trace, 7),
        where.fleet,
        journal,
        MODEL,
        throughput=lambda distance_m, direction: 100.0,
    )


async def outcomes(
    tmp_path: Path, system: str, cuts: Sequence[Cut], *, quiet: bool = False
) -> list[OutcomeDecided]:
    """Of every training of a run of two devices, one of them behind such a link, whose deadline is ample."""
    journal, options, trace = MemoryJournal(), SystemOptions(k1=1, k2=2), standing(2, 4)
    system_made = make_system(system, options)
    async with (
        bench(deadline_s=60.0) as where,
        device(where, tmp_path / "one", cuts, keepalive=not quiet) as first,
        device(where, tmp_path / "two", [], "pi-02"),
    ):
        await played(where, system_made, trace, journal)
        assert first.links.connections >= 1 + len(cuts)
    return sorted(
        (record for record in journal.records if isinstance(record, OutcomeDecided)),
        key=lambda outcome: outcome.train_order_id,
    )


async def unfaulted(tmp_path: Path, system: str) -> list[OutcomeDecided]:
    if system not in _UNFAULTED:
        (tmp_path / "whole").mkdir()
        _UNFAULTED[system] = await outcomes(tmp_path / "whole", system, [])
    return _UNFAULTED[system]


_UNFAULTED: dict[str, list[OutcomeDecided]] = {}

#: In the upload, before its receipt; in the first download (by the controller's bytes), in the second.
BREAKS: list[tuple[str, How, int]] = [
    ("mohawk", "reset", 500_000),
    ("mohawk", "half", 700_000),
    ("mohawk", "unanswered", 1_200_500),
    ("mohawk", "hole", 500_000),
    ("mohawk", "sink", 600_000),
    ("mohawk", "sink", 1_800_000),
    ("hierfavg", "reset", 500_000),
    ("hierfavg", "hole", 500_000),
    ("hierfavg", "down", 600_000),
    ("hierfavg", "sink", 600_000),
]


@pytest.mark.parametrize(("system", "how", "after_bytes"), BREAKS)
async def test_whatever_breaks_outcomes_are_those_of_the_unfaulted_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, how: How, after_bytes: int
) -> None:
    """Wherever the deadline allows."""
    faster_keepalive(monkeypatch)
    expected = await unfaulted(tmp_path, system)
    assert await outcomes(tmp_path, system, [Cut(how, after_bytes)]) == expected
    assert {outcome.reason for outcome in expected if outcome.outcome.value != "aggregated"} <= {"end of run"}


@pytest.mark.parametrize("system", ["mohawk", "hierfavg"])
async def test_a_black_hole_in_a_quiet_run_is_noticed_without_a_ping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """By the kernel: what was sent is not acknowledged. It was noticed when the step was over."""
    never, _ = methods.QUIET_CHANNEL_OPTIONS
    monkeypatch.setattr(methods, "QUIET_CHANNEL_OPTIONS", (never, ("grpc.keepalive_timeout_ms", 1_000)))
    expected = await unfaulted(tmp_path, system)
    assert await outcomes(tmp_path, system, [Cut("hole", 300_000)], quiet=True) == expected


@pytest.mark.parametrize("how", ["reset", "hole"])
async def test_mohawk_wastes_nothing_when_links_break(tmp_path: Path, how: How) -> None:
    """Two devices, four steps, one break: in the end every training but the last is aggregated."""
    journal, options = MemoryJournal(), SystemOptions(k1=1, k2=50)
    system, trace = make_system("mohawk", options), standing(2, 4)
    async with (
        bench(deadline_s=5.0) as where,
        device(where, tmp_path / "one", [Cut(how, 500_000)]) as first,
        device(where, tmp_path / "two", [], "pi-02"),
    ):
        await played(where, system, trace, journal)
        assert first.links.connections in (2, 3)
    outcomes = [record for record in journal.records if isinstance(record, OutcomeDecided)]
    wasted = [
        (outcome.train_order_id, outcome.reason)
        for outcome in outcomes
        if outcome.outcome.value != "aggregated"
    ]
    assert {reason for _, reason in wasted} <= {"end of run"}
    assert len(outcomes) - len(wasted) == (6 if how == "reset" else 5)  # the hole's step trains nothing anew
    statuses = [record.status for record in journal.records if isinstance(record, OrderAnswered)]
    assert "garbage" not in statuses
