"""The belongings that a board leaves to the spare that plays it: who it was and its state, from itself or
from its card."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.provision import layout

#: Training data comes anew over the data port; the rest is spool, finished runs' records, and models.
LEFT_BEHIND: Final = "shards"


@dataclass(frozen=True, slots=True)
class Belongings:
    """A board's identity and state: who it is and, packed (tar.gz), its state; "" and b"" where nothing
    is."""

    machine_id: str
    state: bytes
    note: str


def from_card(board: str, card: Path) -> Belongings:
    """Off the card of a dead board, whose root file system is at `card`.

    ConfigError where that is no card of a provisioned board, or may not be read.
    """
    try:
        machine_id = _beneath(card, "etc/machine-id").read_text(encoding="ascii").strip()
        entries = sorted(_beneath(card, layout.STATE.lstrip("/")).iterdir())
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
            for entry in entries:
                if entry.name != LEFT_BEHIND:
                    tar.add(entry, arcname=f"./{entry.name}", filter=_plain)
    except FileNotFoundError as error:
        raise ConfigError(
            [f"--card {card}: no {error.filename}: expected the root of {board}'s card, as mounted"]
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a machine id"
        raise ConfigError(
            [f"--card {card}: cannot be read: {why} (a card's files are root's: sudo)"]
        ) from None
    size = len(packed.getvalue())
    return Belongings(
        machine_id, packed.getvalue(), f"{board}'s card handed over {size / 1e6:.1f} MB of state"
    )


def _beneath(card: Path, name: str) -> Path:
    """The file on the card; ConfigError for a link on the way, which leads into this machine's own files."""
    for path in [card.joinpath(*Path(name).parts[:end]) for end in range(1, len(Path(name).parts) + 1)]:
        if path.is_symlink():
            raise ConfigError([f"--card {card}: {path} is a link: no provisioned board has one there"])
    return card / name


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and folders; an agent leaves nothing else, and nothing else is taken."""
    return entry if entry.isfile() or entry.isdir() else None
