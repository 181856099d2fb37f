"""docs/README.md is the order of the site's pages: each page is on it once, and what it names is there.

`make docs` checks links and anchors, too; here is what a new page forgets first, without mkdocs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
INDEX = (ROOT / "docs" / "README.md").read_text("utf-8")
NAMED = [os.path.normpath(f"docs/{path}") for path in re.findall(r"^ *- \[.+\]\(([^)#]+)\)$", INDEX, re.M)]


def test_every_page_is_in_the_order_of_pages_once() -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "firmware_notes").glob("*.md")}
    assert sorted(pages - {"docs/README.md"} - set(NAMED)) == [], "a page is missing in docs/README.md"
    assert sorted(NAMED) == sorted(set(NAMED))


def test_every_page_of_the_order_is_there() -> None:
    assert len(NAMED) > 50
    assert [path for path in NAMED if not (ROOT / path).is_file()] == []


def test_pages_are_linked_by_what_they_are_about() -> None:
    """Neither a file's name as the text of a link, nor a page that is named and not linked."""
    wrong = []
    for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "firmware_notes").glob("*.md")]:
        if page.parent.name != "decisions":
            text = re.sub(r"^```.*?^```$|^<!--.*?-->$", "", page.read_text("utf-8"), flags=re.S | re.M)
            wrong += [
                f"{page.name}: {it}" for it in re.findall(r"\[[^\]]*\.md\]|(?<![\w/.])docs/[\w-]+\.md", text)
            ]
    assert wrong == []


def test_readme_leads_to_all_pages() -> None:
    assert "(docs/README.md)" in (ROOT / "README.md").read_text("utf-8")


def test_pictures_are_shown_are_described_and_are_small() -> None:
    images = ROOT / "docs" / "images"
    shown = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for alt, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text("utf-8")):
            assert len(alt) > (20 if "images" in path else 0), f"{page.name}: {path} wants a description"
            shown.add((page.parent / path).resolve())
    pictures = set(images.glob("*.webp"))
    assert len(pictures) > 3
    assert pictures <= shown, "made by `make pictures`, shown nowhere"
    assert [path for path in shown if not path.is_file()] == []
    assert [path.name for path in pictures if path.stat().st_size > 120_000] == []
