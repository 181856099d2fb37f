"""Agents reach a controller by IPv6 as by IPv4, and never by a web proxy."""

from __future__ import annotations

import socket

import pytest

from hand_agent import MODEL, HandAgent, bench, connected, done, hand_agent, train_order
from hand_agent import REPORT as TRAINED
from roambench.contract.addresses import host_port
from roambench.contract.model_digest import digest_of, from_wire
from roambench.contract.orders import AnswerStatus
from roambench.provision.inventory.tables import ControllerTable
from roambench.wire.v1 import control_pb2 as wire

pytestmark = pytest.mark.asyncio


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as line:
            line.bind(("::1", 0))
    except OSError:
        return False
    return True


#: Where a bench listens whose file does not say it.
_ANYWHERE = ControllerTable.model_fields["listen_host"].default
_WAYS = [(_ANYWHERE, "127.0.0.1"), *([(_ANYWHERE, "::1"), ("::1", "::1")] if _has_ipv6() else [])]


@pytest.mark.parametrize(("host", "dialled"), _WAYS)
@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:9"])
async def test_an_agent_is_welcomed_fetches_and_answers(
    host: str, dialled: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        if proxy:
            monkeypatch.setenv(name, proxy)
        else:
            monkeypatch.delenv(name, raising=False)
    fetched: list[bytes] = []

    async def answer(agent: HandAgent, order: wire.Order) -> None:
        if order.HasField("train"):
            blob, _ = await agent.data.download(order.order_id, 3, from_wire(order.train.start_digest), 10.0)
            fetched.append(blob)
            agent.link.send(done(order, train=TRAINED))

    async with bench(deadline_s=20.0, host=host) as where:
        where.host = dialled
        async with hand_agent(where, on_order=answer):
            await connected(where)
            digest = where.fleet.publish(MODEL)
            (given,) = await where.fleet.perform([train_order(digest)])
            assert given.status is AnswerStatus.DONE
            assert digest_of(fetched[0]) == digest
            assert where.fleet._welcome(0).data_address == host_port(host, where.fleet.data_port)
