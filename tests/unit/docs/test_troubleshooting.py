"""docs/troubleshooting.md quotes messages that the program really prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
QUOTED = re.findall(r"^\| `([^`]+)` \|", PAGE, re.M)


@pytest.fixture(scope="module")
def source() -> str:
    """All code, string literals that follow each other as one."""
    folders = (ROOT / name / "roambench" for name in ("agent", "controller", "protos"))
    code = "\n".join(path.read_text("utf-8") for folder in folders for path in sorted(folder.rglob("*.py")))
    return re.sub(r'"\s*\n\s*f?"', "", code)


def test_the_page_quotes_messages() -> None:
    assert len(QUOTED) > 20
    assert sorted(QUOTED) == sorted(set(QUOTED))


@pytest.mark.parametrize("message", QUOTED)
def test_the_message_is_in_the_program(message: str, source: str) -> None:
    parts = [part.strip() for part in message.split("…") if part.strip()]
    assert parts
    assert [part for part in parts if part not in source] == []
