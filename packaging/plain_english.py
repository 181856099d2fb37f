"""Check the words of the source, its messages and the pages: a part of `make check`.

A line that needs one of the words (a quotation, a name of others) ends with `words: excused`. Docstrings
begin with a verb or a noun, never with a word that asks.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = re.compile(
    r"\b(?:nobody|whoever|somebody|anybody|told|anew|bears? out|in vain|left behind|thrown away"
    r"|of (?:its|their|his|her) own|whatever|(?<!as )so (?:long|many)(?! as))\b",
    re.IGNORECASE,
)
ASKING = frozenset(
    (
        "As",
        "How",
        "Of",
        "What",
        "Whatever",
        "When",
        "Where",
        "Whether",
        "Which",
        "Who",
        "Whoever",
        "Whom",
        "Whose",
        "Why",
    )
)
CHECKED = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "agent",
    "controller",
    "docs",
    "inventory",
    "protos",
)
#: Text of a program that says "1 hosts": `count` of roambench.contract.counts knows better.
PLURALS = re.compile(
    r"(?<!of )\{len\([^{}]*\)(?::,)?\} (?:agent|board|device|host|meter|point|run|spare|step|wheel)s\b"
)
SUFFIXES = frozenset((".css", ".html", ".js", ".md", ".proto", ".py", ".toml"))
EXCUSED = "words: excused"


def files() -> Iterator[Path]:
    """Yield the committed files whose words are checked; generated stubs are not."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *CHECKED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        path = ROOT / name
        if name.startswith("docs/images/"):  # of `make pictures`
            continue
        if path.suffix in SUFFIXES and not name.endswith("_pb2.py") and path.is_file():
            yield path


def words_in(path: Path, text: str) -> Iterator[str]:
    """Yield a line for each word of the list."""
    for number, line in enumerate(text.splitlines(), 1):
        if EXCUSED not in line:
            for match in WORDS.finditer(line):
                yield f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: {line.strip()[:90]}"


def plurals_in(path: Path, text: str) -> Iterator[str]:
    """Yield a line for each number of things that is wrong of a single one."""
    for number, line in enumerate(text.splitlines(), 1):
        if EXCUSED not in line and (match := PLURALS.search(line)):
            yield f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: use count() of roambench.contract.counts"


def docstrings_in(path: Path, text: str) -> Iterator[str]:
    """Yield a line for each docstring that begins with a word that asks."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").split(maxsplit=1)[:1]
            if first and first[0] in ASKING:
                number = node.body[0].lineno
                yield f"{path.relative_to(ROOT)}:{number}: docstring begins with {first[0]!r}"


def main() -> int:
    """Print every line that needs other words; 1 where there is one."""
    found: list[str] = []
    for path in files():
        text = path.read_text("utf-8")
        found += words_in(path, text)
        if path.suffix == ".py":
            found += plurals_in(path, text)
            found += docstrings_in(path, text)
    print("\n".join(found), end="\n" if found else "")
    print(f"{len(found)} lines need plain words", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
