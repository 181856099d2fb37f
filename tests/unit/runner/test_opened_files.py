"""Which files a body of code reads, seen by Python's own audit."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

import numpy as np
import pytest

from roambench.runner.opened_files import opened_files


def test_files_that_are_read_are_seen_and_those_that_are_written_or_gone_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("text", "array.npy", "before", "gone", "behind"):
        (tmp_path / name).write_text("x")
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"x"))
    (tmp_path / "link").symlink_to(tmp_path / "behind")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before").read_text()
    with opened_files() as files:
        Path("text").read_text()
        np.load(tmp_path / "array.npy", mmap_mode="r")
        (tmp_path / "link").read_bytes()
        with gzip.open(tmp_path / "packed.gz") as packed:
            packed.read()
        (tmp_path / "written").write_text("y")
        (tmp_path / "written").read_text()
        (tmp_path / "gone").read_text()
        (tmp_path / "gone").unlink()
    (tmp_path / "before").read_text()
    assert files == {tmp_path / name for name in ("text", "array.npy", "behind", "packed.gz")}


def test_what_the_bodys_own_threads_read_is_seen_and_what_others_read_is_not(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).write_text("x")
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        begun.wait()
        (tmp_path / "theirs").read_text()
        done.set()

    others = threading.Thread(target=other)
    others.start()
    with opened_files() as files:
        begun.set()
        done.wait()
        ours = threading.Thread(target=(tmp_path / "ours").read_text)
        ours.start()
        ours.join()
    others.join()
    assert files == {tmp_path / "ours"}
