"""A file of lines after a crash: cut at any byte, or written to a disk that is full."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roambench.contract.line_file import append_lines, mend_last_line, whole_lines


def is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """The kernel writes no file beyond `size` bytes: the beginning of what is written, then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_cut_at_any_byte_costs_at_most_the_line_that_it_hits(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    text = {"text": "x\u00e4\n45 \u00b0C"}
    records = [json.dumps({"n": number, **text}, ensure_ascii=False) for number in range(3)]
    append_lines(path, records, is_json)
    content = path.read_bytes()
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        kept = [line for line in content[:cut].decode(errors="replace").split("\n") if line and is_json(line)]
        assert whole_lines(path, is_json) == kept
        append_lines(path, ['"new"'], is_json)
        assert path.read_text() == "".join(f"{line}\n" for line in [*kept, '"new"'])


@pytest.mark.parametrize(
    "tail", [b"\0" * 5000, b'{"n": 1, "te' + b"\0" * 200_000, b"\xff\xfe", b"x" * 70_000]
)
def test_what_file_systems_leave_of_a_line_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'"first"\n' + tail)
    append_lines(path, ['"second"'], is_json)
    assert path.read_bytes() == b'"first"\n"second"\n'


def test_a_full_disk_leaves_no_part_of_what_did_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_lines(path, ['"first"'], is_json)
    with files_end_at(20), pytest.raises(OSError, match="File too large"):
        append_lines(path, ['"second"', '"third"'], is_json)
    assert path.read_bytes() == b'"first"\n'
    append_lines(path, ['"second"', '"third"'], is_json)
    assert path.read_bytes() == b'"first"\n"second"\n"third"\n'


def test_a_line_that_nothing_vouches_for_goes_and_a_missing_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    mend_last_line(path)
    assert path.read_bytes() == b""
    path.write_bytes(b"1,1.9\n2,1.")
    mend_last_line(path)
    assert path.read_bytes() == b"1,1.9\n"


def test_a_new_file_gets_its_mode_before_its_content(tmp_path: Path) -> None:
    append_lines(tmp_path / "lines", ["secret"], is_json, mode=0o600)
    assert (tmp_path / "lines").stat().st_mode & 0o777 == 0o600
