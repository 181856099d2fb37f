from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.contract.errors import DataError
from roambench.learning.datasets.archives import Limits, read_members

LIMITS = Limits(member_bytes=1000, total_bytes=100_000)
FILES = {"set/a.bin": b"first", "set/b.bin": b"second", "../../escaped": b"evil", "/etc/absolute": b"evil"}


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def zip_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def members(content: bytes, *wanted: str, limits: Limits = LIMITS) -> dict[str, bytes]:
    return dict(read_members(io.BytesIO(content), "the archive", set(wanted).__contains__, limits))


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_only_wanted_members_are_read_and_nothing_is_written(pack, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "archive"
    path.write_bytes(pack(FILES))
    found = dict(read_members(path, str(path), {"set/a.bin", "set/b.bin", "set/c"}.__contains__, LIMITS))
    assert found == {"set/a.bin": b"first", "set/b.bin": b"second"}
    assert [item.name for item in tmp_path.rglob("*") if item.is_file()] == ["archive"]


def test_members_written_with_a_leading_dot_are_found():
    assert members(tar_of({"./set/a.bin": b"x"}), "set/a.bin") == {"set/a.bin": b"x"}


def test_a_link_in_an_archive_is_not_followed():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        link = tarfile.TarInfo("set/a.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert members(out.getvalue(), "set/a.bin") == {}


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_member_beyond_its_limit_is_refused(pack):
    assert members(pack({"a": bytes(1000)}), "a") == {"a": bytes(1000)}
    with pytest.raises(DataError, match=r"the archive: a holds .*more than 1000"):
        members(pack({"a": bytes(1001)}), "a")


def test_a_tar_bomb_stops_at_the_limit_even_in_members_nobody_wants():
    bomb = tar_of({"filler": bytes(3_000_000), "a": b"x"})
    assert len(bomb) < 5000
    with pytest.raises(DataError, match="the archive: unpacks to more than 100000 bytes"):
        members(bomb, "a")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_tar_header_that_is_longer_than_any_name_is_refused_before_it_is_read(kind: bytes):
    """A tar's header may say that a name has any length; a thousandth of it is in the file."""
    row = tarfile.TarInfo("x")
    row.type, row.size = kind, 200 << 20
    packer = zlib.compressobj(1, wbits=31)
    packed = packer.compress(row.tobuf(tarfile.GNU_FORMAT))
    packed += b"".join(packer.compress(bytes(1 << 20)) for _ in range(201)) + packer.flush()
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"damaged archive \(a header of 209,715,200 bytes\)"):
            list(read_members(io.BytesIO(packed), "the archive", bool, Limits(1 << 30, 1 << 30)))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_zip_bomb_of_many_members_stops_at_the_limit():
    bomb = zip_of({f"m{number}": bytes(1000) for number in range(101)})
    with pytest.raises(DataError, match="the archive: unpacks to more than 100000 bytes"):
        members(bomb, *(f"m{number}" for number in range(101)))
    assert len(members(bomb, *(f"m{number}" for number in range(100)))) == 100


def test_a_zip_whose_directory_understates_a_member_is_refused():
    honest = bytearray(zip_of({"a": bytes(5000)}))
    for marker, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = honest.index(marker) + offset
        honest[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(DataError, match="the archive: damaged archive"):
        members(bytes(honest), "a")


@pytest.mark.parametrize(
    ("local", "central", "value", "why"), [(6, 8, 1, "encrypted"), (8, 10, 99, "compression method")]
)
def test_a_zip_member_that_cannot_be_read_is_named(local: int, central: int, value: int, why: str):
    content = bytearray(zip_of({"a": bytes(50)}))
    for marker, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        at = content.index(marker) + offset
        content[at : at + 2] = value.to_bytes(2, "little")
    with pytest.raises(DataError, match=f"the archive: damaged archive .*{why}"):
        members(bytes(content), "a")


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_truncated_archive_is_named(pack):
    whole = pack({"a": bytes(range(256)), "b": b"end"})
    for size in (5, len(whole) // 2, len(whole) - 1):
        with pytest.raises(DataError, match="the archive: damaged archive"):
            members(whole[:size], "a", "b")


def test_other_bytes_are_no_archive():
    with pytest.raises(DataError, match=r"not a tar.gz or zip archive .it starts with 3c 21 44 4f"):
        members(b"<!DOCTYPE html>", "a")


def test_a_missing_archive_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"gone\.zip: damaged archive .*No such file"):
        list(read_members(tmp_path / "gone.zip", str(tmp_path / "gone.zip"), bool, LIMITS))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([tar_of, zip_of]), st.integers(0, 400), st.integers(1, 255))
def test_no_damage_raises_anything_but_a_data_error(pack, at: int, change: int):
    content = bytearray(pack({"a": bytes(range(200)), "b": b"x" * 50}))
    content[at % len(content)] ^= change
    try:
        members(bytes(content), "a", "b")
    except DataError:
        return


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=600))
def test_no_tar_header_raises_anything_but_a_data_error(header: bytes):
    try:
        members(gzip.compress(header.ljust(1536, b"\0")), "a")
    except DataError:
        return
