"""Training data that agents fetch before a run: each device its own, named by its digest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from roambench.contract.errors import FleetError
from roambench.contract.learning_spec import SHARD_BY_DIGEST
from roambench.wire.v1.methods import MAX_SHARD_BYTES


@dataclass(frozen=True, slots=True)
class ShippedShard:
    """A file of the controller's, and its SHA-256 in hex."""

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path, most_bytes: int = MAX_SHARD_BYTES) -> ShippedShard:
        """FleetError for one that no agent would take."""
        size = path.stat().st_size
        if size > most_bytes:
            raise FleetError(
                f"{path}: {size} bytes of training data for one device, at most {most_bytes} are "
                "shipped; lower learning.images_per_device"
            )
        with path.open("rb") as file:
            return cls(path, hashlib.file_digest(file, "sha256").hexdigest())

    @property
    def reference(self) -> str:
        """Value of `LearningSpec.shard` for an agent that fetches its data."""
        return SHARD_BY_DIGEST + self.digest
