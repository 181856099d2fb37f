"""The model that a host still has of a run it never saw the end of: trained and not uploaded, or held."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.agent.orders.held_model import HeldDescription
from roambench.agent.orders.model_cache import TrainedDescription
from roambench.contract.errors import ModelError
from roambench.contract.json_values import json_or_none
from roambench.contract.model_blob import MAX_BLOB_BYTES, decode
from roambench.contract.model_digest import names
from roambench.contract.printable import printable
from roambench.provision import layout
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script
from roambench.runs.models import save_model

_READ: Final = Script('test ! -f "$1" || exec cat "$1"')
_READ_S: Final = 600.0
#: An agent's descriptions of its trained and of its held model, and where its blob's digest stands in them.
_TRAINED, _HELD = "model-cache/trained.json", "held/held.json"
_DESCRIPTION_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class Outstanding:
    """The model of order `order_id`, as the agent's blob."""

    order_id: str
    digest: str
    blob: bytes


def read_outstanding(link: HostLink, run: str) -> Outstanding | None:
    """The model of `run` that the host's agent has and did not hand over; None: none. HostError if it is
    damaged, or larger than any model.

    Files come as they are: what is packed on a host becomes here as large as the host likes.
    """
    described = json_or_none(TrainedDescription, _file(link, _TRAINED, _DESCRIPTION_BYTES), finite=False)
    if described is not None and described.order_id.startswith(f"{run}/"):
        digest = described.reply.model_digest
        return _with_blob(link, "model-cache", f"trained-{digest[:16]}.blob", described.order_id, digest)
    held = json_or_none(HeldDescription, _file(link, _HELD, _DESCRIPTION_BYTES))
    if held is not None and held.run_id == run:
        return _with_blob(link, "held", held.model, held.order_id, held.digest)
    return None


def save_outstanding(found: Outstanding, device: str, run: str, path: Path) -> Path:
    """Save them as safetensors with one tensor, "model"; the metadata says whose it is and of which order."""
    try:
        vector = decode(found.blob)
    except ModelError as error:
        raise HostError(device, f"its model of {found.order_id}: {error}") from None
    about = {"device": device, "run": run, "order": found.order_id, "digest": found.digest}
    return save_model(path, vector, about={f"of_{key}": value for key, value in about.items()})


def _with_blob(link: HostLink, folder: str, name: str, order_id: str, digest: str) -> Outstanding:
    named = re.fullmatch(r"[\w-]+\.blob", name, re.ASCII)  # the host's words lead to no other folder
    blob = _file(link, f"{folder}/{name}", MAX_BLOB_BYTES) if named else b""
    if not names(digest, blob):
        what = f"its model of {printable(order_id)} is damaged"
        raise HostError(link.host.name, what, "try again")
    return Outstanding(order_id, digest, blob)


def _file(link: HostLink, name: str, most_bytes: int) -> bytes:
    """A file of the agent's state; empty where there is none."""
    path = f"{layout.STATE}/{name}"
    return link.must(_READ, path, root=True, timeout_s=_READ_S, most_bytes=most_bytes)
