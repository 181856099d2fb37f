"""Training data over the data port, with real certificates: each device gets its own and nobody else's."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hand_agent import SPEC
from roambench.agent.session.control_link import secure_channel
from roambench.agent.session.data_link import DataLink
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError, LinkError, ModelError
from roambench.fleet.grpc_fleet import FleetSettings, GrpcFleet
from roambench.fleet.shards import ShippedShard
from roambench.identity.authority import CONTROLLER_NAME, Authority
from roambench.wire.v1.methods import MAX_DATA_MESSAGE_BYTES

NAMES = ("pi-01", "pi-02")


@pytest.fixture
def shards(tmp_path: Path) -> tuple[ShippedShard, ...]:
    """9 MB and 5 bytes: one goes in three messages."""
    contents = (bytes(range(256)) * 36_000, b"other")
    for name, content in zip(NAMES, contents, strict=True):
        (tmp_path / name).write_bytes(content)
    return tuple(ShippedShard.of(tmp_path / name) for name in NAMES)


@asynccontextmanager
async def link(shards: tuple[ShippedShard, ...], name: str) -> AsyncIterator[DataLink]:
    authority = Authority.create()
    specs = tuple(replace(SPEC, shard=shard.reference) for shard in shards)
    fleet = GrpcFleet(
        FleetSettings("run", NAMES, specs, "a" * 32, 5.0, shards=shards),
        authority.issue(CONTROLLER_NAME),
        DeviceClock(),
        lambda name, uuid, records: 0,
        lambda *event: None,
        clock_observer=lambda record: None,
    )
    await fleet.start()
    channel = secure_channel(f"127.0.0.1:{fleet.data_port}", authority.issue(name), MAX_DATA_MESSAGE_BYTES)
    try:
        yield DataLink(channel, name, DeviceClock())
    finally:
        await channel.close()
        await fleet.stop("test over", drain_s=0.1)


@pytest.mark.asyncio
async def test_a_device_fetches_its_own_data_whole(shards, tmp_path):
    async with link(shards, "pi-01") as data:
        await data.fetch_shard(shards[0].digest, tmp_path / "got", 10.0)
    assert hashlib.sha256((tmp_path / "got").read_bytes()).hexdigest() == shards[0].digest
    assert (tmp_path / "got").stat().st_size == 256 * 36_000


@pytest.mark.asyncio
async def test_a_device_cannot_read_anothers_data(shards, tmp_path):
    async with link(shards, "pi-01") as data:
        with pytest.raises(LinkError, match="not its shard"):
            await data.fetch_shard(shards[1].digest, tmp_path / "got", 10.0)
    assert not (tmp_path / "got").exists()
    assert not (tmp_path / "got.part").exists()


@pytest.mark.asyncio
async def test_a_file_that_changed_after_it_was_named_is_not_kept(shards, tmp_path):
    shards[0].path.write_bytes(b"changed")
    async with link(shards, "pi-01") as data:
        with pytest.raises(ModelError, match="7 bytes"):
            await data.fetch_shard(shards[0].digest, tmp_path / "got", 10.0)
    assert not (tmp_path / "got").exists()


def test_data_that_no_agent_would_take_is_told_before_the_run(tmp_path):
    (tmp_path / "big").write_bytes(b"12345")
    with pytest.raises(FleetError, match=r"5 bytes .* lower learning\.images_per_device"):
        ShippedShard.of(tmp_path / "big", most_bytes=4)
