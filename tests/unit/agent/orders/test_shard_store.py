"""Training data by digest: fetched once, checked whenever it is used, bounded."""

import hashlib
import os
from pathlib import Path

import pytest

from roambench.agent.orders.shard_store import KEPT_SHARDS, ShardStore
from roambench.contract.errors import DataError
from roambench.contract.learning_spec import LearningSpec

pytestmark = pytest.mark.asyncio


def spec(shard: str) -> LearningSpec:
    return LearningSpec("mlp", 1, 10, 0.01, 0.9, 0.0, 8, shard)


class Source:
    """Has every shard; counts what it sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.contents: dict[str, bytes] = {}

    def reference(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        self.contents[digest] = content
        return f"sha256:{digest}"

    async def fetch(self, digest: str, path: Path) -> None:
        self.sent.append(digest)
        path.write_bytes(self.contents[digest])


async def test_data_is_fetched_once_and_found_the_next_time(tmp_path):
    source, store = Source(), ShardStore(tmp_path / "shards")
    wanted = spec(source.reference(b"images"))
    for _ in range(2):
        found = await store.resolve(wanted, source)
    assert Path(found.shard).read_bytes() == b"images"
    assert len(source.sent) == 1


async def test_a_file_that_lost_bytes_in_a_power_cut_is_fetched_again(tmp_path):
    source, store = Source(), ShardStore(tmp_path / "shards")
    wanted = spec(source.reference(b"images"))
    found = await store.resolve(wanted, source)
    Path(found.shard).write_bytes(b"imag")
    found = await store.resolve(wanted, source)
    assert Path(found.shard).read_bytes() == b"images"
    assert len(source.sent) == 2


async def test_the_newest_shards_stay(tmp_path):
    source, store = Source(), ShardStore(tmp_path)
    for number in range(KEPT_SHARDS + 2):
        found = await store.resolve(spec(source.reference(bytes([number]))), source)
        os.utime(found.shard, (number, number))  # a file system may stamp two in one tick
    kept = {path.read_bytes()[0] for path in tmp_path.iterdir()}
    assert kept == set(range(2, KEPT_SHARDS + 2))


async def test_a_path_is_left_as_it_is(tmp_path):
    plain = spec("/data/shard.safetensors")
    assert await ShardStore(tmp_path).resolve(plain, Source()) is plain


@pytest.mark.parametrize("wrong", ["sha256:", "sha256:../../etc/passwd", "sha256:" + "A" * 64])
async def test_a_reference_that_is_no_digest_never_becomes_a_path(tmp_path, wrong):
    with pytest.raises(DataError, match="64 hex digits"):
        await ShardStore(tmp_path).resolve(spec(wrong), Source())
