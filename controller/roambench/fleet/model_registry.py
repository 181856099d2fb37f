"""Model versions that agents may download: serialised once per version, named by their digest."""

from __future__ import annotations

from collections.abc import Collection

from roambench.contract.errors import ModelError
from roambench.contract.link_codecs import NOT_CODED, LinkCodecs
from roambench.contract.model_blob import (
    MESSAGE_HEADER_BYTES,
    decode,
    decode_message,
    encode,
    encode_message,
    fits_session,
)
from roambench.contract.model_digest import digest_of, names
from roambench.contract.orders import (
    DiscardOrder,
    IdleOrder,
    Order,
    TransferOrder,
    UploadOrder,
    Vector,
)
from roambench.learning.codecs.codec import Shapes
from roambench.learning.codecs.coder import Coder, download_key


class ModelRegistry:
    """Blobs by digest. All models of a run share one layout and so one size; messages have any size, up to
    what the order says that asks for one."""

    def __init__(self, layout: str, codecs: LinkCodecs = NOT_CODED, shapes: Shapes = ()) -> None:
        self._layout = layout
        self._codecs = codecs
        self._up, self._down = (Coder.of(text, layout, shapes) for text in (codecs.up, codecs.down))
        self._coded: dict[str, bytes] = {}  # by the digest of what it is a code of
        self.blobs: dict[str, bytes] = {}
        self.blob_bytes = 0  # the exact size of every model of this run, once one is known
        self._count = 0  # of its numbers

    def publish(self, model: Vector | bytes) -> str:
        """Offer a model, or a message, for download; returns its digest."""
        if isinstance(model, bytes):
            blob = encode_message(model)
        else:
            blob = encode(model, self._layout)
            self.blob_bytes, self._count = len(blob), model.size
        digest = digest_of(blob)
        self._offer(digest, blob, model)
        return digest

    def restore(self, digest: str, blob: bytes) -> Vector:
        """Offer a model of a checkpoint under the name that it has there; ModelError if it has another."""
        if not names(digest, blob):
            raise ModelError("its content is another")
        model = decode(blob, layout=self._layout)
        self.blob_bytes, self._count = len(blob), model.size
        self._offer(digest, blob, model)
        return model

    def _offer(self, digest: str, blob: bytes, model: Vector | bytes) -> None:
        self.blobs.setdefault(digest, blob)
        if self._down is not None and not isinstance(model, bytes) and digest not in self._coded:
            self._coded[digest], _ = self._down.encode(model, download_key(self._codecs, blob))

    def get(self, digest: str) -> bytes | None:
        """The blob of a published model as it is sent, None if it is not there (any more)."""
        return self._coded.get(digest) or self.blobs.get(digest)

    def sent(self, digest: str) -> str:
        """The digest of what is sent as the model of that `digest`."""
        coded = self._coded.get(digest)
        return digest if coded is None else digest_of(coded)

    def come_in_session(self, order: Order | TransferOrder) -> bool:
        """Return whether what the order lets its device download comes within the session."""
        if isinstance(order, UploadOrder | DiscardOrder | IdleOrder | TransferOrder):
            return False
        blobs = [self.get(digest) for digest in order.model_digests]
        return all(blob is not None and fits_session(len(blob), order.download_mbit_s) for blob in blobs)

    def retain(self, digests: Collection[str]) -> None:
        """Forget published models but those of `digests`."""
        for digest in self.blobs.keys() - set(digests):
            del self.blobs[digest]
            self._coded.pop(digest, None)

    def admit(self, order: UploadOrder, total_bytes: int) -> None:
        """Refuse, by a ModelError and before it is read, an upload of a length that the order excludes."""
        if order.message_bytes:
            most_bytes = order.message_bytes + MESSAGE_HEADER_BYTES
            if total_bytes > most_bytes:
                raise ModelError(
                    f"upload announces {total_bytes} bytes, a message of this run has {most_bytes} at most"
                )
        elif self._up is not None and not order.plain:
            most_bytes = self._up.most_bytes(self._count)
            if total_bytes > most_bytes:
                raise ModelError(
                    f"upload announces {total_bytes} bytes, expected at most {most_bytes}, a coded model"
                )
        elif total_bytes != self.blob_bytes:
            raise ModelError(
                f"upload announces {total_bytes} bytes, a model of this run has {self.blob_bytes}"
            )

    def accept(self, order: UploadOrder, blob: bytes) -> Vector | bytes:
        """Decode an uploaded blob; ModelError if it is not a model of this run's layout, or no message where
        the order asks for one."""
        if order.message_bytes:
            return decode_message(blob)
        if self._up is None or order.plain:
            return decode(blob, layout=self._layout)
        return self._up.decode(blob, self._count, self._base(order.base_digest))

    def _base(self, digest: str) -> Vector | None:
        """The version of that digest, as devices have it."""
        if not digest:
            return None
        if self._down is not None and (coded := self._coded.get(digest)) is not None:
            return self._down.decode(coded, self._count)
        if (blob := self.blobs.get(digest)) is None:
            raise ModelError("the model that this one is the difference to is gone")
        return decode(blob, layout=self._layout)
