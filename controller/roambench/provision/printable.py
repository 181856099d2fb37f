"""What a host says, for a terminal: a board that was taken over must not steer it."""

from __future__ import annotations


def printable(text: str) -> str:
    """One line; escape sequences and other control characters become question marks, a tab a blank."""
    return "".join(letter if letter.isprintable() else " " if letter in "\t\n" else "?" for letter in text)
