"""A boot partition of Raspberry Pi OS as it was flashed: which release it is, and what is there already."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.extras.first_boot.bookworm import SCRIPT
from roambench.extras.first_boot.cmdline import read_cmdline
from roambench.extras.first_boot.trixie import FILES, is_shipped_or_ours

_FIRST_INIT: Final = "init=/usr/lib/raspberrypi-sys-mods/firstboot"
_MOST_BYTES: Final = 1 << 20
_AGAIN: Final = "flash the card again, without the imager's own customisation"


class Release(StrEnum):
    """Those whose first boot we know."""

    BOOKWORM = "Bookworm"
    TRIXIE = "Trixie"


@dataclass(frozen=True, slots=True)
class BootPartition:
    """`folder` is where it is mounted, or holds a copy of its files."""

    folder: Path
    release: Release
    cmdline: str
    config: str


def recognised(folder: Path) -> BootPartition:
    """ConfigError for what is no freshly flashed card of a release that we know, or customised by others.

    A card that was written before and never booted is recognised, too.
    """
    if b"Generated using" not in _content(folder, "issue.txt"):
        raise _refused(folder / "issue.txt", "expected that of an image of Raspberry Pi OS")
    text = _content(folder, "config.txt")
    config = [line.strip() for line in text.splitlines()]
    if b"auto_initramfs=1" not in config:
        raise _refused(
            folder / "config.txt",
            "expected auto_initramfs=1, as Bookworm and Trixie have: flash one of these",
        )
    if b"arm_64bit=1" not in config:
        raise _refused(folder / "config.txt", "expected arm_64bit=1: flash the 64-bit image")
    cmdline = read_cmdline(_content(folder, "cmdline.txt"), str(folder / "cmdline.txt"))
    release = _release(folder, cmdline)
    foreign = _foreign(folder, release)
    if foreign:
        raise ConfigError([f"{folder / name}: is there, and not ours: {_AGAIN}" for name in foreign])
    return BootPartition(folder, release, cmdline, text.decode("utf-8", "replace"))


def _release(folder: Path, cmdline: str) -> Release:
    fresh_bookworm = _FIRST_INIT in cmdline.split(" ")
    seeds = [name for name in FILES if (folder / name).is_file()]
    match fresh_bookworm, len(seeds):
        case True, 0:
            return Release.BOOKWORM
        case False, n if n == len(FILES):
            return Release.TRIXIE
        case False, 0:
            raise _refused(
                folder / "cmdline.txt",
                f"expected {_FIRST_INIT}, as Bookworm has before its first boot, or {', '.join(FILES)} "
                "beside it, as Trixie has: flash the card again",
            )
    raise _refused(folder, f"of Trixie expected {', '.join(FILES)}, got {', '.join(seeds)}: {_AGAIN}")


def _foreign(folder: Path, release: Release) -> list[str]:
    """Names of files that others have customised."""
    if release is Release.TRIXIE:
        return [name for name in FILES if not is_shipped_or_ours(name, _content(folder, name))]
    found = ["custom.toml"] if (folder / "custom.toml").exists() else []
    if (folder / SCRIPT).exists() and b"written by roambench" not in _content(folder, SCRIPT):
        found.append(SCRIPT)
    return found


def _content(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise _refused(path, f"{reason}; expected a flashed card's boot partition in {folder}") from None
    if len(content) > _MOST_BYTES:
        raise _refused(path, f"more than {_MOST_BYTES} bytes: no file of Raspberry Pi OS")
    return content


def _refused(path: Path, why: str) -> ConfigError:
    return ConfigError([f"{path}: {why}"])
