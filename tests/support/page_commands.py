"""The files and commands that a page of docs/ shows, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class PageCommands:
    """Of `page` below the repository: `files` by name, and `commands`, each with the lines shown below it."""

    def __init__(self, page: str) -> None:
        self.files: dict[str, str] = {}
        self.commands: list[tuple[str, list[str]]] = []
        for language, title, content in _FENCE.findall((ROOT / page).read_text("utf-8")):
            if title:
                self.files[title] = content
            if language == "console":
                for line in content.splitlines():
                    if line.startswith("$ "):
                        self.commands.append((line[2:], []))
                    else:
                        self.commands[-1][1].append(line)
