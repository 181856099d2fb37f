"""The `roambench` command as a person runs it, and its tables as a person reads them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_ROAMBENCH = Path(sys.executable).with_name("roambench")


@dataclass(frozen=True, slots=True)
class Said:
    """What a command ended with; printing it in an assertion tells what it said."""

    code: int
    out: str
    err: str

    def rows(self) -> dict[str, dict[str, str]]:
        """The last table it printed: first column -> heading -> cell, continuation lines joined."""
        headings: list[str] = []
        found: dict[str, dict[str, str]] = {}
        current = ""
        for line in self.out.splitlines():
            if "┃" in line and "━" not in line:
                headings = [cell.strip() for cell in line.strip("┃ \n").split("┃")]
                found = {}
            elif line.startswith("│"):
                cells = [cell.strip() for cell in line.strip().strip("│").split("│")]
                if cells[0]:
                    current = cells[0]
                    found[current] = dict.fromkeys(headings, "")
                for heading, cell in zip(headings, cells, strict=True):
                    before = found[current][heading]
                    found[current][heading] = f"{before} {cell}".strip()
        return found


def roambench(*words: object, timeout_s: float = 300.0, cwd: Path | None = None, **environment: str) -> Said:
    """Run `roambench WORDS` on a terminal wide enough for its tables, with more of an environment."""
    ended = subprocess.run(
        [str(_ROAMBENCH), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "300", "OMP_NUM_THREADS": "1", **environment},
        cwd=cwd,
        check=False,
    )
    return Said(ended.returncode, ended.stdout, ended.stderr)


def identified(*words: object) -> Said:
    """Run `roambench fleet identify ...`, up to four times while all that is wrong is "ambiguous".

    On a machine that others keep busy, their work may move a second emulated meter.
    """
    for _ in range(4):
        said = roambench(*words, timeout_s=500.0)
        wrong = re.findall(r"^\S+: ([a-z ]+): ", said.out, re.MULTILINE)
        if set(wrong) != {"ambiguous"}:
            break
    return said
