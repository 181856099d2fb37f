"""Zip files of crates, and those that only look like it."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from roambench.contract.errors import RunError
from roambench.runs.crates import source_of, unpacked


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def test_a_zip_is_unpacked_and_known_by_its_name(tmp_path: Path) -> None:
    crate = zipped(tmp_path / "crate.zip", ("runs/a/run.json", b"{}"), ("README.md", b"read"))
    place = unpacked(crate)
    assert (place / "runs/a/run.json").read_bytes() == b"{}"
    assert source_of(place / "runs/a") == crate
    assert unpacked(tmp_path) == tmp_path == source_of(tmp_path)


def link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([("../evil", b"")], r"\.\./evil: expected a path within"),
        ([("/etc/evil", b"")], "expected a path within"),
        ([("a\\..\\evil", b"")], "expected a path within"),
        ([("a\x1b[2J", b"")], r"a\?\[2J: expected a path within"),
        ([(link("a"), b"/etc/passwd")], "expected a file or a folder"),
        ([("bomb", bytes(80 << 20))], "bomb: more than a crate of its size holds"),
    ],
)
def test_an_entry_that_could_do_harm_is_refused(
    entries: list[tuple[str | zipfile.ZipInfo, bytes]], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=problem):
        unpacked(zipped(tmp_path / "crate.zip", *entries))
    assert [path.name for path in tmp_path.iterdir()] == ["crate.zip"]


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "crate.zip").write_bytes(b"PK nothing")
    with pytest.raises(RunError, match="not a whole zip file"):
        unpacked(tmp_path / "crate.zip")
