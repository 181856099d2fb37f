"""The README's bench chapter as what it tells a stranger to type."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from hosts.lab.cli import Said
from hosts.lab.footprint import Footprint

ROOT = Path(__file__).resolve().parents[2]
PROVISION = ("fleet", "provision")
_CHAPTER = "## A bench of real boards"
_BENCH = "inventory/bench.toml"


@dataclass(frozen=True, slots=True)
class Walked:
    """What the chapter's first provisioning said, and what was on the hosts before it."""

    said: Said
    before: dict[str, Footprint]


def bench_chapter_commands(bench: Path) -> list[list[str]]:
    """Words of every `$ roambench ...` line of the chapter, in order, for `bench` instead of its example."""
    text = (ROOT / "README.md").read_text()
    chapter = text.partition(_CHAPTER)[2].partition("\n## ")[0]
    lines = [line[2:] for line in chapter.splitlines() if line.startswith("$ ")]
    commands = [shlex.split(line.replace(_BENCH, str(bench))) for line in lines]
    assert all(words[0] == "roambench" for words in commands)
    return [words[1:] for words in commands]
