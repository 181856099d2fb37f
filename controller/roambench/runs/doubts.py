"""Doubts that judge a run's whole record: written by its controller, made again by its reader."""

from __future__ import annotations

from typing import Final

LEASE_LOST: Final = "the bench's lease was lost while it ran: another user may have run on the same boards"
#: What is known by the wall clock only.
BY_THE_WALL_CLOCK: Final = (
    "its controller's machine was booted in mid-run: how long that took is known by the wall clock only"
)
