"""What is read of the models that a host still has."""

from __future__ import annotations

import io
import tarfile

import pytest

from roambench.provision import outstanding


def test_a_file_larger_than_any_model_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outstanding, "MAX_BLOB_BYTES", 10)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, size in (("held/small", 10), ("held/large", 11)):
            entry = tarfile.TarInfo(name)
            entry.size = size
            tar.addfile(entry, io.BytesIO(bytes(size)))
    packed.seek(0)
    with tarfile.open(fileobj=packed, mode="r:gz") as tar:
        assert outstanding._content(tar, "held/small") == bytes(10)
        assert outstanding._content(tar, "held/large") is None
        assert outstanding._content(tar, "held/none") is None
