"""A port that a malformed call has broken is there again, and whoever was connected noticed nothing."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hand_agent import (
    MODEL,
    REPORT,
    Bench,
    HandAgent,
    bench,
    connected,
    done,
    hand_agent,
    lines,
    train_order,
    until,
)
from roambench.agent.session.dial_trouble import _context
from roambench.contract.events import EventKind
from roambench.contract.model_digest import from_wire
from roambench.contract.orders import AnswerStatus
from roambench.identity.authority import CONTROLLER_NAME, Credential
from roambench.wire.v1 import control_pb2 as wire
from roambench.wire.v1.methods import DRAIN
from soaking import rubbish

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def connection(
    where: Bench, port: int, credential: Credential
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    tls: ssl.SSLContext = _context(credential)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls, server_hostname=CONTROLLER_NAME
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("times", [1, 3])
async def test_a_path_that_is_no_text_does_not_take_the_port_away(times: int) -> None:
    """grpc.aio 1.85 stops taking calls after it: no test of a later version may need the replacement."""

    async def serve(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("train"):
            await agent.data.download(order.order_id, 3, from_wire(order.train.start_digest), 20.0)
            agent.link.send(done(order, train=REPORT))

    call = rubbish.headers(DRAIN).replace(DRAIN.encode(), b"\xff" * len(DRAIN))
    async with bench(deadline_s=20.0) as where, hand_agent(where, on_order=serve) as good:
        await connected(where)
        bad = where.authority.issue("pi-02")
        for number in range(1, times + 1):
            for port in (where.fleet.data_port, where.fleet.control_port):
                async with connection(where, port, bad) as (reader, writer):
                    writer.write(rubbish.PREFACE + rubbish.frame(4, 0, 0, b"") + rubbish.frame(1, 5, 1, call))
                    await reader.read(9)
            await until(lambda number=number: len(lines(where, EventKind.PORT_REPLACED)) == 2 * number)
        digest = where.fleet.publish(MODEL)
        (answer,) = await where.fleet.perform([train_order(digest)])
        assert answer.status is AnswerStatus.DONE
        assert good.log == []
        async with hand_agent(where, "pi-02", credential=bad):
            await connected(where, 2)
