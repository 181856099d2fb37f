"""Frozen dataclasses from JSON: every mistake at once, each with its key."""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import beyond_64_bits, from_json, kept_in, plain


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
        "file.json: parts[1].colour: expected red, got 'blue'",
        "file.json: limit: expected int, got 1.5",
        "file.json: spare: expected an object",
    }


@pytest.mark.parametrize("text", ["{", "[1]", "NaN", "[" * 100_000])
def test_what_is_no_object_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^f: "):
        from_json(Whole, text, "f")


def test_a_key_that_nobody_could_print_is_spelt_out() -> None:
    with pytest.raises(ConfigError) as caught:
        from_json(Part, '{"size": 1, "\\u001b[2J\\ud800": 2}', "f")
    assert caught.value.problems == (r"f: '\x1b[2J\ud800': unknown key",)


def test_infinity_is_not_a_number_of_ours() -> None:
    with pytest.raises(ConfigError, match="size: expected float"):
        from_json(Part, '{"size": Infinity}', "f")


@dataclass(frozen=True, slots=True)
class Mixed:
    pairs: tuple[tuple[int, float], ...]
    by_name: Mapping[str, Part | None]
    side: Literal["left", "right"]
    about: dict[str, Any] = field(default_factory=dict)


MIXED = Mixed(((1, 0.5), (2, 1.5)), {"a": Part(2.0), "b": None}, "left", {"any": [1, None, {"x": "y"}]})
WHOLE = Whole("a", (Part(1.0),), 3)


@pytest.mark.parametrize("value", [MIXED, WHOLE])
def test_what_was_written_comes_back(value: Mixed | Whole) -> None:
    assert from_json(type(value), json.dumps(asdict(value)), "f") == value


def test_lists_of_a_length_objects_by_name_and_choices_name_what_is_wrong() -> None:
    text = '{"pairs": [[1, 2, 3], ["a", 1]], "by_name": {"a": {"size": true}, "b": 1}, "side": "up"}'
    with pytest.raises(ConfigError) as caught:
        from_json(Mixed, text, "f")
    assert set(caught.value.problems) == {
        "f: pairs[0]: expected a list of 2 values, got [1, 2, 3]",
        "f: pairs[1][0]: expected int, got 'a'",
        "f: by_name.a.size: expected float, got True",
        "f: by_name.b: expected an object",
        "f: side: expected one of left, right, got 'up'",
    }


def test_numbers_that_are_none_come_back_where_they_are_asked_for() -> None:
    sizes = from_json(tuple[float, ...], "[NaN, -Infinity, 1]", "f", finite=False)
    assert math.isnan(sizes[0])
    assert sizes[1:] == (-math.inf, 1.0)


def test_a_damaged_file_counts_as_none_where_that_is_asked_for(tmp_path) -> None:
    path = tmp_path / "part.json"
    assert kept_in(Part, path) is None
    path.write_bytes(b'{"size": 1')
    assert kept_in(Part, path) is None
    path.write_bytes(b'{"size": 1}')
    assert kept_in(Part, path) == Part(1.0)


@pytest.mark.parametrize(
    "values",
    [
        {"name": "x" * 10**6, "limit": "y" * 10**6},
        {"name": 10**4000, "parts": [{"size": "z" * 10**6}]},
        {"n" * 10**6: 1, "name": ["w" * 10**6]},
        {"name": "a", "parts": ["v" * 100] * 100_000},
        {f"{number}": number for number in range(100_000)},
    ],
)
def test_what_is_said_of_a_flood_is_short(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        from_json(Whole, json.dumps(values), "f")
    assert len(caught.value.problems) <= 101
    assert max(map(len, caught.value.problems)) < 400


@pytest.mark.parametrize("seed", range(8))
def test_damaged_bytes_are_refused_or_read_never_more(seed: int) -> None:
    draw = random.Random(seed)
    strange = (
        b"",
        b"null",
        b"[]",
        b"{}",
        b"1e999",
        b"NaN",
        b"-1",
        b'"\\ud800"',
        b"\xff",
        b"\0",
        b"9" * 5000,
        b"[" * 3000,
    )
    refused = list[str]()
    for value in (MIXED, WHOLE) * 200:
        text = bytearray(json.dumps(asdict(value)).encode())
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text) + 1)
            text[at : at + draw.randrange(8)] = draw.choice((*strange, bytes([draw.randrange(256)])))
        try:
            assert isinstance(from_json(type(value), bytes(text), "f"), type(value))
        except ConfigError as error:
            refused += error.problems
    assert len(refused) > 200
    assert all(problem.startswith("f: ") and len(problem) < 400 for problem in refused)


@dataclass(frozen=True, slots=True)
class _Inner:
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Outer:
    inner: _Inner
    named: Mapping[str, _Inner]


def test_a_dataclass_is_written_as_its_copy_would_be() -> None:
    value = _Outer(_Inner((1, 2)), {"a": _Inner(())})
    assert json.dumps(value, default=plain) == json.dumps(asdict(value))
    with pytest.raises(TypeError, match="set is no value of JSON"):
        json.dumps({1}, default=plain)


@pytest.mark.parametrize("number", [2**63, -(2**63), 10**400, 1e19, -1e308])
def test_numbers_beyond_64_bits_are_found_at_any_depth(number: float) -> None:
    nested: object = number
    for _ in range(100_000):
        nested = {"a": (0, [nested])}
    assert beyond_64_bits(nested)


def test_other_numbers_and_what_is_none_are_no_numbers_beyond_64_bits() -> None:
    assert not beyond_64_bits({"a": [2**63 - 1, 1e18, math.nan, math.inf, -math.inf, True, None, "9" * 400]})
