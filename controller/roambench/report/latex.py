"""Text as LaTeX writes it."""

from __future__ import annotations

from typing import Final

_SIGNS: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "–": "--",
    "×": r"$\times$",
}


def latex_text(text: str) -> str:
    """The text with every sign that LaTeX reads as something else, or not at all, as a command."""
    return "".join(_SIGNS.get(sign, sign) for sign in text)
