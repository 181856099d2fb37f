"""Numbers of things as text: 1 host, 12 hosts."""

from __future__ import annotations


def count(value: int, one: str) -> str:
    """1 step, 12 steps."""
    return f"{value:,} {one}" if value == 1 else f"{value:,} {one}s"
