"""Commands in messages are typed as they stand: what has a path in it is quoted for a shell."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import roambench.cli
from roambench.cli.main import main

CONTROLLER = Path(roambench.cli.__file__).parents[1]
#: A command, to the end of its sentence.
COMMAND = re.compile(r"(?:roambench [a-z-]+|chmod [0-9]+)[^;`]*")
PATHS = re.compile(r"\b(path|file|folder|dir|truth_dir|parent|run|bench|out|port)\b")


def commands(source: str) -> Iterator[str]:
    """The values in commands of all texts of a module, as they are written."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in node.values
                if isinstance(part, ast.FormattedValue) or isinstance(part.value, str)
            )
            for found in COMMAND.finditer(text):
                yield from re.findall(r"\{([^{}]*)\}", found[0])


def test_every_path_in_a_command_that_a_message_names_is_quoted_for_a_shell() -> None:
    unquoted = [
        f"{module.relative_to(CONTROLLER)}: {value}"
        for module in sorted(CONTROLLER.rglob("*.py"))
        for value in commands(module.read_text("utf-8"))
        if PATHS.search(value) and not value.startswith(("shlex.", "' '.join((shlex."))
    ]
    assert unquoted == []
    assert list(commands('f"{path}: a run: roambench report {path}"')) == ["path"]


def test_the_command_for_a_file_with_a_space_in_its_name_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my grid.toml"
    for text, words, meant in (("[grid]\n", "run", "sweep"), ("seed = 1\n", "sweep", "run")):
        file.write_text(text)
        with pytest.raises(SystemExit):
            main([words, str(file)])
        command = capsys.readouterr().err.rpartition(": ")[2].strip()
        assert shlex.split(command) == ["roambench", meant, str(file)]
