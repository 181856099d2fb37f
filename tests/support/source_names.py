"""Names that pages of documentation give to parts of the source, without the leading `roambench.`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("protos", "agent", "controller")


def packages() -> set[str]:
    """The packages of roambench, whatever folder they lie in."""
    inits = (path for part in PARTS for path in (ROOT / part / "roambench").glob("*/__init__.py"))
    return {path.parent.name for path in inits}


def module_of(name: str) -> Path | None:
    """The file of `package.module`, `package.module.Class` and so on; a package's is its `__init__.py`."""
    words = name.split(".")
    for depth in range(len(words), 0, -1):
        for part in PARTS:
            path = ROOT.joinpath(part, "roambench", *words[:depth])
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file():
                    return file
    return None


def public_classes() -> dict[str, list[str]]:
    """The files, below their part's folder, that define a public class of each name."""
    found: dict[str, list[str]] = {}
    for part in PARTS:
        for path in sorted((ROOT / part / "roambench").rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(path.relative_to(ROOT / part).as_posix())
    return found


def is_there(name: str) -> bool:
    """Whether the source has the package or module, and in it every class, method or function of the name."""
    file = module_of(name)
    if file is None:
        return False
    path = file.parent if file.name == "__init__.py" else file.with_suffix("")
    depth = len(path.parts) - path.parts.index("roambench", len(ROOT.parts)) - 1
    nodes = ast.parse(file.read_text("utf-8")).body
    for word in name.split(".")[depth:]:
        found = [
            node
            for node in nodes
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == word
        ]
        if not found:
            return False
        nodes = found[0].body
    return True
