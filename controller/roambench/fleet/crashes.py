"""Tasks that are not awaited: what they die of is logged where it happened, not when they are collected."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

_LOG = logging.getLogger(__name__)


def logged_if_it_crashes(task: asyncio.Task[Any]) -> asyncio.Task[Any]:
    """The task; its traceback is logged under its name should it end by an error."""
    task.add_done_callback(_ended)
    return task


def _ended(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("the task %r ended", task.get_name(), exc_info=error)
