"""docs/glossary.md: what it names is there, each word comes once, and the first pages lead to it."""

import re
from pathlib import Path

from source_names import is_there, public_classes

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "glossary.md"


def rows() -> list[list[str]]:
    """The cells of every row of the page's tables, their heads left out."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[0] != "word"]


def test_every_word_is_defined_where_the_page_says() -> None:
    assert len(rows()) > 30
    for word, _, where in rows():
        names = re.findall(r"`([\w.]+)`", where)
        assert names, word
        assert [name for name in names if not is_there(name)] == [], word


def test_no_word_is_explained_twice() -> None:
    words = [word.strip() for row in rows() for word in row[0].split(",")]
    assert sorted(set(words)) == sorted(words)


def test_no_two_public_classes_have_one_name() -> None:
    classes = public_classes()
    assert classes["Spool"] == ["roambench/spool/spool.py"]
    assert {name: files for name, files in classes.items() if len(files) > 1} == {}


def test_the_first_pages_lead_to_it() -> None:
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text("utf-8")
    assert "(glossary.md)" in (ROOT / "docs" / "architecture.md").read_text("utf-8")
