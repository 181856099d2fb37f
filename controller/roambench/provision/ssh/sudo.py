"""The password of sudo on hosts that want one: typed once for a command, in this process's memory alone."""

from __future__ import annotations

from typing import Final

from roambench.provision.ssh.script import Script

#: Exit code 0 if sudo makes us root.
TRY: Final = Script("true")
_KEPT: Final[list[str]] = []


def keep_password(text: str) -> None:
    """Use it from now on, on each host whose sudo wants one."""
    _KEPT[:] = [text]


def password_line() -> bytes:
    """Return the password as sudo reads it; empty where none was typed."""
    return f"{_KEPT[0]}\n".encode() if _KEPT else b""
