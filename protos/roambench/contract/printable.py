"""Foreign text made safe for a terminal: a board that was taken over, a file or a trace must not steer it.

Two doors. What is kept of a foreign word (an answer, an event, a mistake in a file) becomes one line by
`printable`. Everything that a command prints passes `for_terminal`.
"""

from __future__ import annotations

import re
from typing import Final

#: Control characters but for tab and line feed; what separates lines and paragraphs, or sets the direction of
#: writing; halves of surrogate pairs. A carriage return may stand before a line feed.
_STEERING: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)


class _Letters(dict[int, str]):
    def __missing__(self, code: int) -> str:
        letter = chr(code)
        self[code] = letter if letter.isprintable() else " " if letter in "\t\n" else "?"
        return self[code]


_LETTERS = _Letters()


def printable(text: str) -> str:
    """One line; escape sequences and other control characters become question marks, a tab a blank."""
    return text if text.isprintable() else text.translate(_LETTERS)


def for_terminal(text: str) -> str:
    """Lines as they are; a character that would steer the terminal is written as JSON writes it (`\\u001b`):
    a JSON document stays the same document."""
    return text if text.isprintable() else _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
