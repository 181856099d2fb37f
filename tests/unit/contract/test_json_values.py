"""Frozen dataclasses from JSON: every mistake at once, each with its key."""

from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import from_json


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Part:
    size: float
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True)
class Whole:
    name: str
    parts: tuple[Part, ...] = ()
    limit: int | None = None
    spare: Part = field(default_factory=lambda: Part(1.0))


def test_nested_values_are_built() -> None:
    whole = from_json(Whole, '{"name": "a", "parts": [{"size": 2, "colour": "red"}], "limit": null}', "f")
    assert whole == Whole("a", (Part(2.0, Colour.RED),))


def test_every_mistake_is_listed_with_its_key() -> None:
    text = '{"parts": [{"size": "big"}, {"colour": "blue"}], "limit": 1.5, "spare": 3, "nam": "x"}'
    with pytest.raises(ConfigError) as caught:
        from_json(Whole, text, "file.json")
    assert set(caught.value.problems) == {
        "file.json: nam: unknown key",
        "file.json: name: is missing",
        "file.json: parts[0].size: expected float, got 'big'",
        "file.json: parts[1].size: is missing",
        "file.json: parts[1].colour: expected one of red, got 'blue'",
        "file.json: limit: expected int, got 1.5",
        "file.json: spare: expected an object",
    }


@pytest.mark.parametrize("text", ["{", "[1]", "NaN", "[" * 100_000])
def test_what_is_no_object_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^f: "):
        from_json(Whole, text, "f")


def test_infinity_is_not_a_number_of_ours() -> None:
    with pytest.raises(ConfigError, match="size: expected float"):
        from_json(Part, '{"size": Infinity}', "f")
