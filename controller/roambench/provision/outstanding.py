"""The model that a host still has of a run it never saw the end of: trained and not uploaded, or held."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.agent.orders.held_model import HeldDescription
from roambench.agent.orders.model_cache import TrainedDescription
from roambench.contract.errors import DataError, ModelError
from roambench.contract.json_values import json_or_none
from roambench.contract.model_blob import MAX_BLOB_BYTES, decode, digest_of
from roambench.learning.datasets.archives import Limits, read_members
from roambench.provision import layout
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script
from roambench.runs.models import save_model

_PACK: Final = Script(f'cd {layout.STATE} && tar --ignore-failed-read -cf - "$@" | gzip -1')
_READ_S: Final = 600.0
#: A trained and a held model, packed and unpacked.
_MOST_BYTES: Final = 2 * MAX_BLOB_BYTES + 2**20
_LIMITS: Final = Limits(MAX_BLOB_BYTES, _MOST_BYTES)
#: An agent's descriptions of its trained and of its held model, and where its blob's digest stands in them.
_TRAINED, _HELD = "model-cache/trained.json", "held/held.json"


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The model of order `order_id`, as the agent's blob."""

    order_id: str
    digest: str
    blob: bytes


def read_outstanding(link: HostLink, run: str, limits: Limits = _LIMITS) -> Outstanding | None:
    """The model of `run` that the host's agent has and did not hand over; None: none. HostError if it is
    damaged, or becomes more than `limits` when it is unpacked."""
    packed = link.must(
        _PACK,
        *sorted({Path(name).parent.name for name in (_TRAINED, _HELD)}),
        root=True,
        timeout_s=_READ_S,
        most_bytes=_MOST_BYTES,
    )
    try:
        members = read_members(io.BytesIO(packed), "its models", _may_matter, limits)
        files = dict(members)
    except DataError as error:
        raise HostError(link.host.name, str(error), "try again") from None
    return _outstanding(link.host.name, files, run)


def save_outstanding(found: Outstanding, device: str, run: str, path: Path) -> Path:
    """As safetensors with one tensor, "model"; the metadata says whose it is and of which order."""
    try:
        vector = decode(found.blob)
    except ModelError as error:
        raise HostError(device, f"its model of {found.order_id}: {error}") from None
    about = {"device": device, "run": run, "order": found.order_id, "digest": found.digest}
    return save_model(path, vector, about={f"of_{key}": value for key, value in about.items()})


def _may_matter(name: str) -> bool:
    return name.startswith(("model-cache/trained", "held/"))


def _outstanding(device: str, files: Mapping[str, bytes], run: str) -> Outstanding | None:
    trained = json_or_none(TrainedDescription, files.get(_TRAINED, b""), finite=False)
    if trained is not None and trained.order_id.startswith(f"{run}/"):
        digest = trained.reply.model_digest
        blob = files.get(f"model-cache/trained-{digest[:16]}.blob")
        return _with_blob(device, blob, trained.order_id, digest)
    held = json_or_none(HeldDescription, files.get(_HELD, b""))
    if held is not None and held.run_id == run:
        return _with_blob(device, files.get(f"held/{held.model}"), held.order_id, held.digest)
    return None


def _with_blob(device: str, blob: bytes | None, order_id: str, digest: str) -> Outstanding:
    if blob is None or digest_of(blob) != digest:
        raise HostError(device, f"its model of {order_id} is damaged", "try again")
    return Outstanding(order_id, digest, blob)
