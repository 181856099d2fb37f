"""From settings to files on the card: what differs is written, the command line last."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from roambench.contract.errors import FleetError
from roambench.contract.whole_file import take_place, write_whole
from roambench.extras.first_boot.bookworm import bookworm_files
from roambench.extras.first_boot.partition import BootPartition, Release
from roambench.extras.first_boot.settings import FirstBoot
from roambench.extras.first_boot.trixie import trixie_files
from roambench.provision.subjects.sensor import with_bus


@dataclass(frozen=True, slots=True)
class WrittenCard:
    """`files` is all that the card shall hold; `changed` are the names of those that it did not."""

    settings: FirstBoot = field(repr=False)
    folder: Path
    files: dict[str, bytes] = field(repr=False)
    changed: tuple[str, ...]

    @property
    def host(self) -> str:
        """The host that the card is for."""
        return self.settings.host

    def shown(self, name: str) -> str:
        """A file's text for a terminal: without the Wi-Fi's key."""
        text = self.files[name].decode()
        return text.replace(self.settings.psk, "(the key)") if self.settings.psk else text


def write_card(settings: FirstBoot, card: BootPartition, folder: Path, *, dry_run: bool) -> WrittenCard:
    """The files for this host in `folder`, which is the card's own or one to copy to a card like `card`.

    FleetError where they cannot be written.
    """
    make = bookworm_files if card.release is Release.BOOKWORM else trixie_files
    files = make(settings, card.cmdline)
    if settings.sensor_bus:
        files = {"config.txt": with_bus(card.config).encode(), **files}
    changed = tuple(name for name, content in files.items() if _held(folder / name) != content)
    if not dry_run:
        for name in changed:
            path = folder / name
            try:
                if folder == card.folder:
                    _put(path, files[name])
                else:
                    folder.mkdir(parents=True, exist_ok=True)
                    write_whole(path, files[name], mode=0o600)  # the Wi-Fi's key is in it
            except OSError as error:
                raise FleetError(f"{path}: cannot be written: {error.strerror}") from None
    return WrittenCard(settings, folder, files, changed)


def _put(path: Path, content: bytes) -> None:
    """On a FAT, which has no owners and may refuse every chmod."""
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.write_bytes(content)
        take_place(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _held(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
