"""A person with a checkout, the bench's key and a terminal, and nothing else, who types what a page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CHECKOUT: Final = Path(__file__).resolve().parents[3]
#: What make leaves in a checkout's first folder, what a bench keeps beside its description, and caches.
_MADE: Final = {".git", ".venv", "runs", "build", "dist", ".hypothesis"}
_CONTROLS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


@dataclass(frozen=True, slots=True)
class Typed:
    """A line, and what came of it: all that the terminal showed is in `shown`."""

    line: str
    code: int
    seconds: float
    shown: str


def _left_out(folder: str, names: list[str]) -> set[str]:
    made = _MADE if Path(folder) == _CHECKOUT else set()
    caches = {name for name in names if name == "__pycache__" or name.endswith("_cache")}
    return made | caches | {name for name in names if name.startswith(".bench") or name == "bench.toml"}


class Typing:
    """A line that was typed and goes on: `kept` has what the terminal shows."""

    def __init__(self, line: str, kept: Path, process: subprocess.Popen[bytes]) -> None:
        self._line, self._kept, self._process = line, kept, process
        self._began_s = time.monotonic()

    def shown(self) -> str:
        """All of it so far, without colours."""
        return _CONTROLS.sub("", self._kept.read_text(errors="replace")) if self._kept.exists() else ""

    def shows(self, pattern: str, patience_s: float) -> re.Match[str]:
        """Wait until the terminal shows such text."""
        deadline_s = time.monotonic() + patience_s
        while (found := re.search(pattern, self.shown())) is None:
            assert self._process.poll() is None, self.shown()
            assert time.monotonic() < deadline_s, f"no {pattern}: {self.shown()}"
            time.sleep(0.1)
        return found

    def ctrl_c(self) -> None:
        """On the keyboard: the terminal makes a signal of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\x03")
        self._process.stdin.flush()

    def ended(self, patience_s: float) -> Typed:
        """Wait for its end."""
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self._line}: no end after {patience_s:.0f} s:\n{self.shown()}") from None
        finally:
            self._process.kill()
            self._process.communicate()
        return Typed(self._line, self._process.returncode, time.monotonic() - self._began_s, self.shown())


class Stranger:
    """`folder` gets the home, the checkout, what stands for /media and the output of each line, by number.

    The checkout's .venv is its own and has roambench from this checkout; the other packages in it are those
    of the environment that tests run in: `make setup` would fetch the same ones, 1.6 GB, again.
    """

    def __init__(self, folder: Path, key: Path) -> None:
        self.home, self.checkout, self.media = folder / "home", folder / "roambench", folder / "media"
        self._told = folder / "told"
        for place in (self.home / ".ssh", self.media, self._told):
            place.mkdir(parents=True, mode=0o700)
        shutil.copy(key, self.home / ".ssh" / "bench36")
        self.typed: list[Typed] = []
        self._lines = 0
        shutil.copytree(_CHECKOUT, self.checkout, ignore=_left_out, symlinks=True)
        subprocess.run([sys.executable, "-m", "venv", self.checkout / ".venv"], check=True)
        others = next(self.checkout.glob(".venv/lib/*/site-packages")) / "others.pth"
        others.write_text(f"{sysconfig.get_path('purelib')}\n")
        pip = [
            ".venv/bin/python",
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-e",
            ".",
        ]
        subprocess.run(pip, cwd=self.checkout, env=self._environment(), check=True)

    def types(self, line: str, patience_s: float = 300.0) -> Typed:
        """Type `line` and wait for its end."""
        self.typed.append(self.begins(line).ended(patience_s))
        return self.typed[-1]

    def begins(self, line: str) -> Typing:
        """Type `line` in the checkout, in a shell on a terminal, with the media where they are mounted."""
        self._lines += 1
        kept = self._told / f"{self._lines:02d}.txt"
        mounted = 'mount --bind "$0" /media && exec script -qefc "$1" "$2"'
        process = subprocess.Popen(
            [
                "env",
                "--default-signal=INT",
                "unshare",
                "--mount",
                "/bin/sh",
                "-ec",
                mounted,
                self.media,
                line,
                kept,
            ],
            cwd=self.checkout,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        return Typing(line, kept, process)

    def table(self) -> str:
        """What was typed and how long each line took."""
        rows = [f"{one.seconds:8.1f} s  exit {one.code}  {one.line}" for one in self.typed]
        return "\n".join([*rows, f"{sum(one.seconds for one in self.typed):8.1f} s  in all"])

    def _environment(self) -> dict[str, str]:
        """A login's own, and where pip gets packages on this machine."""
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {
            **pip,
            "HOME": str(self.home),
            "USER": "anna",
            "PATH": path,
            "SHELL": "/bin/bash",
            "TERM": "xterm-256color",
            "LANG": "de_CH.UTF-8",
            "COLUMNS": "200",
        }
