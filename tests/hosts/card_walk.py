"""docs/start/from-card-to-report.md as what it tells a stranger to type."""

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
PAGE: Final = ROOT / "docs" / "start" / "from-card-to-report.md"
_BLOCK: Final = re.compile(r"^```(console|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Walked:
    """What the page's first provisioning said, and what was on the hosts before it."""

    said: Said
    before: dict[str, Footprint]


def card_page() -> str:
    """The page's text."""
    return PAGE.read_text()


def card_page_lines(*kinds: str) -> list[str]:
    """The lines to type of its blocks of these kinds ("console": those after "$ "; "sh": all), in order."""
    lines = []
    for kind, text in _BLOCK.findall(card_page()):
        if kind in kinds:
            mark = "$ " if kind == "console" else ""
            lines += [line.removeprefix(mark) for line in text.splitlines() if line.startswith(mark)]
    return lines


def card_page_commands(bench: Path) -> list[list[str]]:
    """Words of every `$ roambench ...` line of the page, in order, for `bench` instead of its example."""
    commands = [shlex.split(line.replace(BENCH, str(bench))) for line in card_page_lines("console")]
    assert all(words[0] == "roambench" for words in commands)
    return [words[1:] for words in commands]
