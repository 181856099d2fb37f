"""A Flower app's project: its two halves, its run config, and the interpreter that has flwr."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from roambench.contract.errors import ConfigError
from roambench.contract.extra_packages import install_command
from roambench.written.mistakes import did_you_mean

ConfigValue = bool | int | float | str

#: The first and the last release of flwr that tests ran with.
TESTED: Final = ((1, 32), (1, 42))
#: The key by which Flower's own templates say how many rounds they have.
ROUNDS: Final = "num-server-rounds"
_PROJECT: Final = "pyproject.toml"
_VERSION: Final = "import importlib.metadata as m; print(m.version('flwr'))"


@dataclass(frozen=True, slots=True)
class FlowerApp:
    """An app in `folder`: the objects of its halves, "package.module:name", its run config, flat, and the
    requirements that its project names."""

    folder: Path
    name: str
    version: str
    requires: tuple[str, ...]
    serverapp: str
    clientapp: str
    run_config: Mapping[str, ConfigValue]


def read_app(folder: Path, settings: Mapping[str, Any]) -> FlowerApp:
    """The app in the folder, its run config changed by `settings`. ConfigError says what is missing."""
    file = folder / _PROJECT
    try:
        project = tomllib.loads(file.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError([f"{file}: expected a Flower app's project, {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: {error}"]) from None
    components = _table(project, "tool", "flwr", "app", "components")
    problems = [
        f"{file}: tool.flwr.app.components.{half}: expected package.module:name, got {components.get(half)!r}"
        for half in ("serverapp", "clientapp")
        if not isinstance(components.get(half), str) or components[half].count(":") != 1
    ]
    config = _flat(_table(project, "tool", "flwr", "app", "config"))
    for key, value in settings.items():
        if key not in config:
            known, hint = ", ".join(sorted(config)) or "no key at all", did_you_mean(key, list(config))
            problems.append(f"{file}: tool.flwr.app.config: expected {known}, got {key!r}{hint}")
        elif not isinstance(value, ConfigValue):
            problems.append(f"program.settings.{key}: expected a text, a number or a boolean, got {value!r}")
    if problems:
        raise ConfigError(problems)
    about = _table(project, "project")
    name, version, requires = (about.get(key) for key in ("name", "version", "dependencies"))
    return FlowerApp(
        folder.resolve(),
        name if isinstance(name, str) else folder.resolve().name,
        version if isinstance(version, str) else "0",
        tuple(str(need) for need in requires) if isinstance(requires, list) else (),
        components["serverapp"],
        components["clientapp"],
        {**config, **settings},
    )


def require_flwr(python: str) -> str:
    """The version of flwr that the interpreter has; ConfigError where it has none that is tested."""
    python = python or sys.executable
    try:
        done = subprocess.run(
            [python, "-c", _VERSION],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError([f"program.python: {python} cannot be started: {error}"]) from None
    version = done.stdout.strip()
    if done.returncode or not version:
        raise ConfigError([f"{python} has no flwr: {install_command('flower', python=python)}"])
    if not TESTED[0] <= Version(version).release[:2] <= TESTED[1]:
        first, last = (".".join(map(str, release)) for release in TESTED)
        raise ConfigError([f"flwr {version}: expected {first} to {last}, with which roambench is tested"])
    return version


def _table(values: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    found: Any = values
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, ConfigValue]:
    """Tables in tables as Flower has them: keys joined by dots."""
    found: dict[str, ConfigValue] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}.")
        elif isinstance(value, ConfigValue):
            found[f"{before}{key}"] = value
    return found
