"""Room on the disk for the next point: a campaign waits for it instead of dying in a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roambench.contract.errors import RunError
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignLog, CampaignRow
from roambench.study.campaign.cooling import Clock

GIB: Final = 2**30
_LOOK_S: Final = 15.0
#: Who has made no room within a day will not.
MOST_S: Final = 86_400.0


def free_bytes(folder: Path) -> int:
    """Return what this user may still write where the folder is."""
    return shutil.disk_usage(folder).free


def bytes_in(folder: Path) -> int:
    """Return what the files below take; one that goes meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue
    return total


@dataclass(slots=True)
class DiskRoom:
    """`keep_free_bytes` and what the largest point so far took have to be free where `folder` is; 0 keeps
    nothing free."""

    folder: Path
    keep_free_bytes: int
    log: CampaignLog
    report: Callable[[str], None]
    largest_bytes: int = 0
    free: Callable[[Path], int] = free_bytes
    clock: Clock = field(default_factory=Clock)

    def ended(self, point: Path) -> None:
        """Note how much a point took, its attempts apart."""
        if not self.keep_free_bytes:
            return
        attempts = point / "attempts"
        self.largest_bytes = max(self.largest_bytes, bytes_in(point) - bytes_in(attempts))

    def wait(self) -> None:
        """Return when there is room; RunError after a day without."""
        if not self.keep_free_bytes:
            return
        wanted, began_s = self.keep_free_bytes + self.largest_bytes, self.clock.now_s()
        announced = False
        while (found := self.free(self.folder)) < wanted:
            reason = (
                f"{found / GIB:.1f} GiB are free where {self.folder} is, {wanted / GIB:.1f} wanted "
                f"({self.keep_free_bytes / GIB:g} to keep free, {self.largest_bytes / GIB:.1f} for a point)"
            )
            waited_s = self.clock.now_s() - began_s
            if waited_s >= MOST_S:
                raise RunError(f"{reason}; no room was made within {MOST_S / 3600:.0f} h")
            if not announced:
                announced = True
                self.report(f"waiting for room on the disk: {reason}")
                self.log.note(
                    CampaignRow(CampaignEvent.DISK_LOW, reason, free_bytes=found, wanted_bytes=wanted)
                )
            self.clock.sleep(_LOOK_S)
        if announced:
            self.log.note(
                CampaignRow(
                    CampaignEvent.DISK_ENOUGH,
                    free_bytes=found,
                    wanted_bytes=wanted,
                    wall_s=self.clock.now_s() - began_s,
                )
            )
