"""Followed runs for the pages that are open: reads once a second, and hands the same changes to all.

Nothing is read while no page is open. All reading is done in one thread beside the event loop.
"""

from __future__ import annotations

import asyncio
import functools
import math
import os
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from roambench.contract.errors import RoambenchError, RunError
from roambench.live.folders import FoundRun, WatchedFolder
from roambench.live.ghost import ghost_of
from roambench.live.messages import Message, RunMessages, encoded
from roambench.live.metrics import families_of, open_metrics
from roambench.live.saved_page import SavedPage
from roambench.live.view import RunView
from roambench.report.run_columns import COLUMNS, SHOWN, ListedRun, figure_columns, json_cell
from roambench.report.run_filter import run_filter

P = ParamSpec("P")
T = TypeVar("T")
Say = Callable[[str], object]

#: Seconds between two looks, with more boards than MANY five times as long.
PERIOD_S: Final = 1.0
MANY: Final = 200
_NEW_RUNS_S: Final = 3.0  # between two looks for a newer run
_MOST_PAGES: Final = 64
_MOST_WAITING: Final = 60  # messages that a page has not taken; then it gets the run whole again
_ACCOUNTING_S: Final = 0.5  # of one look at the list, for runs whose end wrote no figures
_MOST_KEPT: Final = 4  # runs that no page shows any more


@dataclass(eq=False)
class Subscriber:
    """A page that is open. `name` is the run it asked for, "" for the newest."""

    name: str
    channel: _Channel | None = None
    _waiting: deque[str | None] = field(default_factory=deque)
    _there: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: str = ""

    @property
    def is_new(self) -> bool:
        """True until it was handed something."""
        return self.channel is None and not self._failed

    @property
    def is_behind(self) -> bool:
        """True once it takes nothing any more."""
        return len(self._waiting) > _MOST_WAITING

    def put(self, text: str | None, *, instead: bool = False) -> None:
        """Hand it a message; `instead`: in place of all that it has not taken. None is the last one."""
        if instead:
            self._waiting.clear()
        self._waiting.append(text)
        self._there.set()

    async def next(self) -> str | None:
        """The next message."""
        while not self._waiting:
            self._there.clear()
            await self._there.wait()
        return self._waiting.popleft()

    def fail(self, why: str) -> None:
        """Its run cannot be read: hand it the reason, once."""
        self.channel = None
        if why != self._failed:
            self._failed = why
            self.put(encoded({"failed": why}), instead=True)


class _Channel:
    """One run, and what is sent of it. Its methods run in the reading thread."""

    def __init__(self, found: FoundRun, previous: FoundRun | None, say: Say = str) -> None:
        self._found = found
        self._previous = previous
        self._ghost: Message | None = None
        self._failed = ""
        self._last: Message = {}
        self._page = SavedPage.opened(found.path, found.info, say)
        self._page_text = ""
        self._view = RunView(found.path) if self._page is None else None
        self._messages = RunMessages(self._view) if self._view is not None else None

    @property
    def name(self) -> str:
        """The run's."""
        return self._found.name

    @property
    def is_many(self) -> bool:
        """True for a run of many boards."""
        return self._found.info is not None and len(self._found.info.device_names) > MANY

    def close(self) -> None:
        """Close the run."""
        if self._view is not None:
            self._view.close()

    def changes(self) -> tuple[str | None, bool]:
        """Look, and what changed since the last time (None: nothing did); whether that is the run whole."""
        if self._page is not None and self._page.is_current:
            if self._page_text:
                return None, False
            try:
                self._page_text = encoded(self._page.whole() | self._about())
            except RunError:  # damaged: the records are there
                self._page = None
            else:
                return self._page_text, True
        try:
            _, messages = self._looked()
        except RoambenchError as error:
            if str(error) == self._failed:
                return None, False
            self._failed = str(error)
            return encoded({"failed": self._failed}), False
        self._failed = ""
        message = messages.changes()
        if "whole" in message:
            return encoded(message | self._about()), True
        now = {name: value for name, value in message["now"].items() if name not in ("t", "eta_s")}
        if len(message) == 1 and now == self._last:
            return None, False
        self._last = now
        return encoded(message), False

    def whole(self) -> str:
        """The run as it was at the last look, and the one to hold it against."""
        if self._messages is None:
            return self._page_text
        return encoded(self._messages.whole() | self._about())

    def step(self, step: int) -> str:
        """The details of a step, as of the last look."""
        if self._messages is None and self._page is not None:
            return encoded(self._page.step(step))
        return encoded(self._looked()[1].step(step))

    def metrics(self) -> str:
        """The figures of a run that is over, or look, and those of now."""
        found = None
        if self._page is not None and self._page.is_current:
            with suppress(RunError):  # damaged: the records are there
                found = self._page.metrics()
        return open_metrics(families_of(self._looked()[0]) if found is None else found, self.name)

    def _looked(self) -> tuple[RunView, RunMessages]:
        """The view of the run's records, with all that is new in it."""
        if self._view is None or self._messages is None:
            self._view = RunView(self._found.path)
            self._messages = RunMessages(self._view)
        while self._view.look():
            pass
        return self._view, self._messages

    def _about(self) -> Message:
        if self._ghost is None:
            self._ghost = ghost_of(self._previous)
        return {"name": self.name, "ghost": self._ghost, "report": self._found.report is not None}


