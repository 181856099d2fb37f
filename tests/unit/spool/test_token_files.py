"""A token's file is one line; a byte order mark of an editor is none of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.spool.influx_settings import InfluxSettings, token_in


def test_a_byte_order_mark_is_no_part_of_a_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in (b"s3cret==\n", b"\xef\xbb\xbfs3cret==\r\n", b" s3cret== "):
        file.write_bytes(content)
        assert InfluxSettings("http://db.lab:8086", "b", token_file=str(file)).token() == "s3cret=="


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("schlüssel".encode(), "cannot be read (not ASCII)"),
        (b"\xff\xfes\0", "cannot be read (not ASCII)"),
        (b"one\ntwo\n", "expected one line"),
        (b"on\0e", "expected one line"),
    ],
)
def test_a_file_that_is_no_token_is_named_and_not_quoted(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        token_in(file, "token file ")
    assert str(caught.value) == f"token file {file}: {said}"
