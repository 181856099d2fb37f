"""What pydantic finds wrong is told in our words, wherever in a file it stands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, Field, ValidationError, model_validator

from roambench.written.mistakes import mistakes_of
from roambench.written.toml_file import Section


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("odd")
    return value


class Meter(Section):
    """A table of a table."""

    gain: float = Field(gt=0.0)
    pins: Annotated[int, AfterValidator(_even)] = Field(2, json_schema_extra={"expected": "an even number"})


class Window(Section):
    """Has a rule between its keys."""

    first: int = 0
    last: int = 9

    @model_validator(mode="after")
    def _ordered(self) -> Window:
        if self.first > self.last:
            raise ValueError("first: expected at most last")
        return self


class Size(StrEnum):
    """Keys of a table."""

    SMALL = "small"
    FULL = "full"


class File(Section):
    """A table of each kind."""

    meters: dict[str, Meter] = Field(default={})
    numbers: dict[str, dict[str, int | float]] = Field(default={})
    why: dict[Annotated[Size, Field(strict=False)], str] = Field(default={})
    rows: list[Meter] = Field(default=[], alias="row")
    window: Window | None = None


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"meters": {"m1": {"gain": "x"}}}, 'meters.m1.gain: expected a number > 0.0, got "x"'),
        ({"meters": {"m1": {}}}, "meters.m1.gain: is missing, expected a number > 0.0"),
        ({"meters": {"m1": {"gain": 1.0, "pins": 3}}}, "meters.m1.pins: expected an even number, got 3"),
        ({"meters": {"m1": {"gain": 1.0, "pin": 2}}}, "meters.m1.pin: unknown key, did you mean pins?"),
        ({"meters": {"m1": 4}}, "meters.m1: expected a table, got 4"),
        ({"numbers": {"a": {"b": "c"}}}, 'numbers.a.b: expected an integer or a number, got "c"'),
        ({"row": [{"gain": 1.0}, {"gain": -1.0}]}, "row.gain: expected a number > 0.0, got -1.0"),
        ({"why": {"smal": "x"}}, 'why.smal: expected a key, one of "small", "full"'),
        ({"why": {"small": 3}}, "why.small: expected a text, got 3"),
        ({"row": 3}, "row: expected a list of tables, got 3"),
        ({"window": {"last": "x"}}, 'window.last: expected an integer, got "x"'),
        ({"window": {"first": 10}}, "window: first: expected at most last"),
        ([], "expected a table, got []"),
    ],
)
def test_a_mistake_names_its_key_and_what_was_expected(values: Any, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        File.model_validate(values)
    assert [str(mistake) for mistake in mistakes_of(refused.value, File)] == [told]
