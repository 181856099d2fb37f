"""Benches for mobile federated learning that account for every joule.

`import roambench as rb` is the Python API (`roambench.api`, docs/python.md). Nothing of it is loaded before
it is used.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roambench.api import compare, load, run, sweep
    from roambench.contract import __version__

__all__ = ["__version__", "compare", "load", "run", "sweep"]

_ROOT = os.path.dirname(os.path.dirname(__path__[0]))  # noqa: PTH120 - pathlib takes longer than all the rest
# In a source tree the package has three folders, in a wheel one (docs/decisions/0008).
__path__ += [
    folder
    for part in ("agent", "controller")
    if os.path.isdir(folder := os.path.join(_ROOT, part, "roambench"))  # noqa: PTH112, PTH118
]

#: The modules of the extra controller, as pyproject.toml names their packages.
_CONTROLLER = (
    "fabric",
    "hatchling",
    "jinja2",
    "packaging",
    "paramiko",
    "plotly",
    "pyarrow",
    "pydantic",
    "rich",
    "sklearn",
    "scipy",
    "starlette",
    "tomlkit",
    "typer",
    "uvicorn",
)


def __getattr__(name: str) -> Any:
    """A name of the API or the version, looked up when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module
    from importlib.util import find_spec

    if name == "__version__":
        return import_module("roambench.contract").__version__
    if lacking := [package for package in _CONTROLLER if find_spec(package) is None]:
        raise ModuleNotFoundError(
            f"roambench.{name} needs the extra controller, and {lacking[0]} of it is not installed: "
            f"{import_module('roambench.contract.extra_packages').install_command('controller')}",
            name=lacking[0],
        )
    return getattr(import_module("roambench.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
