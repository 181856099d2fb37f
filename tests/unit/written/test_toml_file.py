"""What is wrong with a file that is no TOML is told with its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.written.toml_file import read_toml


def problem_of(path: Path, name: str = "") -> str:
    with pytest.raises(ConfigError) as refused:
        read_toml(path, name)
    (problem,) = refused.value.problems
    return without_lines([problem])[0]


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
    assert problem_of(path) == "some.toml: not UTF-8 text (byte 6, line 2)"


def test_a_file_that_is_not_there_is_told_with_its_folder(tmp_path: Path) -> None:
    assert (
        problem_of(tmp_path / "none.toml")
        == f"{tmp_path}/none.toml: cannot be read: No such file or directory"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "a = 1\nx = " + "[" * 20_000 + "]" * 20_000,
            "line 2: expected tables and lists in at most 32 others",
        ),
        (
            "x = " + "{a = " * 20_000 + "1" + "}" * 20_000,
            "line 1: expected tables and lists in at most 32 others",
        ),
        (
            "x = [\n" + "[\n" * 20_000 + "]" * 20_001,
            "line 33: expected tables and lists in at most 32 others",
        ),
        ("[" + ".".join(["a"] * 20_000) + "]", "a.a.a.a.a: expected tables and lists in at most 32 others"),
        (
            "a = 1\n\n[t]\nb = " + "9" * 5000,
            "line 4: expected an integer of at most 64 bits, got one of thousands",
        ),
        (
            "[t]\nb = [0x" + "f" * 6000 + "]",
            "t.b: expected an integer of at most 64 bits, got one of 24,000 bits",
        ),
        ("[t]\nb = 18446744073709551616", "t.b: expected an integer of at most 64 bits, got one of 65 bits"),
        ('[[t]]\npath = "a\\u0000b"', r"t.path: expected a text without NUL, got 'a\x00b'"),
        ('[t]\n"\\u001b[31m" = 1', r"t: expected keys of at most 200 printable characters, got '\x1b[31m'"),
        ("k" * 1_000_000 + " = 1", "expected keys of at most 200 printable characters, got 'kkkk"),
    ],
    ids=range(10),
)
def test_what_no_table_can_have_is_told_by_line_or_key(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "some.toml"
    path.write_text(text)
    problem = problem_of(path)
    assert problem.startswith(f"some.toml: {told}")
    assert len(problem) < 200


def test_every_such_mistake_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text('a = "\\u0000"\n[t]\nb = ["\\u0000", 99999999999999999999]\n')
    with pytest.raises(ConfigError) as refused:
        read_toml(path)
    assert [line.partition(" expected")[0] for line in without_lines(refused.value.problems)] == [
        "some.toml: a:", "some.toml: t.b:", "some.toml: t.b:",
    ]  # fmt: skip


def test_a_seed_of_64_bits_is_a_number(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text(f"a = {2**64 - 1}\nb = {-(2**63)}\n")
    assert read_toml(path) == {"a": 2**64 - 1, "b": -(2**63)}


def test_a_byte_order_mark_and_the_line_ends_of_windows_are_no_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n[t]\r\nb = 2\r\n")
    assert read_toml(path) == {"a": 1, "t": {"b": 2}}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_called_so(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "some.toml"
    path.write_text("a = 1\n", encoding=encoding)
    assert "expected UTF-8: convert it (iconv -f UTF-16 -t UTF-8)" in problem_of(path)


def test_a_path_with_a_nul_is_no_file() -> None:
    assert "cannot be read: embedded null byte" in problem_of(Path("a\0b"))
