"""A file is replaced as a whole or stays as it was, and is readable for nobody else in between."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from roambench.contract.whole_file import replaced, sync, take_place, write_whole


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_text_and_bytes_take_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "\u00e4\n")
    assert path.read_bytes() == b"\xc3\xa4\n"
    write_whole(path, b"\0", synced=False)
    assert path.read_bytes() == b"\0"
    assert list(tmp_path.iterdir()) == [path]


def test_a_body_that_raises_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(TypeError), replaced(path) as beside:
        beside.write_text(b"no text")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError), replaced(path):
        pass  # a body that wrote nothing
    assert [(p, p.read_text()) for p in tmp_path.iterdir()] == [(path, "old")]


def test_rights_are_those_asked_for_or_those_of_before(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "a", mode=0o600)
    assert rights(path) == 0o600
    path.chmod(0o640)
    write_whole(path, "b")
    assert rights(path) == 0o640
    write_whole(path, "c", mode=0o600)
    assert rights(path) == 0o600


def test_a_private_file_is_private_before_it_has_its_content(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = tmp_path / "key"
    path.touch(0o644)
    reader = threading.Thread(target=pipe.read_bytes)
    reader.start()
    write_whole(pipe, b"a pipe is given the bytes", mode=0o600)
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    seen = []
    with replaced(path, mode=0o600) as beside:
        write_whole(beside, b"secret", mode=0o600)
        seen.append(rights(beside))
    assert (seen, rights(path)) == ([0o600], 0o600)


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to("there/file")
    write_whole(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "text"


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replaced(path) as one, replaced(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"


def test_a_draft_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    draft, path = tmp_path / "draft", tmp_path / "file"
    path.write_text("old")
    draft.write_text("new")
    take_place(draft, path)
    assert [(p, p.read_text()) for p in tmp_path.iterdir()] == [(path, "new")]


def test_only_a_folder_may_know_no_syncing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some network file systems have it; an error of the disk is one."""
    (tmp_path / "file").touch()
    number = errno.EINVAL

    def fails(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    sync(tmp_path)
    with pytest.raises(OSError):
        sync(tmp_path / "file")
    number = errno.EIO
    with pytest.raises(OSError):
        sync(tmp_path)
