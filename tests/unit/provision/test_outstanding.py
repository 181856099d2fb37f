"""The model that a host still has of a run: whole, of that run, or not taken."""

from __future__ import annotations

import gzip
import io
import json
import math
import tarfile
import tracemalloc
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from safetensors import safe_open

from roambench.contract.model_blob import digest_of, encode
from roambench.contract.orders import TrainReply
from roambench.learning.datasets.archives import Limits
from roambench.provision.outstanding import Outstanding, read_outstanding, save_outstanding
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink

_BLOB = encode(np.array([0.5, -1.5], dtype=np.float32), "ab" * 16)
_DIGEST = digest_of(_BLOB)
_TRAINED = {"order_id": "demo.1/00001/00001/train", "reply": asdict(TrainReply(8, 1, 0.5, math.nan, _DIGEST))}
_HELD = {
    "run_id": "demo.1",
    "order_id": "demo.1/00002/00001/exchange",
    "digest": _DIGEST,
    "answer": "",
    "model": "held-1.blob",
    "velocity": "",
}


def test_a_trained_model_and_a_held_one_are_found_for_their_run_only():
    cache = {
        "model-cache/trained.json": json.dumps(_TRAINED).encode(),
        f"model-cache/trained-{_DIGEST[:16]}.blob": _BLOB,
    }
    assert read_outstanding(_host(cache), "demo.1") == Outstanding(_TRAINED["order_id"], _DIGEST, _BLOB)
    assert read_outstanding(_host(cache), "demo") is None  # the beginning of a name is another name
    held = {"held/held.json": json.dumps(_HELD).encode(), "held/held-1.blob": _BLOB}
    assert read_outstanding(_host(held), "demo.1") == Outstanding(_HELD["order_id"], _DIGEST, _BLOB)
    assert read_outstanding(_host(held), "demo.2") is None
    assert read_outstanding(_host({}), "demo.1") is None


def test_half_a_model_is_an_error_that_names_host_and_order():
    cache = {
        "model-cache/trained.json": json.dumps(_TRAINED).encode(),
        f"model-cache/trained-{_DIGEST[:16]}.blob": _BLOB[:-1],
    }
    with pytest.raises(HostError, match=r"pi2: its model of demo\.1/00001/00001/train is damaged"):
        read_outstanding(_host(cache), "demo.1")


@pytest.mark.parametrize("kind", ["a long name", "a large member", "many members"])
def test_what_becomes_larger_than_any_model_is_refused_before_it_fills_the_memory(kind: str):
    """A thousandth of it comes over the network: a tar's header may say that a name has any length."""
    large = tarfile.TarInfo("x" if kind != "a large member" else "held/held.json")
    large.size = 60_000_000 if kind != "many members" else 3_000_000
    large.type = tarfile.GNUTYPE_LONGNAME if kind == "a long name" else tarfile.REGTYPE
    one = large.tobuf(tarfile.GNU_FORMAT) + bytes(-(-large.size // 512) * 512)
    packed = gzip.compress(one * (20 if kind == "many members" else 1) + bytes(1024), 1)

    def must(script: str, *values: str, **options: object) -> bytes:
        return packed

    host = cast(HostLink, SimpleNamespace(host=SimpleNamespace(name="pi2"), must=must))
    del one
    tracemalloc.start()
    try:
        with pytest.raises(HostError, match=r"pi2: its models: .*more than .*; try again"):
            read_outstanding(host, "demo.1", Limits(4_000_000, 8_000_000))
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_it_is_saved_with_whose_it_is(tmp_path: Path):
    path = save_outstanding(
        Outstanding("demo.1/x", _DIGEST, _BLOB), "pi2", "demo.1", tmp_path / "m.safetensors"
    )
    with safe_open(path, framework="numpy") as file:
        assert file.get_tensor("model").tolist() == [0.5, -1.5]
        about = file.metadata()
    assert {key: about[f"of_{key}"] for key in ("device", "run", "order")} == {
        "device": "pi2",
        "run": "demo.1",
        "order": "demo.1/x",
    }


def _host(files: Mapping[str, bytes]) -> HostLink:
    """A host whose state folder holds these."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))

    def must(script: str, *values: str, **options: object) -> bytes:
        return gzip.compress(packed.getvalue())

    return cast(HostLink, SimpleNamespace(host=SimpleNamespace(name="pi2"), must=must))
