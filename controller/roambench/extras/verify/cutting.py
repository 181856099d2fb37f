"""Tests that may cost a board its power: opening its meter's port, and switching it off.

In this order, each only where the one before left the board alive: the meter is asked whether its output
comes back by itself; the agent is stopped and the port opened as its drivers do; the board is switched off
and on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from roambench.extras.verify.kit import Cut, Opening
from roambench.meters.catalogue import driver_row, wired_names
from roambench.provision import layout
from roambench.provision.bench import Bench, Host
from roambench.provision.power.meter import autorun_of
from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switching import switch_power
from roambench.provision.ssh.channel import CommandResult
from roambench.provision.ssh.host_error import ConnectionLost, HostError
from roambench.provision.ssh.hosts import HostLink, open_link
from roambench.provision.ssh.script import Script

_BOOT_ID: Final = Script("cat /proc/sys/kernel/random/boot_id")
_RECORD_S: Final = 20.0
_OFF_S: Final = 20.0
_BACK_S: Final = 300.0
_LOOK_S: Final = 2.0
_MOST_BYTES: Final = 2**18
_BOOT_TEXTS: Final = (b"BOOT WAIT", b"SmartPower", b"rst:0x", b"ets Jun")
#: As the drivers open it (agent's meters.sources.serial_port); the bytes are printed as a transcript.
_RECORD: Final = """
import asyncio, pathlib, sys, tempfile, time
from roambench.meters.sources.serial_port import SerialPort
from roambench.meters.transcript import write_transcript
async def record():
    chunks, began = [], time.monotonic()
    port = SerialPort(sys.argv[1])
    await port.open(lambda data: chunks.append((time.monotonic() - began, data)), print)
    await asyncio.sleep(float(sys.argv[2]))
    await port.close()
    return chunks
path = pathlib.Path(tempfile.mkdtemp()) / "said"
write_transcript(path, asyncio.run(record()), "meter: " + sys.argv[3])
print(path.read_text()[:200000])
"""


@dataclass(slots=True)
class CutPower:
    """The results; `facts` has reasons for what was not tried."""

    openings: list[Opening] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    transcript: str = ""
    facts: dict[str, str] = field(default_factory=dict)


def cut_power(bench: Bench, host: Host, report: Callable[[str], None]) -> CutPower:
    """Open the meter's port, then switch the board off and on; HostError where it does not come back."""
    seen = CutPower()
    _open_port(bench, host, seen, report)
    _switch_off(bench, host, seen, report)
    return seen


def _open_port(bench: Bench, host: Host, seen: CutPower, report: Callable[[str], None]) -> None:
    autorun = asyncio.run(autorun_of(host))
    wired = host.meter.driver in wired_names() and driver_row(host.meter.driver).resets
    if not wired or host.meter.host:
        seen.facts["not opened"] = "this meter is not read by a serial port of the board"
        return
    if autorun is not True:
        why = "it is off" if autorun is False else autorun
        seen.facts["not opened"] = f"the meter's autorun must be on first: {why}"
        return
    report(f"the agent stops, and the meter's port is opened for {_RECORD_S:g} s")
    with open_link(bench, host) as link:
        boot = link.must(_BOOT_ID)
        link.must(Script(f"sync; systemctl stop {layout.UNIT}"), root=True)
        said = b""
        try:
            with suppress(ConnectionLost):
                ran = recorded(link)
                if ran.exit_code != 0:
                    seen.facts["not opened"] = "its port could not be opened"
                said = ran.out
        finally:
            with suppress(HostError):
                link.run(Script(f"systemctl start {layout.UNIT}"), root=True)
    lived = _back(bench, host) == boot
    if lived and "not opened" in seen.facts:
        return
    seen.openings.append(Opening("verify", lived, any(text in said for text in _BOOT_TEXTS)))
    seen.transcript = said.decode("ascii", errors="replace")


def recorded(link: HostLink, seconds: float = _RECORD_S) -> CommandResult:
    """Return what the host's meter says at its port in this many seconds, as a transcript."""
    meter = link.host.meter
    return link.run(
        Script(f'{layout.CURRENT}/bin/python -c "$@"'),
        *(_RECORD, meter.port.partition("?")[0], f"{seconds:g}", meter.driver),
        root=True,
        timeout_s=seconds + 60.0,
        most_bytes=_MOST_BYTES,
    )


def _switch_off(bench: Bench, host: Host, seen: CutPower, report: Callable[[str], None]) -> None:
    with open_link(bench, host) as link:
        boot = link.must(_BOOT_ID)
        link.must(Script("sync"), root=True)
    report(f"the board is switched off for {_OFF_S:g} s")
    (off,) = asyncio.run(switch_power([host], PowerCommand.OFF))
    if not off.done:
        seen.facts["not cut"] = off.reason
        asyncio.run(switch_power([host], PowerCommand.ON))
        return
    try:
        time.sleep(_OFF_S)
        answered = _alive(bench, host) is not None
        report("and on again")
    finally:  # also at Ctrl-C
        (on,) = asyncio.run(switch_power([host], PowerCommand.ON))
    if not on.done:
        raise HostError(host.name, f"was switched off and does not come on: {on.reason}", on.next_action)
    began_s = time.monotonic()
    back = _back(bench, host)
    seen.cuts.append(Cut(answered, back == boot, time.monotonic() - began_s))


def _back(bench: Bench, host: Host) -> bytes:
    """The boot that it lives in, once it can be logged in to; HostError if it cannot."""
    until_s = time.monotonic() + _BACK_S
    while (boot := _alive(bench, host)) is None:
        if time.monotonic() > until_s:
            raise HostError(
                host.name, f"not back within {_BACK_S:g} s", "look at its meter's output: is it on?"
            )
        time.sleep(_LOOK_S)
    return boot


def _alive(bench: Bench, host: Host) -> bytes | None:
    try:
        with open_link(bench, host) as link:
            return link.must(_BOOT_ID)
    except HostError:
        return None


def latch_of(link: HostLink) -> list[Opening]:
    """Return what became of the port that the agent opened in this boot, by its latch."""
    boot = link.must(_BOOT_ID).decode().strip()
    latches = Script(f"cat {layout.STATE}/meter-opened*.json")
    ran = link.run(latches, root=True, most_bytes=_MOST_BYTES)
    text = ran.out.decode(errors="replace")
    if ran.exit_code != 0 or boot not in text or '"survived": true' not in text:
        return []
    return [Opening("the agent", True, '"restarted": true' in text)]
