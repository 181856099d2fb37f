"""Rows by name: ours, and those of installed packages."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.table import Table, first_sentence

FRUIT: Table[Callable[..., object]] = Table(
    what="fruit",
    group="roambench.fruit",
    own={"apple": "math:floor", "plum": abs},
)
NUMBERS: Table[int] = Table(
    what="number",
    group="roambench.numbers",
    kind=int,
    mistakes=lambda name, row: [f"expected less than 9, got {row}"] if row >= 9 else [],
    own={"one": 1},
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution (a folder with its metadata on the path) that adds rows, one of another's name."""
    for package, points in {
        "orchard": "[roambench.fruit]\npear = orchard:pear\nmelon = orchard:missing\nplum = orchard:pear\n"
        "[roambench.numbers]\nseven = orchard:SEVEN\nten = orchard:TEN\ntext = orchard:TEXT\n",
        "garden": "[roambench.fruit]\npear = garden:pear\n",
    }.items():
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(points)
    (tmp_path / "orchard.py").write_text("def pear():\n    pass\nSEVEN, TEN, TEXT = 7, 10, '7'\n")
    (tmp_path / "garden.py").write_text("def pear():\n    return 'of the garden'\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("orchard", "garden"):
        sys.modules.pop(name, None)


def test_our_own_rows_are_values_or_are_imported_when_asked_for() -> None:
    assert FRUIT.names() == ("apple", "plum")
    assert FRUIT.load("plum") is abs
    assert FRUIT.load("apple")(2.5) == 2
    assert FRUIT.added_by("plum") == []


def test_an_unknown_name_is_answered_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match="unknown fruit 'nut': expected one of apple, plum"):
        FRUIT.load("nut")


@pytest.mark.usefixtures("installed")
def test_names_are_known_without_importing_anything() -> None:
    assert FRUIT.names() == ("apple", "melon", "pear", "plum")
    assert not {"orchard", "garden"} & set(sys.modules)


@pytest.mark.usefixtures("installed")
def test_a_name_of_ours_wins_and_of_two_others_the_first_package() -> None:
    assert FRUIT.load("plum") is abs
    assert FRUIT.load("pear")() == "of the garden"
    assert [point.module for point in FRUIT.added_by("pear")] == ["garden", "orchard"]


@pytest.mark.usefixtures("installed")
def test_a_row_that_cannot_be_used_says_whose_it_is_and_why() -> None:
    with pytest.raises(ConfigError, match=r"fruit 'melon' \(orchard orchard:missing\) cannot be loaded: "):
        FRUIT.load("melon")
    with pytest.raises(ConfigError, match=r"number 'text' \(orchard orchard:TEXT\): expected a int, got str"):
        NUMBERS.load("text")
    with pytest.raises(ConfigError, match=r"number 'ten' .*: expected less than 9, got 10"):
        NUMBERS.load("ten")
    assert NUMBERS.load("seven") == 7


def test_rows_of_extras_are_ours_and_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, points in {"a": "four = a:FOUR\n", "b": "four = roambench.extras.numbers:FOUR\n"}.items():
        (tmp_path / f"{package}-1.0.dist-info").mkdir()
        (tmp_path / f"{package}-1.0.dist-info" / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
        text = f"[roambench.numbers]\nfive = a:FIVE\n{points}"
        (tmp_path / f"{package}-1.0.dist-info" / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert NUMBERS.added_by("four") == []
    assert [name for name in ("one", "four", "five", "six") if NUMBERS.is_ours(name)] == ["one", "four"]
    with pytest.raises(ConfigError, match=r"\(b roambench.extras.numbers:FOUR\) cannot be loaded"):
        NUMBERS.load("four")


def numbered() -> None:
    """FedProx (Li et al., MLSys 2020, Eq. 2): a pull
    to the start. More of it.
    """


def test_the_number_of_an_equation_ends_no_sentence() -> None:
    assert first_sentence(numbered) == "FedProx (Li et al., MLSys 2020, Eq. 2): a pull to the start"
