"""Draining a spool into a far side that fails in every way."""

import asyncio
import contextlib
import time
from itertools import pairwise

import pytest

from roambench.contract.draws import generator
from roambench.contract.errors import LinkError
from roambench.contract.records import RecordKind
from roambench.spool.consumer import Record
from roambench.spool.drain import BatchRefused, Busy, Drain, NotWelcome, TooSlow
from roambench.spool.gate import Gate
from roambench.spool.spool import Consumer, Spool


class FarSide:
    """Keeps records by their key, and fails as it is told."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self.kept: dict[tuple[str, int], bytes] = {}
        self.calls = 0
        self.repeats = 0

    def keep(self, records: list[Record]) -> int:
        self.calls += 1
        for seq, _, payload in records:
            self.repeats += (self._uuid, seq) in self.kept
            self.kept[self._uuid, seq] = payload
        return records[-1][0]

    async def take(self, records: list[Record]) -> int:
        return self.keep(records)


def source(spool: Spool, name: str = "controller") -> Consumer:
    return spool.consumers[name]


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite")
    for i in range(1000):
        spool.append(RecordKind.READING, b"%d" % i)
    yield spool
    spool.close()


@pytest.mark.asyncio
async def test_everything_arrives_exactly_once_through_a_flaky_sender(spool):
    far = FarSide(spool.uuid)
    draws = generator(1, "flaky")

    async def send(records: list[Record]) -> int:
        match int(draws.integers(5)):
            case 0:
                raise LinkError("no session")
            case 1:
                far.keep(records)
                raise ConnectionResetError("the answer was lost")
            case 2:
                return far.keep(records[: 1 + len(records) // 3])  # took the first part only
            case 3:
                return 0  # took nothing, says so
            case _:
                return far.keep(records)

    drain = Drain(
        source(spool),
        send,
        batch_records=30,
        period_s=0.001,
        backoff_first_s=0.001,
        backoff_most_s=0.01,
        trouble=print,
    )
    running = asyncio.create_task(drain.run())
    async with asyncio.timeout(20):
        while spool.depth:
            await asyncio.sleep(0.01)
    spool.append(RecordKind.READING, b"1000")  # what comes while it runs goes too
    async with asyncio.timeout(20):
        while spool.depth:
            await asyncio.sleep(0.01)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert far.kept == {(spool.uuid, i + 1): b"%d" % i for i in range(1001)}
    assert far.repeats > 0  # lost answers made repeats, which the key undid


@pytest.mark.asyncio
async def test_a_far_side_cannot_acknowledge_what_it_was_not_sent(spool):
    far = FarSide(spool.uuid)

    async def send(records: list[Record]) -> int:
        far.keep(records)
        return 10**12

    assert await Drain(source(spool), send, batch_records=100, trouble=print).flush(5.0)
    assert len(far.kept) == 1000
    assert far.repeats == 0


@pytest.mark.asyncio
async def test_nothing_is_sent_while_the_gate_is_closed(spool):
    far = FarSide(spool.uuid)
    gate = Gate()
    assert await gate.shut(1.0)
    drain = Drain(source(spool), far.take, gate=gate, period_s=0.001, batch_records=10, trouble=print)
    running = asyncio.create_task(drain.run())
    await asyncio.sleep(0.05)
    assert far.calls == 0
    gate.open()
    while spool.depth > 500:
        await asyncio.sleep(0)
    assert await gate.shut(1.0)
    calls = far.calls
    await asyncio.sleep(0.05)
    assert far.calls == calls
    assert 0 < spool.depth <= 500
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await drain.flush(5.0)  # the run is over: no phase to disturb
    assert len(far.kept) == 1000


@pytest.mark.asyncio
async def test_shutting_the_gate_waits_for_what_is_on_its_way(spool):
    gate, begun, arrive = Gate(), asyncio.Event(), asyncio.Event()

    async def send(records: list[Record]) -> int:
        begun.set()
        await arrive.wait()
        return records[-1][0]

    running = asyncio.create_task(
        Drain(source(spool), send, gate=gate, batch_records=10, trouble=print).run()
    )
    await begun.wait()
    shutting = asyncio.create_task(gate.shut(60.0))
    await asyncio.sleep(0.02)
    assert not shutting.done()
    arrive.set()
    assert await shutting
    assert spool.depth == 990
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.asyncio
async def test_a_batch_that_holds_up_a_measured_phase_is_broken_off_and_sent_later(spool):
    gate, begun, far, slow = Gate(), asyncio.Event(), FarSide(spool.uuid), list[str]()

    async def send(records: list[Record]) -> int:
        far.keep(records)
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()  # it is stored, and the answer never comes
        return records[-1][0]

    drain = Drain(
        source(spool),
        send,
        gate=gate,
        backoff_first_s=1e-3,
        backoff_most_s=0.05,
        period_s=1e-3,
        trouble=print,
        slow=slow.append,
    )
    running = asyncio.create_task(drain.run())
    await begun.wait()
    assert await gate.shut(0.02)
    assert (spool.depth, far.calls, len(slow)) == (1000, 1, 1)
    gate.open()
    async with asyncio.timeout(20):
        while spool.depth:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(far.kept) == 1000
    assert slow[1:] == [""]  # told once, and its end


@pytest.mark.asyncio
async def test_a_record_that_is_refused_is_a_dead_letter_alone_and_the_rest_arrives(spool):
    far = FarSide(spool.uuid)

    async def send(records: list[Record]) -> int:
        if any(seq in (1, 77, 1000) for seq, _, _ in records):
            raise BatchRefused("field type conflict")
        return far.keep(records)

    assert await Drain(source(spool), send, batch_records=200, trouble=print).flush(10.0)
    assert sorted(seq for _, seq in far.kept) == [i for i in range(1, 1001) if i not in (1, 77, 1000)]
    assert spool.dead == 3


@pytest.mark.asyncio
async def test_trouble_that_a_person_must_mend_is_told_once_and_so_is_its_end(spool):
    said: list[str] = []
    attempts = 0

    async def send(records: list[Record]) -> int:
        nonlocal attempts
        attempts += 1
        if attempts <= 4:
            raise NotWelcome("401 wrong token")
        return records[-1][0]

    drain = Drain(source(spool), send, trouble=said.append, backoff_first_s=1e-4, backoff_most_s=1e-3)
    assert not await drain.flush(1e6)  # nobody will mend it while an agent is stopping
    assert (attempts, drain.trouble) == (1, "401 wrong token")
    running = asyncio.create_task(drain.run())
    async with asyncio.timeout(20):
        while spool.depth:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert said == ["401 wrong token", ""]
    assert drain.trouble == ""


@pytest.mark.asyncio
async def test_a_far_side_is_left_alone_for_as_long_as_it_asks(spool):
    async def send(records: list[Record]) -> int:
        raise Busy("429 slow down", retry_after_s=37.0)

    drain = Drain(source(spool), send, backoff_first_s=1.0, trouble=print)
    assert not await drain.flush(0.05)
    assert 37.0 < drain.pause_s <= 43.0
    assert spool.depth == 1000


@pytest.mark.asyncio
async def test_a_flush_asks_no_sooner_than_a_far_side_wants_and_ends_where_it_wants_too_long(spool):
    asked_s: list[float] = []

    async def send(records: list[Record]) -> int:
        asked_s.append(time.monotonic())
        if len(asked_s) < 3:
            raise Busy("503 later", retry_after_s=0.3)
        return records[-1][0]

    assert await Drain(source(spool), send, batch_records=1000, trouble=print).flush(60.0)
    assert len(asked_s) == 3
    assert all(later - sooner >= 0.3 for sooner, later in pairwise(asked_s))

    async def never(records: list[Record]) -> int:
        asked_s.append(0.0)
        raise Busy("503 tomorrow", retry_after_s=86_400.0)

    spool.append(RecordKind.READING, b"7")
    drain = Drain(source(spool), never, trouble=print)
    assert not await drain.flush(60.0)
    assert not await drain.flush(60.0)  # it has been told
    assert len(asked_s) == 4


@pytest.mark.asyncio
async def test_a_flush_asks_a_busy_far_side_less_and_less_often(spool):
    calls = 0

    async def send(records: list[Record]) -> int:
        nonlocal calls
        calls += 1
        raise Busy("503")

    assert not await Drain(source(spool), send, trouble=print).flush(1.5)
    assert calls <= 4  # after 0.2, 0.4 and 0.8 s


@pytest.mark.asyncio
async def test_a_far_side_that_does_not_answer_in_time_gets_less_at_once_and_is_called_slow(spool):
    far, slow, sizes = FarSide(spool.uuid), list[str](), list[int]()

    async def send(records: list[Record]) -> int:
        sizes.append(len(records))
        if len(records) > 100:
            raise TooSlow("no answer within 20 s")
        return far.keep(records)

    drain = Drain(
        source(spool), send, batch_records=400, backoff_first_s=1e-3, trouble=print, slow=slow.append
    )
    assert await drain.flush(60.0)
    assert sizes[:3] == [400, 200, 100]
    assert (len(far.kept), far.repeats) == (1000, 0)
    assert slow[0] == "no answer within 20 s, to 400 records"


@pytest.mark.asyncio
async def test_two_consumers_go_their_own_pace_and_neither_costs_the_other_a_record(tmp_path):
    spool = Spool(tmp_path / "two.sqlite", consumers=("controller", "influxdb"))
    for i in range(100):
        spool.append(RecordKind.READING, b"%d" % i)
    near, far = FarSide(spool.uuid), FarSide(spool.uuid)

    async def refuse_three(records: list[Record]) -> int:
        if any(seq in (7, 8, 90) for seq, _, _ in records):
            raise BatchRefused("field type conflict")
        return far.keep(records)

    assert await Drain(source(spool), near.take, batch_records=16, trouble=print).flush(5.0)
    assert (spool.consumers["controller"].depth, spool.consumers["influxdb"].depth, spool.depth) == (
        0,
        100,
        100,
    )
    assert await Drain(source(spool, "influxdb"), refuse_three, batch_records=16, trouble=print).flush(5.0)
    assert spool.depth == 0
    assert sorted(seq for _, seq in near.kept) == list(range(1, 101))
    assert sorted(seq for _, seq in far.kept) == [i for i in range(1, 101) if i not in (7, 8, 90)]
    assert (source(spool).dead, source(spool, "influxdb").dead) == (0, 3)
    spool.close()


@pytest.mark.asyncio
async def test_flush_gives_up_in_time_and_keeps_the_rest(spool):
    async def send(records: list[Record]) -> int:
        raise LinkError("no session")

    drain = Drain(source(spool), send, trouble=print)
    assert not await drain.flush(0.1)
    assert spool.depth == 1000
    assert drain.last_error == "no session"
    assert not await drain.flush(1e6, lambda: False)  # nobody is there to wait for
    assert spool.depth == 1000


@pytest.mark.asyncio
async def test_a_mistake_in_the_sender_is_not_hidden(spool):
    async def send(records: list[Record]) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Drain(source(spool), send, trouble=print).run()


def test_the_pause_doubles_up_to_a_minute_and_differs_between_spools(spool, tmp_path):
    far = FarSide(spool.uuid)
    drain = Drain(source(spool), far.take, trouble=print)
    for failures, ceiling in [(1, 1.0), (2, 2.0), (3, 4.0), (7, 60.0), (500, 60.0)]:
        assert 0.5 * ceiling <= drain.backoff_s(failures) <= ceiling
    assert drain.backoff_s(5) == drain.backoff_s(5)
    other = Spool(tmp_path / "other.sqlite")
    assert Drain(source(other), far.take, trouble=print).backoff_s(5) != drain.backoff_s(5)
    other.close()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("wanted_s", "period_s"), [(0.0, 0.5), (-1.0, 0.5), (float("nan"), 0.5), (3.5, 3.5), (1e9, 60.0)]
)
async def test_a_far_side_says_how_often_within_bounds(spool, wanted_s, period_s):
    drain = Drain(source(spool), FarSide(spool.uuid).take, trouble=lambda reason: None)
    drain.look_every(wanted_s)
    assert drain.period_s == period_s


def test_a_fleet_that_is_welcomed_in_one_moment_does_not_drain_in_one(tmp_path):
    waits_s = []
    for number in range(20):
        spool = Spool(tmp_path / f"{number}.sqlite")
        drain = Drain(source(spool), FarSide(spool.uuid).take, trouble=print)
        drain.look_every(5.0)
        waits_s.append(drain.wait_s())
        assert drain.wait_s() == drain.wait_s() == 5.0
        spool.close()
    assert 0.0 <= min(waits_s) < 1.5 < 3.5 < max(waits_s) < 5.0
