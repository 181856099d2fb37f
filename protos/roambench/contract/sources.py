"""Marks of the code that runs: the source files of a top module, and the marks of this roambench."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.metadata import version
from pathlib import Path
from typing import Final

SUFFIXES: Final = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)
_OURS: Final = "roambench"
_DIGITS: Final = 16
_PATIENCE_S: Final = 10.0


def source_files(top: str) -> list[Path]:
    """Source files and extension modules of a top module, sorted; [] for what is built in or not there."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        origin = Path(spec.origin or "")
        return [origin] if origin.name.endswith(SUFFIXES) and origin.is_file() else []
    # A namespace has a folder on every entry of sys.path, and a folder may be there twice.
    folders = {Path(place).resolve() for place in spec.submodule_search_locations}
    return sorted(
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.name.endswith(SUFFIXES) and path.is_file()
    )


@cache
def own_code() -> Mapping[str, str]:
    """Marks that tell this roambench from every other: `version`; `code`, 16 digits of a SHA-256 over all its
    source files, the same in a source tree and in the wheel made of it; and where it runs from a git work
    tree the `commit`, with "+changes" where tracked files differ from it."""
    known = {"version": version(_OURS), "code": _code()}
    commit = _commit(Path(__file__).resolve().parents[3])
    return known | ({"commit": commit} if commit else {})


def _code() -> str:
    files = {path.as_posix().rpartition(f"/{_OURS}/")[2]: path for path in source_files(_OURS)}
    content = hashlib.sha256()
    for name in sorted(files):
        content.update(f"{name} ".encode() + hashlib.sha256(files[name].read_bytes()).digest())
    return content.hexdigest()[:_DIGITS]


def _commit(root: Path) -> str:
    """The mark of the work tree at `root`; "" where there is none or git does not say."""
    if not (root / ".git").exists():
        return ""

    def git(*words: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(root), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
        return done.stdout.strip()

    try:
        changes = "+changes" if git("status", "--porcelain", "--untracked-files=no") else ""
        return git("rev-parse", "HEAD") + changes
    except (OSError, subprocess.SubprocessError):
        return ""
