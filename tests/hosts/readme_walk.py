"""The README's bench chapter as what it tells a stranger to type."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hosts.lab.cli import Said
from hosts.lab.footprint import Footprint

ROOT = Path(__file__).resolve().parents[2]
PROVISION = ("fleet", "provision")
BENCH: Final = "inventory/bench.toml"
_CHAPTER = "## A bench of real boards"
_BLOCK: Final = re.compile(r"^```(console|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Walked:
    """What the chapter's first provisioning said, and what was on the hosts before it."""

    said: Said
    before: dict[str, Footprint]


def bench_chapter() -> str:
    """The chapter's text."""
    return (ROOT / "README.md").read_text().partition(_CHAPTER)[2].partition("\n## ")[0]


def bench_chapter_lines(*kinds: str) -> list[str]:
    """The lines to type of its blocks of these kinds ("console": those after "$ "; "sh": all), in order."""
    lines = []
    for kind, text in _BLOCK.findall(bench_chapter()):
        if kind in kinds:
            mark = "$ " if kind == "console" else ""
            lines += [line.removeprefix(mark) for line in text.splitlines() if line.startswith(mark)]
    return lines


def bench_chapter_commands(bench: Path) -> list[list[str]]:
    """Words of every `$ roambench ...` line of the chapter, in order, for `bench` instead of its example."""
    commands = [shlex.split(line.replace(BENCH, str(bench))) for line in bench_chapter_lines("console")]
    assert all(words[0] == "roambench" for words in commands)
    return [words[1:] for words in commands]
