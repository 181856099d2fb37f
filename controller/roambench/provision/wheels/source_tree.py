"""The source tree that this program runs from: what hosts get is built from it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from roambench.contract.errors import ConfigError


def source_root() -> Path:
    """The folder with pyproject.toml; ConfigError where roambench was installed without its sources."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "pyproject.toml").is_file():
        raise ConfigError(
            [
                "hosts get the agent built from roambench's source tree, and this installation has none: "
                "clone the repository and make setup in it"
            ]
        )
    return root


def base_requirements(root: Path) -> list[str]:
    """Requirements of an agent: the project's dependencies without extras."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [str(requirement) for requirement in project["dependencies"]]
