"""Counts of a meter's lines by kind: the same words for every format."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class LineCounts:
    """A line is counted once, under the first kind that fits. Empty lines are not counted."""

    accepted: int = 0
    partial: int = 0  # made of a reading's characters, but no whole reading: cut by a loss or by our opening
    noise: int = 0  # printable text: boot, web, debug, menus
    garbage: int = 0  # anything else: wrong baud rate, line errors
    too_long: int = 0  # no end within the longest line's length
    checksum: int = 0  # a whole line whose checksums (or the lack of them) say that it is damaged
    implausible: int = 0  # a whole line with values that this meter cannot have
    repeated: int = 0  # a line whose meter clock did not move on
    boots: int = 0  # boot banners seen (counted as noise as well)

    @property
    def rejected(self) -> int:
        """Lines that gave no reading, for any reason."""
        return (
            self.partial
            + self.noise
            + self.garbage
            + self.too_long
            + self.checksum
            + self.implausible
            + self.repeated
        )

    def text(self) -> str:
        """The kinds that occurred, for people: "accepted 20, partial 1"."""
        return ", ".join(f"{kind} {count}" for kind, count in asdict(self).items() if count) or "nothing"
