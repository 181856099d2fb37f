"""reliability.md, evidence/faults.csv: each case of the examination has a row; what they name is there."""

import ast
import csv
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = "".join((DOCS / page).read_text("utf-8") for page in ("reliability.md", "evidence/faults-tried.md"))
with (DOCS / "evidence" / "faults.csv").open(encoding="utf-8", newline="") as file:
    FAULTS = list(csv.DictReader(file))
CASES = {*(f"A{number}" for number in range(1, 19)), *(f"B{number}" for number in range(1, 12))}
#: Of these nothing was to be changed.
WITHOUT = {"B11"}
NAMED = {name for row in FAULTS for name in row["test"].split(", ") if name.startswith("tests/")}
NAMED |= set(re.findall(r"`((?:tests|benchmarks)/[^` ]+)", PAGES))


@cache
def functions(file: str) -> set[str]:
    tree = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    return {node.name for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_case_has_one_row_and_a_test() -> None:
    cases = [case for row in FAULTS if row["case"] for case in row["case"].split(", ")]
    assert sorted(cases) == sorted(CASES)
    assert {row["case"] for row in FAULTS if row["case"] and "::" not in row["test"]} == WITHOUT
    assert all(row["test"].startswith("tests/") for row in FAULTS if row["case"] not in WITHOUT)


@pytest.mark.parametrize("named", sorted(NAMED))
def test_what_the_page_and_the_rows_name_is_there(named: str) -> None:
    file, _, function = named.partition("::")
    assert (ROOT / file).exists()
    assert not function or function in functions(file)
