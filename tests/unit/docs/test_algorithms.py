"""The page about the systems names every system there is and every reading that a key can change."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from roambench.systems.catalogue import SYSTEMS
from roambench.systems.options import SystemOptions

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "algorithms.md").read_text()
#: The words of each option that is one of a few, its default first.
READINGS = {
    name: get_args(hint)
    for name, hint in get_type_hints(SystemOptions).items()
    if get_origin(hint) is Literal
}


ADDED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]


@pytest.mark.parametrize("name", sorted({*SYSTEMS.own, *ADDED["roambench.systems"]}))
def test_every_system_has_its_row(name: str) -> None:
    assert any(line.startswith(f"| `{name}` |") for line in PAGE.splitlines())


@pytest.mark.parametrize(("key", "words"), READINGS.items())
def test_every_reading_is_explained_with_all_its_words(key: str, words: tuple[str, ...]) -> None:
    (line,) = (line for line in PAGE.splitlines() if f".{key}`)" in line or f".{key} =" in line)
    default, others = line.strip("| ").split(" | ")[-2:]
    assert words[0] in default
    assert all(word in others for word in words[1:])
