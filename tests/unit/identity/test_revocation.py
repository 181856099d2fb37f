"""A bench's list of revoked serials: read when it changed, refused when it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import IdentityError
from roambench.identity.revocation import RevocationList


def test_a_serial_is_added_once_with_its_note_on_one_line(tmp_path: Path) -> None:
    revoked = RevocationList.create(tmp_path / "revoked.txt")
    assert revoked.serials() == frozenset()
    assert revoked.add(0x5F3C09, "pi-07 2026-11-21:\nboard lost")
    assert not revoked.add(0x5F3C09, "again")
    assert revoked.add(0xA1, "pi-08")
    assert revoked.path.read_text().splitlines()[1:] == [
        "5f3c09  # pi-07 2026-11-21: board lost",
        "a1  # pi-08",
    ]
    assert RevocationList.create(revoked.path).serials() == {0x5F3C09, 0xA1}  # an existing list is kept


def test_a_list_that_another_program_changed_is_read_again(tmp_path: Path) -> None:
    revoked = RevocationList.create(tmp_path / "revoked.txt")
    assert revoked.serials() == frozenset()
    other = tmp_path / "other.txt"
    other.write_text("# by hand\n\n 5F:3C:09  # as openssl prints it\n")
    other.replace(revoked.path)
    assert revoked.serials() == {0x5F3C09}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a1\nnot hexadecimal\n", ":2: expected a hexadecimal serial, got 'not hexadecimal'"),
        (b"z" * 500, f":1: expected a hexadecimal serial, got '{'z' * 60}'"),
        (b"\xff\xfe", ": the revocation list cannot be read (not UTF-8)"),
        (None, ": the revocation list cannot be read (No such file or directory)"),
    ],
    ids=["word", "long", "bytes", "missing"],
)
def test_a_list_that_cannot_be_read_is_refused_with_its_line(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "revoked.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(IdentityError) as error:
        RevocationList(path).serials()
    assert str(error.value) == f"{path}{problem}"
