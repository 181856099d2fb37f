"""Every `roambench ...` of README and docs is a command, with options that it has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from roambench.cli import main as cli

UsageError = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError")

ROOT = Path(__file__).parents[3]
# The changelog names what has gone; decisions say what was true on their day.
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("[bfi]*/README.md"), *ROOT.glob("docs/**/*.md")]
    if path.name != "CHANGELOG.md" and path.parent.name != "decisions"
)
_BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^ *(?:\$ )?(?:sudo )?(?:\.venv/bin/)?roambench (.+)$", re.MULTILINE)
_INLINE = re.compile(r"`(?:sudo )?(?:\.venv/bin/)?roambench\s([^`]+)`")


def typed_on(text: str) -> list[str]:
    """What follows `roambench` in a page's blocks and sentences."""
    blocks = "\n".join(_BLOCK.findall(text)).replace("\\\n", " ")
    return _LINE.findall(blocks) + _INLINE.findall(_BLOCK.sub("", text))


def fault(words: list[str]) -> str | None:
    """What the command line has against these words, values apart."""
    command: Any = cli.command()
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    try:
        command.make_parser(command.context_class(command)).parse_args(list(words))
    except UsageError as wrong:
        return None if "requires an argument" in wrong.message else str(wrong.message)
    return None


def test_the_check_finds_what_is_wrong() -> None:
    assert fault(["run", "demo.toml", "--fleet", "local"]) is None
    assert fault(["rnu", "demo.toml"]) is not None
    assert fault(["run", "demo.toml", "--flet", "local"]) is not None
    assert fault(["fleet", "pack", "bench.toml"]) is not None
    assert typed_on("```sh\nroambench run a \\\n  --x\n```\nand `roambench watch`\n") == [
        "run a    --x",
        "watch",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_the_page_parse(page: Path) -> None:
    wrong = []
    for line in typed_on(page.read_text("utf-8")):
        words = shlex.split(re.split(r" &&? | \|| > |;|\s{2,}#| #", line + " ")[0].replace("\\|", "|"))
        words = [word for word in words if word not in ("...", "…")]
        alternatives = [words]
        if words and "|" in words[0]:
            alternatives = [[name, *words[1:]] for name in words[0].split("|")]
        elif len(words) > 1 and "|" in words[1] and words[0].islower():
            alternatives = [[words[0], name, *words[2:]] for name in words[1].split("|")]
        if words and words[0].isupper():  # "COMMAND --help"
            continue
        wrong += [f"roambench {line}: {why}" for words in alternatives if (why := fault(words))]
    assert wrong == []


def test_there_are_many() -> None:
    assert sum(len(typed_on(page.read_text("utf-8"))) for page in PAGES) > 200
