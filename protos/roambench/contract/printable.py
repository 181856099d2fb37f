"""A host's text made safe for a terminal: a board that was taken over must not steer it."""

from __future__ import annotations


class _Letters(dict[int, str]):
    def __missing__(self, code: int) -> str:
        letter = chr(code)
        self[code] = letter if letter.isprintable() else " " if letter in "\t\n" else "?"
        return self[code]


_LETTERS = _Letters()


def printable(text: str) -> str:
    """One line; escape sequences and other control characters become question marks, a tab a blank."""
    return text if text.isprintable() else text.translate(_LETTERS)
