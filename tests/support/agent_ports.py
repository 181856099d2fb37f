"""The ports of an agent's parts, for tests that hold one part in their hands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roambench.agent.reporter import Reporter
from roambench.contract.device_time import DeviceClock


def ignore(*items: object) -> None:
    """Take anything."""


class Log(list[str]):
    """The lines that a part logs, or the lacks that it reports."""

    def log(self, text: str) -> None:
        self.append(text)

    lacks = log


@dataclass
class Records:
    """A spool that hands every record on."""

    record: Callable[..., Any] = ignore

    def append(self, kind: Any, payload: bytes) -> None:
        self.record(kind, payload)


@dataclass
class Voice:
    """A session that hands every word on; nothing is ever on its way before a phase."""

    take: Callable[..., Any] = ignore

    def emit(self, word: Any) -> None:
        self.take(word)

    say = emit


@dataclass
class Party:
    """An agent that speaks in frames."""

    hello: Callable[[], Any]
    take: Callable[[Any], object] = ignore


@dataclass
class Follower:
    """Hands every phase on."""

    follow: Callable[..., object]


@dataclass
class Refused:
    """Hands on every pull that got no model."""

    take: Callable[[str, str], object] = ignore


def reporter(
    record: Callable[..., Any] = ignore,
    emit: Callable[..., Any] = ignore,
    *,
    clock: DeviceClock | None = None,
    name: str = "pi-01",
) -> Reporter:
    """A reporter that hands on what is kept and what is sent."""
    return Reporter(name, clock or DeviceClock(), Records(record), Voice(emit))
