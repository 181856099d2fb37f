"""Limits of what one agent may ask of the controller, however it behaves; every figure is per device."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from roambench.contract.errors import FleetError

_OWN_FILES: Final = 256  # of a controller, beside its agents' connections: models, records, threads' pipes


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """A healthy agent stays far below each: about a frame a second, 8 echoes at a hello, and a drain
    of at most 500 records (60 KB) twice a second after a long absence.

    Frames and bytes beyond the rate wait (their sender is not read meanwhile); calls beyond their number
    and records beyond the quota are refused.
    """

    frame_bytes: int = 256 * 1024  # of one session frame
    frames_per_s: float = 50.0
    frames_burst: float = 500.0
    control_bytes_per_s: float = 2.0 * 2**20  # frames and drained records together
    control_bytes_burst: float = 16.0 * 2**20
    calls_per_s: float = 20.0  # of any kind
    calls_burst: float = 100.0
    calls_at_once: int = 4  # of one kind
    request_s: float = 20.0  # host seconds from the opening of a call to its request (a session's hello)
    #: From a clock probe to its echo, in host seconds. A path that needs longer has a bound of seconds: it is
    #: refused, and the rest of the burst with it.
    echo_s: float = 5.0
    drained_records: int = 5_000  # of one call
    record_bytes: int = 64 * 1024
    spools: int = 512  # names of spools: an agent's has a new one with every boot of its board
    stored_bytes: int = 2 * 2**30  # records and journal lines of one run; 86 MB are a day at 10 Hz
    transfers_beyond: int = 16  # of one order, beyond what it asks for: agents that died over it
    port_connections: int = 256  # of one port, and two for each device; two ports: below 1,024 files
    handshake_s: float = 10.0  # until a connection must have shown its certificate
    idle_s: float = 30.0  # host seconds that a connection may stay without a call

    def connections(self, devices: int) -> int:
        """That one port takes at once."""
        return self.port_connections + 2 * devices

    def make_room(self, devices: int) -> None:
        """Let this process open the files and sockets that these devices need; FleetError where the system
        does not."""
        usual, most = self.connections(devices), 2 * self.connections(devices) + _OWN_FILES
        soft, hard = (
            most if limit == resource.RLIM_INFINITY else limit
            for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
        )
        if usual > hard:
            raise FleetError(
                f"{devices:,} devices need {usual:,} open files, this system lets a process have {hard:,}: "
                f"raise it (`ulimit -n {usual}` as root, `LimitNOFILE={usual}` of a systemd unit)"
            )
        if soft < min(most, hard):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, hard), hard))


class Bucket:
    """A token bucket that may run into debt: `take` says how long to wait until the debt is paid."""

    __slots__ = ("_at_s", "_burst", "_level", "_now_s", "_per_s")

    def __init__(self, per_s: float, burst: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._now_s = per_s, burst, now_s
        self._level = burst
        self._at_s = now_s()

    def take(self, amount: float) -> float:
        """Take an amount; returns the seconds to wait until it is paid for."""
        now_s = self._now_s()
        self._level = min(self._burst, self._level + (now_s - self._at_s) * self._per_s) - amount
        self._at_s = now_s
        return max(0.0, -self._level / self._per_s)


class QuotaExceeded(FleetError):
    """A device has stored as much as it may in one run."""


@dataclass(slots=True)
class Allowance:
    """The rest of one device's limits."""

    limits: AgentLimits
    stored_bytes: int = 0
    spools: set[str] = field(default_factory=set)
    _frames: Bucket = field(init=False)
    _bytes: Bucket = field(init=False)
    _calls: Bucket = field(init=False)

    def __post_init__(self) -> None:
        limits = self.limits
        self._frames = Bucket(limits.frames_per_s, limits.frames_burst)
        self._bytes = Bucket(limits.control_bytes_per_s, limits.control_bytes_burst)
        self._calls = Bucket(limits.calls_per_s, limits.calls_burst)

    async def frame(self, size_bytes: int) -> float:
        """Wait until a frame of this size is within the rate; returns how long that was (host seconds)."""
        wait_s = max(self._frames.take(1.0), self._bytes.take(size_bytes))
        await _pause(wait_s)
        return wait_s

    async def call(self, size_bytes: int = 0) -> float:
        """Wait until one more call, with a request of this size, is within the rate."""
        wait_s = max(self._calls.take(1.0), self._bytes.take(size_bytes))
        await _pause(wait_s)
        return wait_s

    def store(self, size_bytes: int) -> None:
        """Charge the quota before anything is written; QuotaExceeded says how much there was."""
        if self.stored_bytes + size_bytes > self.limits.stored_bytes:
            raise QuotaExceeded(
                f"stored {self.stored_bytes / 2**20:.0f} MiB in this run, "
                f"the limit is {self.limits.stored_bytes / 2**20:.0f} MiB"
            )
        self.stored_bytes += size_bytes

    def spool(self, uuid: str) -> None:
        """Count a spool's name; QuotaExceeded for one too many."""
        if uuid not in self.spools and len(self.spools) >= self.limits.spools:
            raise QuotaExceeded(f"names more than {self.limits.spools} spools in this run")
        self.spools.add(uuid)


class Allowances:
    """By device name; only for names that an admitted certificate carries."""

    def __init__(self, limits: AgentLimits) -> None:
        self.limits = limits
        self._of: dict[str, Allowance] = {}

    def of(self, name: str) -> Allowance:
        """The allowance of an agent, by its name."""
        if (allowance := self._of.get(name)) is None:
            allowance = self._of[name] = Allowance(self.limits)
        return allowance


async def _pause(wait_s: float) -> None:
    if wait_s > 0:
        await asyncio.sleep(wait_s)
