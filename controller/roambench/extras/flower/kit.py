"""The kit of a Flower app for boards: its files, flwr, and what the app imports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from roambench.extras.flower.app import read_app
from roambench.provision.wheels.program_kit import KitSpec, ProgramKit, packed

#: What Flower puts in the bundle of an app.
_SUFFIXES: Final = (".py", ".toml", ".md", ".yaml", ".yml", ".json", ".jsonl")
#: Folders that are made here and are no part of an app: ours of runs, and those of its builds.
_NOT_OURS: Final = ("__pycache__", "build", "dist", "env", "lib", "lib64", "runs", "venv")
#: What a ClientApp loads of flwr's own needs; services, command line and their databases are left out.
_ROOTS: Final = (
    *("flwr", "click", "cryptography", "grpcio", "httpx", "iterators", "numpy", "packaging", "protobuf"),
    *("pycryptodome", "requests", "rich", "tomli", "tomli-w", "typer"),
)
_CHECK: Final = """\
import os, sys
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_HOME"] = os.path.join(os.getcwd(), "flwr")
from flwr.clientapp.client_app import LoadClientAppError
from flwr.supercore.object_ref import load_app
try:
    load_app({clientapp!r}, LoadClientAppError, sys.argv[1])
except Exception as error:
    why = error.__cause__ or error
    sys.exit(f"{{type(why).__name__}}: {{why}}")
"""


def kit_of_app(folder: Path) -> ProgramKit:
    """The kit of the app in the folder. ConfigError for what is no app."""
    app = read_app(folder, {})
    spec = KitSpec(
        program="flower",
        name=app.name,
        version=app.version,
        roots=(*_ROOTS, *app.requires),
        alone=("flwr",),
        lock="packaging/flower.txt",
        check=_CHECK.format(clientapp=app.clientapp),
    )
    return ProgramKit(spec, packed(app.folder, _files(app.folder)))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir() and path.name not in _NOT_OURS and not (path / "pyvenv.cfg").exists():
            yield from _files(path)
        elif path.is_file() and (path.suffix in _SUFFIXES or path.name == "LICENSE"):
            yield path
