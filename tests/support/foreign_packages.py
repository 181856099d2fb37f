"""Packages as strangers write them: a real wheel, built and installed by pip, and real commands."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import forked_commands


def install(
    folder: Path,
    files: Mapping[str, str],
    entry_points: Mapping[str, Mapping[str, str]],
    package: str = "pocket_bench",
) -> Path:
    """Build `package` 0.1 from `files` and install it as pip does; the folder that holds it."""
    source, target = folder / "source", folder / "site"
    pyproject = (
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        f'[project]\nname = "{package.replace("_", "-")}"\nversion = "0.1"\n'
        f'[tool.hatch.build.targets.wheel]\npackages = ["{package}"]\n'
    )
    for group, points in entry_points.items():
        pyproject += f'[project.entry-points."{group}"]\n'
        pyproject += "".join(f'{name} = "{value}"\n' for name, value in points.items())
    for name, text in {"pyproject.toml": pyproject, f"{package}/__init__.py": "", **files}.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--disable-pip-version-check", "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@contextmanager
def importable(site: Path) -> Iterator[Path]:
    """While the body runs, this process finds the package in `site`, and none of the same name that another
    test had imported."""
    _forget()
    sys.path.insert(0, str(site))
    try:
        yield site
    finally:
        sys.path.remove(str(site))
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pocket_bench"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def roambench(folder: Path, *arguments: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`roambench` in `folder`, as a user of an environment that has `site` runs it."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    if site is not None:
        environment["PYTHONPATH"] = str(site)
    return forked_commands.roambench(*arguments, cwd=folder, env=environment)
