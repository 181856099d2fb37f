"""A report's page beside the same page made from the records: every text, tag and number that it shows."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

from roambench.report.report import Report
from roambench.runner.checking.findings import CheckFinding, CheckOutcome, compared, differing_values
from roambench.runs.database import naming

_DATA_ID: Final = "report-data"
_GZIP: Final = 31  # zlib's window bits for a gzip header
_ALWAYS_BYTES: Final = 1 << 20


def check_page(path: Path, made: Report, folder: Path) -> CheckFinding:
    """The finding on the page in a file that should be that of the report of runs below a `folder`.

    A page of another version, which words and draws things otherwise, cannot be checked.
    """
    text = made.html()
    most = 4 * len(text.encode(errors="backslashreplace")) + _ALWAYS_BYTES
    with naming(path):
        if path.stat().st_size > most:
            size = f"{path.stat().st_size:,} bytes; the page of these runs has {len(text):,}"
            return CheckFinding(path.name, CheckOutcome.DIFFERS, (size,))
        recorded = _Page(path.read_text("utf-8", errors="replace"), most)
    now = _Page(text, most, f"{folder}/runs/")
    wrong = list(_differences(recorded, now))
    if wrong and recorded.generator != now.generator:
        reason = f"made by {recorded.generator or 'an older version'}, checked with {now.generator}"
        return CheckFinding(path.name, CheckOutcome.NOT_CHECKED, (reason, *compared("", wrong).texts))
    return compared(path.name, wrong, "it shows what the records give")


def order_in(path: Path, labels: Sequence[str]) -> list[int]:
    """The positions of these labels of runs, ordered as the page in a file first names them."""
    with naming(path):
        names = re.findall(r'<h3>([^<]*)<span class="state', path.read_text("utf-8", errors="replace"))
    names = [html.unescape(name) for name in names]
    return sorted(range(len(labels)), key=lambda at: names.index(labels[at]) if labels[at] in names else at)


class _Page(HTMLParser):
    """A page as a browser reads it: `parts` in order, and `data` of its figures."""

    def __init__(self, text: str, most: int, left_out: str = "") -> None:
        super().__init__()
        self.parts: list[str] = []
        self.data: Any = None
        self.generator = ""
        self._most, self._left_out, self._of_data = most, left_out, False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "meta" and given.get("name") == "generator":
            self.generator = given.get("content") or ""
            return
        self._of_data = given.get("id") == _DATA_ID and self.data is None
        self._add(f"<{tag}{''.join(f' {name}={value}' for name, value in attrs)}>")

    def handle_endtag(self, tag: str) -> None:
        self._add(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._of_data and data.strip():
            self.data, self._of_data = self._unpacked(data), False
        elif data.strip():
            self._add(data)

    def handle_comment(self, data: str) -> None:
        self._add(f"<!--{data}-->")

    def _add(self, part: str) -> None:
        self.parts.append(part.replace(self._left_out, "runs/") if self._left_out else part)

    def _unpacked(self, packed: str) -> Any:
        try:
            unpacker = zlib.decompressobj(_GZIP)
            text = unpacker.decompress(base64.b64decode(packed), 16 * self._most).decode()
            text += "" if unpacker.eof else "more than a page holds"
            return json.loads(text.replace(self._left_out, "runs/") if self._left_out else text)
        except (ValueError, zlib.error, RecursionError):
            return f"no data of figures: {packed[:40]}"


def _differences(recorded: _Page, now: _Page) -> Iterator[str]:
    left, right = recorded.parts, now.parts
    first = next((at for at, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), None)
    if first is None and len(left) != len(right):
        first = min(len(left), len(right))
    if len(left) == len(right):
        for at, pair in enumerate(zip(left, right, strict=True)):
            yield from differing_values(*pair, _heading(right, at))
    elif first is not None:
        yield from differing_values(left[first : first + 1], right[first : first + 1], _heading(right, first))
        yield f"{len(left):,} texts and tags; the records give {len(right):,}"
    yield from differing_values(recorded.data, now.data, "figures")


def _heading(parts: Sequence[str], at: int) -> str:
    """The text before this part."""
    before = (part.strip() for part in reversed(parts[max(0, at - 40) : at]) if not part.startswith("<"))
    return f"after {next(before, 'the beginning')[:60]!r}"
