"""What a controller may answer to a drain, and what an agent makes of it: its records stay until the answer
names them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from hand_agent import HandAgent, bench, hand_agent, lines, until
from roambench.contract.events import EventKind
from roambench.contract.records import Reading, RecordKind
from roambench.runs.record_store import RecordStore
from roambench.spool.consumer import Record
from roambench.spool.drain import Drain, NotWelcome
from roambench.spool.spool import CONTROLLER, Spool

pytestmark = pytest.mark.asyncio


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool.sqlite")
    for ns in range(40):
        made.append(RecordKind.READING, Reading(ns, 5.0, 0.5, 2.5).to_bytes())
    yield made
    made.close()


def draining(spool: Spool, agent: HandAgent) -> Drain:
    async def send(records: list[Record]) -> int:
        return await agent.link.drain(spool.uuid_of(records[0][0]), records)

    return Drain(spool.consumers[CONTROLLER], send, backoff_first_s=0.1, backoff_most_s=0.2, trouble=print)


#: Every status that gRPC knows but OK; which of them the controller gives for a batch that it has read.
NAMING = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS}
ALL = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]


@pytest.mark.parametrize("code", ALL, ids=lambda code: code.name.lower())
async def test_only_an_answer_that_names_the_batch_costs_records(spool: Spool, code: grpc.StatusCode) -> None:
    async with bench() as where, hand_agent(where) as agent:
        await until(lambda: agent.link.is_open)
        real = agent.link.drain

        async def answered(uuid: str, records: list[Record]) -> int:
            """The agent's own reading of a real call's end."""
            failing = agent.link._channel
            assert failing is not None

            def unary_unary(*args: object, **kwargs: object) -> object:
                async def call(request: object, timeout: float) -> object:
                    raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "for a test")

                return call

            agent.link._channel = _Over(unary_unary)  # type: ignore[assignment]
            try:
                return await real(uuid, records)
            finally:
                agent.link._channel = failing

        agent.link.drain = answered  # type: ignore[method-assign,assignment]
        await draining(spool, agent).flush(0.15)
        assert (spool.dead > 0) is (code in NAMING)
        if code not in NAMING:
            assert spool.depth == 40


class _Over:
    def __init__(self, unary_unary: object) -> None:
        self.unary_unary = unary_unary


async def test_records_under_numbers_that_the_run_has_already_are_refused_by_name(
    spool: Spool, tmp_path: Path
) -> None:
    """A card that was copied, or a spool put back from a backup: nothing is lost or mixed up."""
    store = RecordStore(tmp_path / "records.sqlite")
    other = Reading(7, 5.0, 0.5, 99.0).to_bytes()
    async with bench(sink=store.insert) as where, hand_agent(where) as agent:
        await until(lambda: agent.link.is_open)
        store.insert("pi-01", spool.uuid, [(11, RecordKind.READING, other), (30, RecordKind.READING, other)])
        assert await draining(spool, agent).flush(10.0)
        told = lines(where, EventKind.DRAIN_REFUSED)
    assert (spool.depth, spool.dead) == (0, 2)
    assert len(store.readings("pi-01")) == 40
    assert sorted(store.readings("pi-01").watts)[-3:] == [2.5, 99.0, 99.0]
    assert "numbers that the run has already: 11, 30; not stored" in told[0]
    dead = spool._rows.execute("SELECT seq, error FROM dead_letters").fetchall()
    assert [seq for seq, _ in dead] == [11, 30]
    assert "already: 11; not stored" in dead[0][1]
    store.close()


async def test_a_controller_whose_disk_is_full_costs_no_record(spool: Spool, tmp_path: Path) -> None:
    store = RecordStore(tmp_path / "records.sqlite")
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count={pages}")
    async with bench(sink=store.insert) as where, hand_agent(where) as agent:
        await until(lambda: agent.link.is_open)
        drain = draining(spool, agent)
        while await drain.flush(0.5):  # SQLite finds room for some
            for ns in range(400):
                spool.append(RecordKind.READING, Reading(ns, 5.0, 0.5, 2.5).to_bytes())
        left = spool.depth
        assert left > 0
        assert spool.dead == 0
        store._connection.execute("PRAGMA max_page_count=1000000")
        assert await drain.flush(10.0)
    assert (spool.depth, spool.dead) == (0, 0)
    assert len(store.readings("pi-01")) == spool.acknowledged()
    store.close()


@pytest.mark.parametrize(
    ("reads_for", "owners"), [({}, set()), ({"pi-02": ["pi-01"]}, set()), ({"pi-01": ["pi-02"]}, {"pi-02"})]
)
async def test_a_board_drains_another_ones_records_where_the_bench_says_that_it_reads_its_meter(
    spool: Spool, reads_for: dict[str, list[str]], owners: set[str]
) -> None:
    async with bench(reads_for=reads_for) as where, hand_agent(where) as agent:
        await until(lambda: agent.link.is_open)
        sent = agent.link.drain(spool.uuid, spool.batch(), device="pi-02")
        if owners:
            assert await sent == 40
        else:
            with pytest.raises(NotWelcome, match="not this device's records"):
                await sent
        assert {name for name, *_ in where.stored} == owners
        told = lines(where, EventKind.DRAIN_REFUSED)
    assert told == ([] if owners else ["pi-01: records of 'pi-02'"])


async def test_records_for_a_board_that_is_not_in_the_run_are_taken_off_the_reader_and_not_stored(
    spool: Spool,
) -> None:
    async with bench(reads_for={"pi-01": ["pi-09"]}) as where, hand_agent(where) as agent:
        await until(lambda: agent.link.is_open)
        assert await agent.link.drain(spool.uuid, spool.batch(), device="pi-09") == 40
    assert where.stored == []
