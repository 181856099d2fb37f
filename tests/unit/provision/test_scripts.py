"""Scripts that hosts run are constants: no value of a file or of a host is ever part of one."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import roambench.cli.main
from roambench.provision.ssh.script import NO_PASSWORD, Script, brief, shell_words

_ROOT = Path(roambench.cli.main.__file__).parents[3]
_FOLDERS = ("protos", "agent", "controller")
_CONSTANT = re.compile("_?[A-Z][A-Z0-9_]*")
#: `fleet exec` runs what a person types.
_TYPED = {"controller/roambench/cli/fleet/shell.py: Script(' '.join(command))"}
#: Commands that a person gives as such: the ways to switch a board, to send a message, to reach a host.
_SHELLS = {
    "controller/roambench/extras/notify/notify.py",
    "controller/roambench/extras/power/command.py",
    "controller/roambench/provision/ssh/login.py",
    "controller/roambench/provision/ssh/script.py",
}


def _sources(holding: str) -> Iterator[tuple[str, ast.Module]]:
    """The files in which that pattern is found: to parse all of them takes seconds."""
    for folder in _FOLDERS:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            if re.search(holding, text := path.read_text(encoding="utf-8")):
                yield str(path.relative_to(_ROOT)), ast.parse(text)


def _is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.JoinedStr(values=parts):
            return all(map(_is_constant, parts))
        case ast.FormattedValue(value=value) | ast.Attribute(value=value) if _is_named(value):
            return not isinstance(node, ast.Attribute) or bool(_CONSTANT.fullmatch(node.attr))
        case ast.FormattedValue(value=value):
            return _is_constant(value)
        case ast.Name(id=name):
            return bool(_CONSTANT.fullmatch(name))
    return False


def _is_named(node: ast.expr) -> bool:
    """Whether it is the module of names and paths, whose own names are all constants."""
    return isinstance(node, ast.Name) and node.id == "layout"


def _strangers(tree: ast.Module) -> Iterator[str]:
    """Scripts that are made in a function, when values are there, of more than constants."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                is_script = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Script"
                if is_script and not all(map(_is_constant, node.args)):
                    yield ast.unparse(node)


def test_no_script_is_made_of_a_value() -> None:
    found = {f"{name}: {text}" for name, tree in _sources(r"\bScript\(") for text in _strangers(tree)}
    assert found == _TYPED


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("def f(x): Script('true')", False),
        ("def f(x): Script(f'cat {layout.ETC}/{_NAME}')", False),
        ("_S = Script('\\n'.join(line for line in layout.RUN_WITH))", False),
        ("def f(x): Script(f'cat {x}')", True),
        ("def f(x): Script('cat ' + x)", True),
        ("f = lambda x: Script('cat {}'.format(x))", True),
        ("def f(x): Script(x.PORT)", True),
    ],
)
def test_a_value_in_a_script_is_seen(source: str, refused: bool) -> None:
    assert bool(list(_strangers(ast.parse(source)))) is refused


def test_shells_are_started_in_these_files_only() -> None:
    found = set()
    for name, tree in _sources(r"sh[\"']|\bshell|popen|\bsystem\b"):
        for node in ast.walk(tree):
            match node:
                case ast.List(elts=[ast.Constant(value=str(program)), *_]) if program.endswith("sh"):
                    starts = program.rpartition("/")[2] in ("sh", "bash", "dash")
                case ast.List(elts=words):
                    starts = any(isinstance(word, ast.Constant) and word.value == "sh" for word in words)
                case ast.keyword(arg="shell") | ast.Attribute(attr="create_subprocess_shell" | "popen"):
                    starts = True
                case ast.Attribute(value=ast.Name(id="os"), attr="system"):
                    starts = True
                case _:
                    starts = False
            if starts:
                found.add(name)
    assert found == _SHELLS


def test_a_script_is_told_by_its_first_line_with_its_values() -> None:
    assert brief(Script('exec agent ctl "$@"'), ("readings", "a b")) == "agent ctl readings 'a b'"
    assert brief(Script("cat x\nrm y"), ()) == "cat x"
    assert brief(Script("cat " + 80 * "x"), ()) == "cat " + 53 * "x" + "..."


def test_a_script_of_several_lines_says_in_the_first_what_it_does() -> None:
    assert brief(Script("# write a file\npath=$1\ncat >$path"), ("/etc/x",)) == "write a file"
    begins = {
        f"{name}: {text}"
        for name, tree in _sources(r"\bScript\(f?r?\"\"\"")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Script"
        if isinstance(node.args[0], ast.Constant | ast.JoinedStr)
        for text in [ast.unparse(node.args[0]).lstrip("rf'\"").replace("\\n", "\n").lstrip()]
        if "\n" in text and not text.startswith("# ")
    }
    assert begins == set()


def test_sudo_answers_in_english_under_every_locale(tmp_path: Path) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text(
        '#!/bin/sh\n[ "$LC_ALL$LANGUAGE" = C.UTF-8 ] || { echo "sudo: wymagane haslo"; exit 1; }\n'
        'shift; exec "$@"\n'
    )
    sudo.chmod(0o755)
    words = shell_words(Script('echo "$1"'), ("done",), root=True, sudo=NO_PASSWORD)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LC_ALL": "pl_PL.UTF-8", "LANGUAGE": "pl"}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "done\n")
