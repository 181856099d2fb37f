"""The model that a host still has of a run it never saw the end of: trained and not uploaded, or held."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import ModelError
from roambench.contract.model_blob import MAX_BLOB_BYTES, decode, digest_of
from roambench.provision import layout
from roambench.provision.host_error import HostError
from roambench.provision.hosts import HostLink
from roambench.runs.models import save_model

_READ_S: Final = 600.0
_MOST_BYTES: Final = 2 * MAX_BLOB_BYTES
#: An agent's descriptions of its trained and of its held model, and where its blob's digest stands in them.
_TRAINED, _HELD = "shelf/trained.json", "held/held.json"


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The model of order `order_id`, as the agent's blob."""

    order_id: str
    digest: str
    blob: bytes


def read_outstanding(link: HostLink, run: str) -> Outstanding | None:
    """What the host's agent has of `run` and did not hand over; None: nothing. HostError if it is damaged."""
    folders = " ".join(sorted({Path(name).parent.name for name in (_TRAINED, _HELD)}))
    packed = link.must(
        f"cd {shlex.quote(layout.STATE)} && tar --ignore-failed-read -cf - {folders} | gzip -1",
        root=True,
        timeout_s=_READ_S,
        most_bytes=_MOST_BYTES,
    )
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
            return _outstanding(link.host.name, tar, run)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise HostError(link.host.name, f"its models cannot be read: {error}", "try again") from None


def save_outstanding(found: Outstanding, device: str, run: str, path: Path) -> Path:
    """As safetensors with one tensor, "model"; the metadata says whose it is and of which order."""
    try:
        vector = decode(found.blob)
    except ModelError as error:
        raise HostError(device, f"its model of {found.order_id}: {error}") from None
    about = {"device": device, "run": run, "order": found.order_id, "digest": found.digest}
    return save_model(path, vector, about={f"of_{key}": value for key, value in about.items()})


def _outstanding(device: str, tar: tarfile.TarFile, run: str) -> Outstanding | None:
    trained, held = _described(tar, _TRAINED), _described(tar, _HELD)
    if trained is not None and str(trained.get("order_id", "")).startswith(f"{run}/"):
        reply = trained.get("reply")
        digest = str(reply.get("model_digest", "")) if isinstance(reply, dict) else ""
        return _with_blob(device, tar, str(trained["order_id"]), digest, f"shelf/trained-{digest[:16]}.blob")
    if held is not None and held.get("run_id") == run:
        name = f"held/{held.get('model', '')}"
        return _with_blob(device, tar, str(held.get("order_id", "")), str(held.get("digest", "")), name)
    return None


def _with_blob(device: str, tar: tarfile.TarFile, order_id: str, digest: str, name: str) -> Outstanding:
    blob = _content(tar, name)
    if blob is None or digest_of(blob) != digest:
        raise HostError(device, f"its model of {order_id} is damaged", "try again")
    return Outstanding(order_id, digest, blob)


def _described(tar: tarfile.TarFile, name: str) -> dict[str, Any] | None:
    content = _content(tar, name)
    try:
        values = json.loads(content) if content is not None else None
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _content(tar: tarfile.TarFile, name: str) -> bytes | None:
    """Of a plain file in it; None without one, and of one larger than any model."""
    try:
        member = tar.getmember(name)
    except KeyError:
        return None
    if member.size > MAX_BLOB_BYTES:
        return None
    file = tar.extractfile(member)
    return file.read() if file is not None else None
