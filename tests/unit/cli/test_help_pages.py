"""The help of every command: two examples that parse, one wording for an option, no types in brackets."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text

from roambench.cli.main import command, main

#: Options that mean something else in each command that has them.
DIFFERENT = {
    *("--output", "--fleet", "--set", "--name", "--check", "--repeats", "--port", "--columns", "--format"),
    *("--minutes", "--devices", "--title", "--seed", "--from", "--utc-offset-h", "--seconds", "--boot"),
    *("--dry-run", "--force", "--open", "--json", "--agents", "--jobs", "--runs-dir", "--trace", "--python"),
}


def walked(one: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group that a help lists."""
    if not one.hidden:
        yield words, one
    for name, each in getattr(one, "commands", {}).items():
        yield from walked(each, (*words, name))


ALL = list(walked(command()))
COMMANDS = [(words, one) for words, one in ALL if not hasattr(one, "commands")]


def named(of: Any) -> str | None:
    return " ".join(of) if isinstance(of, tuple) else ""


def examples(of: Any) -> list[list[str]]:
    return [shlex.split(line) for line in (of.epilog or "").splitlines()[1:]]


@pytest.mark.parametrize(("words", "one"), COMMANDS, ids=named)
def test_a_command_has_two_examples_that_its_own_parser_takes(words: tuple[str, ...], one: Any) -> None:
    found = examples(one)
    assert len(found) == 2
    for line in found:
        assert line[: len(words) + 1] == ["roambench", *words]
        context = one.context_class(one)
        values, rest, _ = one.make_parser(context).parse_args(line[len(words) + 1 :])
        assert not rest
        for parameter in one.params:
            value = values.get(parameter.name)
            given = isinstance(value, str | bool | list | tuple) and len(str(value)) > 2
            assert given or value or not parameter.required, f"{line} lacks {parameter.name}"
            if isinstance(value, str) and getattr(parameter.type_descriptor, "is_choice", False):
                assert value in [str(getattr(c, "value", c)) for c in parameter.type_descriptor.choices]


@pytest.mark.parametrize(("words", "one"), ALL, ids=named)
def test_a_help_fits_80_columns_and_names_values_in_capitals(
    words: tuple[str, ...], one: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    text = Text.from_ansi(capsys.readouterr().out).plain
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<\w[^>]*>|list\[", text)
    assert all("\n" not in paragraph for paragraph in one.help.split("\n\n"))
    for parameter in one.params:
        if parameter.metavar and parameter.param_type_name == "option":
            assert (
                parameter.metavar == parameter.metavar.upper()
                or "|" in parameter.metavar
                or ("." in parameter.metavar)
            ), parameter.opts


def test_an_option_is_worded_once() -> None:
    wordings = defaultdict(set)
    for _, one in COMMANDS:
        for parameter in one.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                if "--output" in parameter.opts:
                    assert "-o" in parameter.opts
                wordings[max(parameter.opts, key=len)].add((parameter.metavar, parameter.help))
    assert {name: each for name, each in wordings.items() if len(each) > 1 and name not in DIFFERENT} == {}


def test_a_wrong_choice_is_refused_in_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["list", "algos"])
    error = capsys.readouterr().err
    assert "'algos' is not one of" in error
    assert "Value error" not in error


@pytest.mark.parametrize("name", ["run", "sweep", "ab", "overhead", "calibrate", "resume"])
def test_each_command_that_logs_in_on_hosts_may_ask_for_the_password_of_sudo(name: str) -> None:
    options = [text for parameter in command().commands[name].params for text in parameter.opts]
    assert "-K" in options
