"""Levels of how much of itself an agent runs, for measuring what each part costs (`roambench overhead`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

#: Detail of the event DUTY_BEGAN that ends a duty; each block begins with one whose detail is the level.
DUTY_OVER: Final = "over"
#: The longest duty an agent accepts, in blocks and in device seconds per block.
MOST_BLOCKS: Final = 1000
LONGEST_BLOCK_S: Final = 3600.0


class DutyLevel(StrEnum):
    """Each level contains the one before it."""

    READER = "reader"  # the meter is read and spooled; no session, nothing sent, no host metrics
    AGENT = "agent"  # a session is held and host metrics are taken; nothing is drained
    STREAMING = "streaming"  # everything: records are drained as they come
