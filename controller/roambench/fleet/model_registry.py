"""Model versions that agents may download: serialised once per version, named by their digest."""

from __future__ import annotations

from collections.abc import Collection

from roambench.contract.errors import ModelError
from roambench.contract.model_blob import (
    MESSAGE_HEADER_BYTES,
    decode,
    decode_message,
    digest_of,
    encode,
    encode_message,
)
from roambench.contract.orders import UploadOrder, Vector


class ModelRegistry:
    """Blobs by digest. All models of a run share one layout and so one size; messages have any size, up to
    what the order says that asks for one."""

    def __init__(self, layout: str) -> None:
        self._layout = layout
        self.blobs: dict[str, bytes] = {}
        self.blob_bytes = 0  # the exact size of every model of this run, once one is known

    def publish(self, model: Vector | bytes) -> str:
        """Offer a model, or a message, for download; returns its digest."""
        if isinstance(model, bytes):
            blob = encode_message(model)
        else:
            blob = encode(model, self._layout)
            self.blob_bytes = len(blob)
        digest = digest_of(blob)
        self.blobs.setdefault(digest, blob)
        return digest

    def get(self, digest: str) -> bytes | None:
        """The blob of a published model, None if it is not there (any more)."""
        return self.blobs.get(digest)

    def retain(self, digests: Collection[str]) -> None:
        """Forget published models but those of `digests`."""
        for digest in self.blobs.keys() - set(digests):
            del self.blobs[digest]

    def admit(self, order: UploadOrder, total_bytes: int) -> None:
        """Refuse, by a ModelError and before it is read, an upload of a length that the order excludes."""
        if order.message_bytes:
            most_bytes = order.message_bytes + MESSAGE_HEADER_BYTES
            if total_bytes > most_bytes:
                raise ModelError(
                    f"upload announces {total_bytes} bytes, a message of this run has {most_bytes} at most"
                )
        elif total_bytes != self.blob_bytes:
            raise ModelError(
                f"upload announces {total_bytes} bytes, a model of this run has {self.blob_bytes}"
            )

    def accept(self, order: UploadOrder, blob: bytes) -> Vector | bytes:
        """Decode an uploaded blob; ModelError if it is not a model of this run's layout, or no message where
        the order asks for one."""
        return decode_message(blob) if order.message_bytes else decode(blob, layout=self._layout)
