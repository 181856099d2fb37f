"""Model versions that agents may download: serialised once per version, named by their digest."""

from __future__ import annotations

from collections.abc import Collection

from roambench.contract.model_blob import decode, digest_of, encode
from roambench.contract.orders import Vector


class ModelRegistry:
    """Blobs by digest. All models of a run share one layout and so one size."""

    def __init__(self, layout: str) -> None:
        self._layout = layout
        self.blobs: dict[str, bytes] = {}
        self.blob_bytes = 0  # the exact size of every model of this run, once one is known

    def publish(self, model: Vector) -> str:
        """Offer a model for download; returns its digest."""
        blob = encode(model, self._layout)
        digest = digest_of(blob)
        self.blobs.setdefault(digest, blob)
        self.blob_bytes = len(blob)
        return digest

    def get(self, digest: str) -> bytes | None:
        """The blob of a published model, None if it is not there (any more)."""
        return self.blobs.get(digest)

    def retain(self, digests: Collection[str]) -> None:
        """Forget published models but those of `digests`."""
        for digest in self.blobs.keys() - set(digests):
            del self.blobs[digest]

    def accept(self, blob: bytes) -> Vector:
        """Decode an uploaded blob; ModelError if it is not a model of this run's layout."""
        return decode(blob, layout=self._layout)
