"""The page about the systems names every system there is and every reading that a key can change."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.aggregation import COSINE_READINGS
from roambench.systems.catalogue import SYSTEMS
from roambench.systems.options import READINGS

PAGE = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()


@pytest.mark.parametrize("name", sorted(SYSTEMS.own))
def test_every_system_has_its_row(name: str) -> None:
    assert any(line.startswith(f"| `{name}` |") for line in PAGE.splitlines())


@pytest.mark.parametrize(("key", "words"), [*READINGS.items(), ("cosine", tuple(COSINE_READINGS))])
def test_every_reading_is_explained_with_all_its_words(key: str, words: tuple[str, ...]) -> None:
    (line,) = (line for line in PAGE.splitlines() if f".{key}`)" in line or f".{key} =" in line)
    default, others = line.strip("| ").split(" | ")[-2:]
    assert words[0] in default
    assert all(word in others for word in words[1:])
