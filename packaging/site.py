"""The pages as a site: `make docs` runs this in the checkout.

mkdocs wants its pages in one folder apart from everything else. It gets links to ours, each where it lies in
the repository, so that the links between pages are the same in both. A page's marker is replaced by what the
code says.
"""

from __future__ import annotations

import html
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ROOT / "build" / "pages"
INDEX: Final = ROOT / "docs" / "README.md"
#: What pages may lead to, besides docs/.
SHOWN: Final = (
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "SECURITY.md",
    "benchmarks/README.md",
    "experiments/*.toml",
    "firmware_notes/**/*.*",
    "inventory/*.*",
)
#: Beside this file, named in mkdocs.yml: what the search runs in when pages lie in a folder; a style sheet.
ASSETS: Final = ("iframe-worker/shim.js", "site.css")
_ENTRY: Final = re.compile(r"^( *)- (?:\[(.+)\]\(([^)#]+)\)|(.+))$")


def entries(index: str) -> list[dict[str, Any]]:
    """mkdocs' `nav` of the lists of docs/README.md: chapters, in them pages or groups of pages."""
    nav: list[dict[str, Any]] = [{"All pages": "docs/README.md"}]
    chapter: list[Any] = []
    group: list[Any] = []
    for line in index.splitlines():
        if line.startswith("## "):
            chapter = []
            nav.insert(len(nav) - 1, {line.removeprefix("## "): chapter})
        elif entry := _ENTRY.match(line):
            indent, title, path, name = entry.groups()
            if name:
                group = []
                chapter.append({name: group})
            else:
                page = os.path.normpath(f"docs/{path}")
                (group if indent else chapter).append({title: page})
    return nav


def command_line() -> str:
    """Every command with its arguments and options, by typer."""
    made = subprocess.run(
        [sys.executable, "-m", "typer", "roambench.cli.main", "utils", "docs", "--name", "roambench"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1"},
    )
    _, _, commands = made.stdout.partition("\n## `roambench ")
    return re.sub(r"&#x27;", "'", f"## `roambench {commands}")


def python_names(*modules: str) -> str:
    """Every public name of each module, its `__all__` or else its classes, with signature and docstring."""
    parts = []
    for module in modules:
        library = importlib.import_module(module)
        own = [name for name, it in vars(library).items() if inspect.isclass(it) and it.__module__ == module]
        for name in getattr(library, "__all__", [name for name in own if not name.startswith("_")]):
            parts += _thing(module, name, getattr(library, name))
    return "\n".join(parts)


def _thing(module: str, name: str, thing: Any) -> list[str]:
    parts = [_entry(f"{module}.{name}", thing, "##")]
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            value = inspect.unwrap(value.fget) if isinstance(value, property) and value.fget else value
            if not member.startswith("_") and inspect.isroutine(value) and inspect.getdoc(value):
                parts.append(_entry(f"{name}.{member}", value, "###"))
    return parts


def _entry(name: str, thing: Any, heading: str) -> str:
    try:
        signature = str(inspect.signature(thing)) if callable(thing) else ""
    except ValueError:
        signature = ""
    text = html.escape(inspect.getdoc(thing) or "", quote=False)
    return f"{heading} `{name}`\n\n```python\n{name}{signature}\n```\n\n{text}\n"


#: Whose public names docs/python.md lists.
_API: Final = ("recorded_run", "run_set", "comparison", "finished_sweep")
PYTHON: Final = ("roambench.api", *(f"roambench.api.{name}" for name in _API))
#: Marker of a page -> what stands in its place on the site.
GENERATED: Final = {
    "<!-- made by typer -->": command_line,
    "<!-- made of docstrings -->": lambda: python_names(*PYTHON),
}


def lay_out() -> None:
    """Fill build/pages: links to what is shown, and the pages whose markers are filled in."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shown = {path for pattern in SHOWN for path in ROOT.glob(pattern)}
    shown |= {path for path in (ROOT / "docs").rglob("*") if "grafana" not in path.parts}
    for asset in ASSETS:
        (PAGES / asset).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / asset).symlink_to(ROOT / "packaging" / asset)
    for path in sorted(path for path in shown if path.is_file()):
        there = PAGES / path.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text("utf-8") if path.suffix == ".md" else ""
        found = [marker for marker in GENERATED if f"\n{marker}\n" in text]
        if not found:
            there.symlink_to(path)
            continue
        for marker in found:
            text = text.replace(marker, GENERATED[marker]())
        there.write_text(text, "utf-8")


def on_config(config: Any) -> Any:
    """Take the order of pages from docs/README.md. mkdocs calls it (`hooks` in mkdocs.yml)."""
    config.nav = entries(INDEX.read_text("utf-8"))
    return config


if __name__ == "__main__":
    lay_out()
