"""docs/rules.md: every rule that is cited anywhere is on it, and everything that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
ROWS = {row.split(" | ")[0].strip("| "): row for row in PAGE.splitlines() if re.match(r"\| R\d+ \|", row)}
HEADS = re.findall(r"^## (R\d+): (.+)$", PAGE, re.M)
#: A rule is cited as "rule R7", "(R9)", "R5, R6": not the resistor R28, the R² of a fit, or a half of a name.
CITED = re.compile(r"(?<![\w/-])R(\d{1,2})(?=[\s,.;:)'\"\]]|$)(?!, 15 mOhm)")


def citing() -> dict[str, set[str]]:
    """Rule -> the files that cite it."""
    found: dict[str, set[str]] = {}
    folders = ("protos", "agent", "controller", "benchmarks", "docs", "tests")
    paths = [
        path for folder in folders for kind in ("py", "md") for path in (ROOT / folder).rglob(f"*.{kind}")
    ]
    for path in [*paths, ROOT / "README.md", ROOT / "CHANGELOG.md"]:
        if path.name in ("rules.md", Path(__file__).name):
            continue
        for number in CITED.findall(path.read_text(encoding="utf-8")):
            found.setdefault(f"R{number}", set()).add(path.relative_to(ROOT).as_posix())
    return found


def test_every_rule_that_is_cited_is_on_the_page() -> None:
    cited = citing()
    assert {f"R{number}" for number in range(1, 13)} <= cited.keys()
    assert {rule: sorted(files) for rule, files in cited.items() if rule not in ROWS} == {}


def test_every_rule_has_a_row_and_a_chapter_that_the_row_leads_to() -> None:
    assert [rule for rule, _ in HEADS] == list(ROWS) == [f"R{number}" for number in range(1, len(ROWS) + 1)]
    for rule, title in HEADS:
        anchor = re.sub(r"[^a-z0-9 -]", "", f"{rule}: {title}".lower()).replace(" ", "-")
        assert f"](#{anchor})" in ROWS[rule], anchor


@pytest.mark.parametrize("rule", list(ROWS))
def test_what_a_rule_names_exists_and_is_code_and_a_test_or_a_benchmark(rule: str) -> None:
    _, _, kept, shown = ROWS[rule].strip("| ").split(" | ")
    code, proofs = (re.findall(r"`([\w/.]+)`", cell) for cell in (kept, shown))
    assert code, rule
    assert proofs, rule
    assert all(path.startswith(("controller/", "agent/", "protos/")) for path in code)
    assert all(path.startswith(("tests/", "benchmarks/")) for path in proofs)
    assert [path for path in (*code, *proofs) if not (ROOT / path).is_file()] == []


def test_the_page_is_found_from_readme_and_from_the_page_on_energy() -> None:
    assert "docs/rules.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(rules.md)" in (ROOT / "docs" / "energy.md").read_text(encoding="utf-8")
