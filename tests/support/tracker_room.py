"""Environments for libraries that are too big to stand in everybody's: all of ours, and they."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class TrackerRoom:
    """Python with MLflow's and Weights & Biases' clients; `make build/trackers`."""

    bin = ROOT / "build/trackers/bin"

    def run(self, *command: Any, cwd: Path, home: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A command of the environment's own programs, to its end."""
        return subprocess.run(
            [self.bin / command[0], *map(str, command[1:])],
            cwd=cwd,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "HOME": str(home or cwd)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def roambench(self, *arguments: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
        """`roambench` with these libraries."""
        return self.run("python", "-m", "roambench.cli.main", *arguments, cwd=cwd)


class NewRoom(TrackerRoom):
    """Python in `path` with `extras` of pyproject.toml and with `more` installed."""

    def __init__(self, path: Path, *extras: str, more: tuple[str, ...] = ()) -> None:
        self.bin = path / "bin"
        subprocess.run([sys.executable, "-m", "venv", path], check=True, timeout=300)
        (found,) = path.glob("lib/python*/site-packages")
        ours = sysconfig.get_path("purelib")  # with what its own .pth files name: roambench of a source tree
        (found / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        wanted = [text for extra in extras for text in project["optional-dependencies"][extra]]
        pip = [self.bin / "pip", "install", "-q", "--disable-pip-version-check", *wanted, *more]
        subprocess.run(pip, check=True, timeout=280, stderr=subprocess.DEVNULL)
