"""The model that a host still has of a run: whole, of that run, or not taken."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from safetensors import safe_open

from roambench.contract.model_blob import MAX_BLOB_BYTES, encode
from roambench.contract.model_digest import digest_of
from roambench.contract.orders import TrainReply
from roambench.provision import layout
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


def test_what_a_host_says_is_kept_as_it_came_and_up_to_a_models_size():
    """No byte is unpacked: what is packed on a host could become a thousand times as much here."""
    asked: list[tuple[str, int]] = []
    files = {
        "model-cache/trained.json": json.dumps(_TRAINED).encode(),
        f"model-cache/trained-{_DIGEST[:16]}.blob": gzip.compress(_BLOB),
    }
    with pytest.raises(HostError, match="is damaged"):
        read_outstanding(_host(files, asked), "demo.1")
    assert [most for _, most in asked] == [2**20, MAX_BLOB_BYTES]
    assert not any(word in command for command, _ in asked for word in ("tar", "gzip"))


@pytest.mark.parametrize(
    "name", ["../../../etc/shadow", "/etc/shadow", "", "held.json", "a b.blob", "x.blob\n"]
)
def test_a_host_that_names_another_file_than_a_model_of_its_own_is_asked_for_none(name: str):
    asked: list[tuple[str, int]] = []
    held = {"held/held.json": json.dumps({**_HELD, "model": name}).encode()}
    with pytest.raises(HostError, match=r"pi2: its model of demo\.1/00002/00001/exchange is damaged"):
        read_outstanding(_host(held, asked), "demo.1")
    assert len(asked) == 2  # both descriptions


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


def _host(files: Mapping[str, bytes], asked: list[tuple[str, int]] | None = None) -> HostLink:
    """A host whose state folder holds these; a shell of this machine is asked in its place."""

    def must(script: str, wanted: str, *, root: bool, timeout_s: float, most_bytes: int) -> bytes:
        if asked is not None:
            asked.append((script, most_bytes))
        with tempfile.TemporaryDirectory() as state:
            for name, content in files.items():
                path = Path(state) / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
            words = ["sh", "-c", script, "sh", wanted.replace(layout.STATE, state)]
            return subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=300).stdout

    return cast(HostLink, SimpleNamespace(host=SimpleNamespace(name="pi2"), must=must))
