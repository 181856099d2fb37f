"""The phases of one device as its agent lives them: no hole between them, not even after a crash."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from roambench.agent.reporter import RecordPort
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError
from roambench.contract.events import EventKind
from roambench.contract.json_values import from_json, plain
from roambench.contract.phases import NOTHING_MOVED, Moved, Phase, PhaseSpan
from roambench.contract.records import AgentEvent, RecordKind, phase_to_bytes

#: What a device does between the end of one order and the begin of the next, without waiting for anything.
_RESTING: Final = frozenset({Phase.IDLE, Phase.REST})


class PhaseFollower(Protocol):
    """Port to what changes with the phase."""

    def follow(self, phase: Phase, ns: int, mbit_s: float) -> None:
        """Begin `phase` at `ns`, with the link at `mbit_s` (0: as fast as it goes)."""
        ...


@dataclass(frozen=True, slots=True)
class OpenPhase:
    """A phase that has begun and not ended."""

    boot_id: str
    phase: Phase
    step: int
    start_ns: int
    order_id: str = ""
    train_order_id: str = ""


class PhaseTimeline:
    """Stamps phase borders and hands every finished span to the spool.

    The open phase is kept in a small file and the last sign of life in another, so that an agent that was
    killed can, on its next start, close the interrupted span where it was last alive and call the hole LOST.
    """

    def __init__(
        self,
        device: str,
        boot_id: str,
        clock: DeviceClock,
        folder: Path,
        records: RecordPort,
        followers: Sequence[PhaseFollower] = (),
    ) -> None:
        """`followers`, in this order, follow every phase (the emulated meter's power does)."""
        self._device = device
        self._boot_id = boot_id
        self._clock = clock
        self._records = records
        self._followers = followers
        self._phase_file = os.open(folder / "phase.json", os.O_RDWR | os.O_CREAT, 0o600)
        self._alive_file = os.open(folder / "alive_ns", os.O_RDWR | os.O_CREAT, 0o600)
        self._open: OpenPhase | None = None
        self._lacking = False
        self._rests_since_ns: int | None = None

    @property
    def current(self) -> OpenPhase | None:
        """The phase that is open now, None between phases."""
        return self._open

    @property
    def phase(self) -> Phase | None:
        """The kind of the open phase, None between phases."""
        return self._open.phase if self._open is not None else None

    @property
    def rests_since_ns(self) -> int | None:
        """The stamp since which the device has idled or rested without a break; None while it does not."""
        return self._rests_since_ns

    def resume(self) -> int:
        """Begin: idle on a first start; after a crash close what was interrupted and name the hole.

        Returns the stamp at which this life begins (and a hole ends).
        """
        now_ns = self._clock.now_ns()
        interrupted = self._read_phase_file()
        if interrupted is not None:
            last_ns = max(interrupted.start_ns, self._read_alive())
            if interrupted.boot_id == self._boot_id and last_ns <= now_ns:
                self._finish(interrupted, last_ns)
                self._finish(OpenPhase(self._boot_id, Phase.LOST, interrupted.step, last_ns), now_ns)
            else:  # another boot: its clock says nothing about ours
                self._finish(interrupted, last_ns)
        self._begin(OpenPhase(self._boot_id, Phase.IDLE, -1, now_ns), 0.0)
        return now_ns

    def enter(
        self,
        phase: Phase,
        step: int,
        *,
        order_id: str = "",
        train_order_id: str = "",
        mbit_s: float = 0.0,
        moved: Moved = NOTHING_MOVED,
    ) -> int:
        """End the open phase now, begin `phase`; returns the border's stamp.

        `moved` is what the ENDING phase moved; `mbit_s` is the rate of the beginning one.
        """
        now_ns = self._clock.now_ns()
        if self._open is not None:
            self._finish(self._open, now_ns, moved)
        self._begin(OpenPhase(self._boot_id, phase, step, now_ns, order_id, train_order_id), mbit_s)
        return now_ns

    def alive(self, ns: int) -> None:
        """Note a sign of life; survives SIGKILL, costs one pwrite."""
        self._keep(self._alive_file, struct.pack("<q", ns))

    def close(self) -> None:
        """End the open phase for good (an orderly stop leaves no hole)."""
        if self._open is not None:
            self._finish(self._open, self._clock.now_ns())
            self._open = self._rests_since_ns = None
            os.ftruncate(self._phase_file, 0)

    def _begin(self, phase: OpenPhase, mbit_s: float) -> None:
        self._open = phase
        if phase.phase not in _RESTING:
            self._rests_since_ns = None
        elif self._rests_since_ns is None:
            self._rests_since_ns = phase.start_ns
        self.alive(phase.start_ns)
        # One small write: no kill comes in the middle of it. Renaming a fresh file into place took
        # 0.14 ms instead of 0.002, and ext4 starts writing such a file to the SD card at once.
        self._keep(self._phase_file, json.dumps(list(plain(phase).values())).encode() + b"\n")
        for follower in self._followers:
            follower.follow(phase.phase, phase.start_ns, mbit_s)

    def _keep(self, file: int, content: bytes) -> None:
        """Keep `content` for the next life. What cannot be kept is missed only if this life ends without a
        word: that is noted once, phases go on."""
        try:
            os.pwrite(file, content, 0)
            self._lacking = False
        except OSError as error:
            if not self._lacking:
                self._lacking = True
                detail = f"keeping the phase for the agent's next life: {error.strerror}"
                event = AgentEvent(EventKind.AGENT_LACKS, self._clock.now_ns(), detail)
                self._records.append(RecordKind.EVENT, event.to_bytes())

    def _finish(self, phase: OpenPhase, end_ns: int, moved: Moved = NOTHING_MOVED) -> None:
        span = PhaseSpan(
            self._device,
            phase.boot_id,
            phase.phase,
            phase.step,
            phase.start_ns,
            end_ns,
            phase.order_id,
            phase.train_order_id,
            moved.transferred_bytes,
            moved.first_byte_ns,
            moved.last_byte_ns,
            moved.stalls_ns,
        )
        self._records.append(RecordKind.PHASE, phase_to_bytes(span))

    def _read_phase_file(self) -> OpenPhase | None:
        # What follows the first line is the rest of an older, longer one.
        written, _, _ = os.pread(self._phase_file, 65536, 0).partition(b"\n")
        if not written:
            return None
        try:
            return OpenPhase(*from_json(tuple[str, Phase, int, int, str, str], written, "phase"))
        except ConfigError as error:
            detail = f"phase file unreadable, its span is a hole: {error.problems[0]}"
            event = AgentEvent(EventKind.AGENT_STATE_DAMAGED, self._clock.now_ns(), detail)
            self._records.append(RecordKind.EVENT, event.to_bytes())
            return None

    def _read_alive(self) -> int:
        stamp = os.pread(self._alive_file, 8, 0)
        return int(struct.unpack("<q", stamp)[0]) if len(stamp) == 8 else 0
