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
    assert problem_of(path).startswith("some.toml: not TOML: line 1, column 5: expected a value: ")
    assert problem_of(path, "links/some").startswith("links/some: not TOML: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('seed = 3\nname = "a\n', "line 2, column 10: expected the quotes that end the text, on the same"),
        ('name = """a\nb', "line 2, column 2: expected the quotes that end the text, got b"),
        ("seed 3", "line 1, column 6: expected '=' after a key in a key/value pair, got seed 3"),
        ("[trace\nsteps = 3", "line 1, column 7: expected ']' at the end of a table declaration, got [trace"),
        ("a = 1\n[t]\nb = 1\nb = 2", "line 4, column 6: expected each key and each table once, got b = 2"),
        ("[t]\n[t]", "line 2, column 3: expected each table once, got [t]"),
        ("[a.b]\n[a]\nb.c = 1", "line 3, column 8: expected each table once, got b.c = 1"),
        ("a = [1 2]", "line 1, column 8: expected a comma or ] behind each entry of the list, got a = [1 2]"),
        ("a = [1", "line 1, column 7: expected a comma or ] behind each entry of the list, got a = [1"),
        ("a = {b = 1\n}", "line 1, column 11: expected a comma or } behind each entry of the table"),
        ("a = {b = 1, b = 2}", "line 1, column 18: expected each key once"),
        ("a = 03", "line 1, column 6: expected the end of the line behind a value, got a = 03"),
        ("a = True", 'line 1, column 5: expected a value: "a text", a number, true, false, a date'),
        ("a = ", 'line 1, column 5: expected a value: "a text"'),
        ("a = 2026-02-30", "line 1, column 5: expected a date that there is, YYYY-MM-DD"),
        ('a = "C:\\Users"', "line 1, column 10: expected a text with backslashes in 'single quotes'"),
        ('a = "C:\\x"', "line 1, column 10: expected a text with backslashes in 'single quotes'"),
        ("= 3", "line 1, column 1: expected key = value, [table], or a comment behind #"),
        ("a.= 3", "line 1, column 3: expected a key of letters, digits, - and _, or one in quotes"),
        ("# \x01", "line 1, column 3: expected no control character"),
    ],
)
def test_a_slip_is_told_with_its_place_and_what_was_expected(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "some.toml"
    path.write_text(text)
    assert problem_of(path).startswith(f"some.toml: not TOML: {told}")


def test_bytes_that_are_no_text_are_told_by_place(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_bytes(b"a = 1\n\xff")
    assert problem_of(path) == "some.toml: not UTF-8 text (byte 6)"


def test_a_file_that_is_not_there_is_told_with_its_folder(tmp_path: Path) -> None:
    assert (
        problem_of(tmp_path / "none.toml")
        == f"{tmp_path}/none.toml: cannot be read: No such file or directory"
    )
