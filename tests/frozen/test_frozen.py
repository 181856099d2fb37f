"""What may not change while the code behind it moves; CONTRIBUTING.md says how it is renewed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from frozen.renew import main as renew
from frozen.today import FROZEN, differences, file_of

SHOWN = 40


@pytest.mark.parametrize("what", FROZEN)
def test_nothing_that_is_frozen_was_lost_or_changed(what: str, tmp_path: Path) -> None:
    frozen = json.loads(file_of(what).read_text("utf-8"))
    found = list(differences(frozen, FROZEN[what](tmp_path), what))
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    assert not found, "\n".join(
        ["", *found[:SHOWN], *more, f"On purpose? .venv/bin/python tests/frozen/renew.py {what}"]
    )


@pytest.mark.parametrize(
    ("frozen", "today", "found"),
    [
        ({"a": 1.0}, {"a": 1.0 + 1e-10, "b": 2}, []),
        ({"a": 1.0}, {"a": 1.0 + 1e-8}, ["x > a: was 1.0, is 1.00000001"]),
        ({"a": 6.8e-13}, {"a": 0.0}, []),
        ({"a": float("nan")}, {"a": float("nan")}, []),
        ({"a": float("nan")}, {"a": 1.0}, ["x > a: was NaN, is 1.0"]),
        ({"a": 10**15}, {"a": 10**15 + 1}, ["x > a: was 1000000000000000, is 1000000000000001"]),
        ({"a": True}, {"a": 1}, ["x > a: was true, is 1"]),
        ({"a": None}, {"a": 0.0}, ["x > a: was null, is 0.0"]),
        ({"a": "j"}, {"b": "j"}, ["x > a: lost"]),
        ([1, {"a": "j"}], [1, {"a": "k"}], ['x > 1 > a: was "j", is "k"']),
        ([1, 2], [1], ["x: was [1, 2], is [1]"]),
    ],
)
def test_a_difference_is_what_was_lost_or_changed(frozen: Any, today: Any, found: list[str]) -> None:
    assert list(differences(frozen, today, "x")) == found


def test_what_is_not_frozen_cannot_be_renewed(capsys: pytest.CaptureFixture[str]) -> None:
    assert renew(["lists", "helps"]) == 2
    assert "Unknown: helps" in capsys.readouterr().err