class Follower:
    """Pages that are open, and the runs of a folder that they show."""

    def __init__(self, folder: WatchedFolder, parent: int | None = None, say: Say = str) -> None:
        """It ends with the process `parent`, where one is given; `say` gets what takes long."""
        self._say = say
        self._folder = folder
        self._parent = parent
        self._channels: dict[str, _Channel] = {}
        self._subscribers: list[Subscriber] = []
        self._reader = ThreadPoolExecutor(1, "reads runs")
        self._busy = asyncio.Lock()
        self._newest = ""
        self._looked_s = float("-inf")

    @property
    def full(self) -> bool:
        """True where no more pages may be opened."""
        return len(self._subscribers) >= _MOST_PAGES

    async def listed(self, where: str = "") -> list[Message]:
        """All runs that fulfil the filter, the newest first; ConfigError for a wrong filter."""
        fulfils = run_filter(where) if where else None
        runs = await self._read(self._folder.listed, _ACCOUNTING_S)
        return [_listed(found, run) for found, run in runs if fulfils is None or fulfils(run)]

    async def compared(self, names: Sequence[str]) -> Message:
        """Every figure that one of the runs has: a row each, with a cell for each run."""
        listed = {
            run.name: (found, run) for found, run in await self._read(self._folder.listed, _ACCOUNTING_S)
        }
        pairs = [listed[name] for name in names if name in listed]
        runs = [run for _, run in pairs]
        rows = [[column.title, *(column.text(run) for run in runs)] for column in figure_columns(runs)]
        command = shlex.join(["roambench", "report", *(_typed(found.path) for found, _ in pairs)])
        return {"runs": [run.setting or run.name for run in runs], "rows": rows, "command": command}

    async def found(self, name: str) -> FoundRun | None:
        """The run of that name, which may be any text; None where there is none."""
        return await self._read(self._folder.run, name)

    async def metrics(self, name: str) -> str:
        """The figures of a run, or of the newest, as OpenMetrics; RunError where it cannot be read."""
        async with self._busy:  # a look in the middle of handing out would be lost for the pages
            channel = await self._read(self._channel, name)
            return await self._read(channel.metrics)

    async def step(self, name: str, step: int) -> str | None:
        """The details of a step of a run that a page shows; None where none shows it."""
        channel = self._channels.get(name)
        return None if channel is None else await self._read(channel.step, step)

    @contextmanager
    def subscribed(self, name: str) -> Iterator[Subscriber]:
        """A page while it is open."""
        subscriber = Subscriber(name)
        self._subscribers.append(subscriber)
        try:
            yield subscriber
        finally:
            self._subscribers.remove(subscriber)

    async def follow(self, is_over: Callable[[], bool]) -> None:
        """Look once a second and hand out what changed, until `is_over`."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while not is_over():
            if self._parent is not None and os.getppid() != self._parent:
                break
            if loop.time() >= due_s:
                async with self._busy:
                    many = await self._tick()
                due_s = loop.time() + PERIOD_S * (5 if many else 1)
            await asyncio.sleep(0.1)
            if any(subscriber.is_new for subscriber in self._subscribers):
                due_s = loop.time()
        async with self._busy:
            self._looked_s = -math.inf  # a run that began since is shown, too
            await self._tick()  # how it ended
        for subscriber in self._subscribers:
            subscriber.put(None)

    def close(self) -> None:
        """Close the runs."""
        for channel in self._channels.values():
            self._reader.submit(channel.close).result()
        self._reader.shutdown()

    async def _tick(self) -> bool:
        """One look; whether it was at a run of many boards."""
        pages: dict[_Channel, list[Subscriber]] = {}
        for subscriber in list(self._subscribers):
            try:
                channel = await self._read(self._channel, subscriber.name)
            except RoambenchError as error:
                subscriber.fail(str(error))
            else:
                pages.setdefault(channel, []).append(subscriber)
        for channel, subscribers in pages.items():
            text, is_whole = await self._read(channel.changes)
            whole = text if is_whole else None
            for subscriber in subscribers:
                if subscriber.channel is channel and not subscriber.is_behind:
                    if text is not None:
                        subscriber.put(text)
                    continue
                if whole is None:
                    whole = await self._read(channel.whole)
                subscriber.channel = channel
                subscriber.put(whole, instead=True)
        return any(channel.is_many for channel in pages)

    def _channel(self, name: str) -> _Channel:
        """The view of a run, or of the newest. RunError where there is none, or it cannot be read."""
        if not name:
            now_s = time.monotonic()
            if now_s - self._looked_s >= _NEW_RUNS_S:
                self._looked_s = now_s
                chosen = self._folder.chosen()
                self._newest = chosen.name if chosen is not None else ""
            name = self._newest
            if not name:
                raise RunError("no run yet: waiting for the first one")
        if name not in self._channels:
            found = self._folder.run(name)
            if found is None:
                raise RunError(f"{name}: no such run any more")
            self._channels[name] = _Channel(found, self._folder.previous(found), self._say)
            self._forget_others()
        return self._channels[name]

    def _forget_others(self) -> None:
        """Close runs that no page shows, the oldest first."""
        looked_at = {subscriber.channel for subscriber in self._subscribers}
        idle = [channel for channel in list(self._channels.values())[:-1] if channel not in looked_at]
        for channel in idle[: max(0, len(self._channels) - _MOST_KEPT)]:
            del self._channels[channel.name]
            channel.close()

    async def _read(self, work: Callable[P, T], *words: P.args, **more: P.kwargs) -> T:
        call = functools.partial(work, *words, **more)
        return await asyncio.get_running_loop().run_in_executor(self._reader, call)


def _typed(path: Path) -> str:
    """The path as it is typed in the folder of this process: no longer than it must be."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _listed(found: FoundRun, run: ListedRun) -> Message:
    """A run as a row of the list; `cells` of its columns: what is sorted by, and its text."""
    info = found.info
    if info is None:
        return {"name": found.name, "problem": found.problem, "cells": {}}
    cells = {name: [json_cell(COLUMNS[name], run), COLUMNS[name].text(run)] for name in SHOWN}
    if run.setting:
        cells["name"] = [run.setting, run.setting]
    return {
        "name": found.name,
        "setting": run.setting,
        "system": info.system,
        "fleet": info.fleet,
        "seed": info.seed,
        "devices": len(info.device_names),
        "created": info.created_utc,
        "state": str(info.state),
        "reason": info.reason,
        "report": found.report is not None,
        "problem": run.problem,
        "cells": cells,
    }
