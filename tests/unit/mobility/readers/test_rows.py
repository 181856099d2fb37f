"""Cells of whole blocks are those that each line alone has, with anything wrong in some of them."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.mobility.readers.account import number
from roambench.mobility.readers.rows import Rows

PIECES = [b"a", b"1", b" ", b'"', b'""', b",", b";", b"\t", b"\r", b"\0", b"\xe9", "\u00e9".encode(), b"\xa0"]


def text_of(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def cells_of_a_line(text: str, separator: str) -> list[str] | str:
    """The reference: one line, read by Python; a text where it is no CSV."""
    if separator == " ":
        return text.split()
    text = text.rstrip("\r")
    if '"' in text and separator in ",;":
        try:
            return [cell.strip() for cell in next(csv.reader([text], delimiter=separator), [])]
        except csv.Error as error:
            return f"not CSV: {error}"
    return [cell.strip() for cell in text.split(separator)]


@pytest.mark.lengthy
@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@settings(max_examples=120, deadline=None)
@given(
    lines=st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join), max_size=6),
    last=st.booleans(),
)
def test_cells_of_a_block_are_those_of_each_line(separator, lines, last) -> None:
    rows = Rows(b"\n".join(lines) + b"\n" * last, separator, first_line=5)
    texts = {number: text for number, line in enumerate(lines, start=5) if (text := text_of(line)).strip()}
    expected = {number: cells_of_a_line(text, separator) for number, text in texts.items()}
    assert rows.line.tolist() == list(expected)
    columns = [rows.texts(at).to_pylist() for at in range(12)]
    for row, cells in enumerate(expected.values()):
        if isinstance(cells, str):
            assert rows.reasons.get(row, cells) == cells  # a CR within a cell may stand
            continue
        assert rows.width[row] == len(cells)
        assert [column[row] for column in columns] == cells + [""] * (12 - len(cells))


@given(
    st.lists(
        st.sampled_from(["1", "-2.5", "40,5", "1e3", "+5", "1_0", "nan", "inf", "0x1F", "\u0663", "", "x"])
    )
)
def test_a_column_of_numbers_has_a_reason_where_a_text_is_none(texts) -> None:
    rows = Rows("\n".join(f"r\t{text}" for text in texts).encode(), "\t")
    found = rows.numbers(rows.texts(1), "width")
    for row, text in enumerate(texts):
        if row in rows.reasons:
            with pytest.raises(ValueError, match=re.escape(rows.reasons[row])):
                number(text, "width")
        else:
            assert found[row] == number(text, "width")


def test_rows_left_out_keep_the_reasons_of_the_others() -> None:
    rows = Rows(b"a,1\nb,x\nc,3\nd,y\n", ",")
    rows.numbers(rows.texts(1), "count")
    kept = rows.leave_out(np.array([True, True, False, False]), "not wanted")
    assert kept.tolist() == [1, 2, 3]
    assert rows.left_out == {"not wanted": 1}
    assert [str(row) for row in rows.malformed_rows()] == [
        "-:2: count 'x' is not a number",
        "-:4: count 'y' is not a number",
    ]
    assert rows.sound().tolist() == [1]
