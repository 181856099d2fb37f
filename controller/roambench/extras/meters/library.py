"""The libraries of meters' makers: optional packages, imported when a meter is opened."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable
from typing import Any

from roambench.contract.extra_packages import install_command


def library(module: str, package: str, extra: str) -> Any:
    """The module of an optional package; ValueError says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(
            f"the package {package} is not installed where the meter is read; there: "
            f"{install_command(extra, package)}"
        ) from None


def on_loop(loop: asyncio.AbstractEventLoop) -> Callable[..., None]:
    """A function for a library's own thread: it has `loop` call another one with arguments."""

    def act(call: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(call, *arguments)

    return act
