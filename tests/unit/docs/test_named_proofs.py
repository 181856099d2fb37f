"""Tests and benchmarks that pages name as proof exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("[bfi]*/README.md"), *ROOT.glob("docs/**/*.md")]
    if path.name != "CHANGELOG.md" and path.parent.name != "decisions"
)

_PROOF = re.compile(r"\b((?:tests|benchmarks)/[\w/]+\.py)(?:::(\w+))?")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_tests_and_benchmarks_that_a_page_names_exist(page: Path) -> None:
    gone = []
    for path, name in set(_PROOF.findall(page.read_text("utf-8"))):
        file = ROOT / path
        if not file.is_file() or (
            name and not re.search(rf"\b(def|class) {name}\b", file.read_text("utf-8"))
        ):
            gone.append(f"{path}::{name}" if name else path)
    assert gone == []
