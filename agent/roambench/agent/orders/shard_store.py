"""The training data that this device was given, by digest: what is here need not be sent again."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from roambench.contract.errors import DataError
from roambench.contract.learning_spec import SHARD_BY_DIGEST, LearningSpec

#: Experiments of one bench mostly share their data; more would fill an SD card.
KEPT_SHARDS: Final = 4
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ShardSource(Protocol):
    """Port to where training data comes from."""

    async def fetch(self, digest: str, path: Path) -> None:
        """Write the data of that digest to `path`."""
        ...


class ShardStore:
    """Files `folder/DIGEST`; the newest KEPT_SHARDS stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def resolve(self, spec: LearningSpec, source: ShardSource) -> LearningSpec:
        """`spec` with the path of its data, which is fetched if it is not here or not what it was.

        DataError for a reference that is no digest; what `source` raises.
        """
        if not spec.shard.startswith(SHARD_BY_DIGEST):
            return spec
        digest = spec.shard.removeprefix(SHARD_BY_DIGEST)
        if not _DIGEST.fullmatch(digest):
            raise DataError(f"{spec.shard[:80]!r}: expected {SHARD_BY_DIGEST} and 64 hex digits")
        path = self._folder / digest
        if not self._holds(path, digest):
            self._folder.mkdir(parents=True, exist_ok=True)
            await source.fetch(digest, path)
        path.touch()
        self._tidy()
        return replace(spec, shard=str(path))

    def _holds(self, path: Path, digest: str) -> bool:
        """A board that lost power may have left anything there."""
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == digest
        except OSError:
            return False

    def _tidy(self) -> None:
        files = [path for path in self._folder.iterdir() if _DIGEST.fullmatch(path.name)]
        files.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in files[KEPT_SHARDS:]:
            path.unlink(missing_ok=True)
