"""What is wrong with a file that is no TOML is told with its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.written.toml_file import read_toml


def problem_of(path: Path, name: str = "") -> str:
    with pytest.raises(ConfigError) as refused:
        read_toml(path, name)
    (problem,) = refused.value.problems
    return problem


def test_tables_come_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("[a]\nb = 1\n")
    assert read_toml(path) == {"a": {"b": 1}}


def test_a_file_is_called_by_its_name_or_as_the_caller_says(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("a = \n")
    assert problem_of(path) == "some.toml: not TOML: Invalid value (at line 1, column 5)"
    assert problem_of(path, "links/some").startswith("links/some: not TOML: ")


def test_bytes_that_are_no_text_are_told_by_place(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_bytes(b"a = 1\n\xff")
    assert problem_of(path) == "some.toml: not UTF-8 text (byte 6)"


def test_a_file_that_is_not_there_is_told_with_its_folder(tmp_path: Path) -> None:
    assert (
        problem_of(tmp_path / "none.toml")
        == f"{tmp_path}/none.toml: cannot be read: No such file or directory"
    )
