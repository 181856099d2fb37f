"""Boards on and off, each by its own switch: one answer per host, also where something goes wrong.

All at once, but for those that hang on one device: what is asked of it waits for the answer before. Embedded
web servers and SNMP agents drop what comes while they are busy, and uhubctl takes hold of the hub.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from roambench.contract.errors import RoambenchError
from roambench.provision.bench import Host
from roambench.provision.power.power_command import OFF_S, PowerCommand
from roambench.provision.power.switch import BoardSwitch, Forewarns, short
from roambench.provision.power.table import SWITCHES

#: Longer than any switch of ours may take; it ends those of other packages that forgot to end themselves.
MOST_S: Final = 300.0
_LOOK_S: Final = 0.02
#: By sort of switch and device; threads ask, each with its own event loop.
_BUSY: Final[defaultdict[str, threading.Lock]] = defaultdict(threading.Lock)


@dataclass(frozen=True, slots=True)
class Switched:
    """`done`: the command was carried out, and a switch that can be asked says so. Otherwise `reason` says
    why not.

    `on` is what the switch says afterwards, None where it says nothing; `detail` what it says besides.
    """

    host: Host
    done: bool
    on: bool | None = None
    volts: float | None = None
    detail: str = ""
    reason: str = ""
    next_action: str = ""


@dataclass(frozen=True, slots=True)
class SeenSwitch:
    """A switch that was asked and not switched. `asked` is False where there is nothing to ask.

    `trouble`: why it may cut the board's power by itself. `reason`: why it gives no answer.
    """

    asked: bool = False
    on: bool | None = None
    detail: str = ""
    trouble: str = ""
    reason: str = ""
    next_action: str = ""


NOT_ASKED: Final = SeenSwitch()


async def switch_power(hosts: Sequence[Host], command: PowerCommand, off_s: float = OFF_S) -> list[Switched]:
    """One answer per host, in their order. Never raises for a host."""
    return list(await asyncio.gather(*(_one(host, command, off_s) for host in hosts)))


async def seen_switch(host: Host) -> SeenSwitch:
    """Ask the host's switch how it stands; never raises. A meter is asked by `meter.autorun_of`."""
    if host.power.switch == "meter":
        return NOT_ASKED
    try:
        switch = _switch_of(host)
        async with _asked(host):
            state = await switch.state()
            trouble = await switch.trouble() if isinstance(switch, Forewarns) else ""
    except Exception as error:
        return SeenSwitch(True, None, "", "", *_told(host, error))
    if state is None:
        return SeenSwitch(False, detail="cannot be asked: its power table has no `state`")
    return SeenSwitch(True, state.on, state.detail, trouble)


async def _one(host: Host, command: PowerCommand, off_s: float) -> Switched:
    try:
        switch = _switch_of(host)
        await _do(host, switch, command, off_s)
        async with _asked(host):
            state = await switch.state()
    except Exception as error:  # a row of another package may raise anything
        reason, next_action = _told(host, error)
        return Switched(host, False, reason=reason, next_action=next_action)
    if state is not None:
        return Switched(host, True, state.on, state.volts, short(state.detail))
    if command is PowerCommand.STATE:
        return Switched(
            host,
            False,
            reason="unknown: this switch cannot be asked",
            next_action="give its power table a `state` command, or look at the board",
        )
    return Switched(
        host, True, detail=f"{command} was done; nothing was read back: this switch cannot be asked"
    )


def _switch_of(host: Host) -> BoardSwitch:
    return SWITCHES.load(host.power.switch).switch(host.power.keys, host)


def _told(host: Host, error: Exception) -> tuple[str, str]:
    """Reason and next action."""
    if isinstance(error, RoambenchError):
        reason = getattr(error, "reason", str(error))
        return short(reason), getattr(error, "next_action", "") or _next_action(host)
    reason = "no answer" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
    return short(f"switch {host.power.switch!r}: {reason}"), _next_action(host)


def _next_action(host: Host) -> str:
    try:
        return SWITCHES.load(host.power.switch).next_action
    except RoambenchError:
        return ""


@asynccontextmanager
async def _asked(host: Host) -> AsyncIterator[None]:
    """Hold the host's device for one caller, and give it its time."""
    device = SWITCHES.load(host.power.switch).device(host.power.keys)
    busy = _BUSY[f"{host.power.switch} {device}"] if device else threading.Lock()
    while not busy.acquire(blocking=False):  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)
    try:
        async with asyncio.timeout(MOST_S):
            yield
    finally:
        busy.release()


async def _do(host: Host, switch: BoardSwitch, command: PowerCommand, off_s: float) -> None:
    try:
        if command in (PowerCommand.OFF, PowerCommand.CYCLE):
            async with _asked(host):
                await switch.off()
        if command is PowerCommand.CYCLE:
            await asyncio.sleep(off_s)
    finally:  # also after Ctrl-C: a cycle leaves no board off
        if command in (PowerCommand.ON, PowerCommand.CYCLE):
            async with _asked(host):
                await switch.on()
