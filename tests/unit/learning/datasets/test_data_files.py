from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import DataError
from roambench.learning.datasets.data_files import default_folder, read_file


def test_a_file_is_read_up_to_its_limit_and_not_beyond(tmp_path: Path):
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(10))
    assert read_file(path, 10) == bytes(10)
    with pytest.raises(DataError, match=rf"^{path}: holds more than 9 bytes$"):
        read_file(path, 9)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=rf"^{tmp_path}: cannot be read \("):
        read_file(tmp_path, 10)


def test_files_are_kept_in_the_chosen_folder_or_the_users_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROAMBENCH_DATA", "/data")
    assert default_folder("svhn") == Path("/data/svhn")
    monkeypatch.delenv("ROAMBENCH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_folder("svhn") == Path("/cache/roambench/svhn")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_folder("svhn") == Path("/home/ann/.cache/roambench/svhn")
