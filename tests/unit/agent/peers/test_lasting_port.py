"""A peer port that a neighbour's malformed call has broken is there again, at the same address."""

import asyncio
import gc
from pathlib import Path

import pytest

from agent_ports import Refused
from hand_agent import until
from roambench.agent.board_load import BoardLoad
from roambench.agent.peers.exchange import Peers
from roambench.agent.peers.iteration import Neighbour
from roambench.agent.peers.offers import HalfStep
from roambench.agent.session.dial_trouble import _context
from roambench.contract.device_time import DeviceClock
from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.identity.authority import Authority
from roambench.wire.v1.methods import PULL
from rubbish_uploads import SMALL
from soaking import rubbish


@pytest.mark.asyncio
async def test_a_path_that_is_no_text_does_not_take_a_peer_port_away(tmp_path: Path) -> None:
    """grpc.aio 1.85 stops taking calls after it."""
    authority, told = Authority.create(), []
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: complaints.append(about["message"]))
    blob = encode(SMALL, "a" * 32)
    half_step = HalfStep(blob, digest_of(blob))
    hurt, bad = (
        Peers(authority.issue(name), DeviceClock(), tmp_path, Refused(lambda *line: told.append(line)))
        for name in ("pi-00", "pi-01")
    )
    for peers in (hurt, bad):
        await peers.open("run", "127.0.0.1:50052")
    host, _, port = hurt.address.rpartition(":")
    call = rubbish.headers(PULL).replace(PULL.encode(), b"\xff" * len(PULL))
    reader, writer = await asyncio.open_connection(
        host, int(port), ssl=_context(bad.credential), server_hostname="pi-00"
    )
    writer.write(rubbish.PREFACE + rubbish.frame(4, 0, 0, b"") + rubbish.frame(1, 5, 1, call))
    await reader.read(9)
    await until(lambda: told, 30.0)
    writer.transport.abort()
    gc.collect()
    assert complaints == []  # no traceback on anybody's console
    asyncio.get_running_loop().call_exception_handler({"message": "another matter"})
    assert complaints == ["another matter"]
    assert told == [("a neighbour", "replaced the port's server after a malformed call (UnicodeDecodeError)")]

    first = hurt.announce(1, [Neighbour(1, "pi-01", bad.address, 0.5)], 0.0, BoardLoad())
    second = bad.announce(
        1,
        [Neighbour(0, "pi-00", f"{host}:{port}", 0.5)],
        0.0,
        BoardLoad(),
    )
    mixed = await asyncio.gather(
        hurt.exchange(first, half_step, 0, 0.5, 10.0), bad.exchange(second, half_step, 1, 0.5, 10.0)
    )
    assert [one.left_out for one in mixed] == [(), ()]
    assert [one.received_bytes for one in mixed] == [len(blob), len(blob)]
    await hurt.close()
    await bad.close()


@pytest.mark.asyncio
async def test_a_peer_port_is_at_an_ipv6_address_where_the_controller_has_one(tmp_path: Path) -> None:
    peers = Peers(Authority.create().issue("pi-00"), DeviceClock(), tmp_path, Refused(print))
    await peers.open("run", "[::1]:50052")
    host, _, port = peers.address.rpartition(":")
    _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    writer.close()
    await peers.close()
    assert host == "[::1]"
