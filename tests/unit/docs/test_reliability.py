"""reliability.md, faults-tried.md: each case of the examination has a line, and what they name is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = "".join((ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("reliability", "faults-tried"))
CASES = {*(f"A{number}" for number in range(1, 19)), *(f"B{number}" for number in range(1, 12))}
#: Of these nothing was to be changed.
WITHOUT = {"B11"}


@cache
def functions(file: str) -> set[str]:
    tree = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    return {node.name for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_case_has_one_line_and_a_test() -> None:
    rows = re.findall(r"^\| ([AB]\d[^|]*) \|.*\| ([^|]*) \|$", PAGE, re.M)
    cases = [case for cell, _ in rows for case in cell.split(", ")]
    assert sorted(cases) == sorted(CASES)
    assert {cell for cell, tests in rows if "::" not in tests} == WITHOUT


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`((?:tests|benchmarks)/[^` ]+)", PAGE))))
def test_what_the_page_names_is_there(named: str) -> None:
    file, _, function = named.partition("::")
    assert (ROOT / file).exists()
    assert not function or function in functions(file)
