"""Commands and exporters that packages add by entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from roambench.cli.fleet.app import fleet_app
from roambench.cli.main import app, main
from roambench.contract.errors import ConfigError

POINTS = """\
[roambench.commands]
greet = greeter:register
run = greeter:register
odd = greeter:nothing
gone = missing_greeter:register
fleet.greet = greeter:register
[roambench.exports]
paper = greeter:paper
"""
CODE = """
def greet(name: str) -> None:
    "Greet by NAME."
    print("hello", name)

def register(app):
    app.command()(greet)

def nothing(app):
    app.command("other")(greet)

def paper(runs: list[str]) -> None:
    "Print runs on paper."
    print("printed", *runs)
"""


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "greeter-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(POINTS)
    (tmp_path / "greeter.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("greeter", None)


def told(*words: str) -> str:
    return CliRunner().invoke(app, words).output


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["greet", "Ada"], "hello Ada\n"),
        (["fleet", "greet", "Ada"], "hello Ada\n"),
        (["export", "paper", "a", "b"], "printed a b\n"),
        (["greet", "A\x1b[2Jda"], "hello A\\u001b[2Jda\n"),
    ],
)
def test_a_command_of_a_package_stands_among_ours(words: list[str], answer: str) -> None:
    assert told(*words) == answer


@pytest.mark.usefixtures("added")
def test_a_command_of_ours_loads_nothing_of_packages_and_keeps_its_name() -> None:
    assert "FILE" in told("run", "--help")
    assert "greeter" not in sys.modules


@pytest.mark.usefixtures("added")
def test_help_lists_what_is_added_and_why_something_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 400)
    shown = told("--help")
    assert "Greet by NAME." in shown
    assert "No module named 'missing_greeter'" in shown
    assert "Greet by NAME." in told("fleet", "--help")
    assert "Print runs on paper." in told("export", "--help")


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gone", r"command 'gone' \(greeter missing_greeter:register\) cannot be loaded"),
        ("odd", r"command 'odd': expected a function that adds odd, got \['other'\]"),
    ],
)
def test_what_cannot_be_loaded_says_why_when_it_is_called(name: str, why: str) -> None:
    ended = CliRunner().invoke(app, [name, "--any", "thing"])
    assert ended.exit_code != 0
    with pytest.raises(ConfigError, match=why):
        raise ended.exception or AssertionError


def test_a_mistyped_command_is_answered_with_one_like_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "wandbb"])
    assert "Did you mean 'wandb'?" in " ".join(capsys.readouterr().err.split())


def test_groups_are_typers_own(tmp_path: Path) -> None:
    """`fleet` alone, as the tests of its commands call it."""
    found: Any = typer.main.get_command(fleet_app)
    assert "list" in found.commands
