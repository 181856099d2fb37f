"""The records that boards drained, read from a run's folder as they come; each board's go to its `Board`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from roambench.contract.errors import RunError
from roambench.live.boards import Board, BoardStream
from roambench.live.history import RunHistory
from roambench.rounds.records import ClockProbed
from roambench.runs.folder import RunFolder
from roambench.runs.measured.clocks import CONTROLLER_HOST
from roambench.runs.record_store import RecordStore

#: How far the clock of who reads may be from the one that `created_utc` was read from.
_LEEWAY_S: Final = 3600.0


@dataclass(slots=True)
class _Spool:
    stream: BoardStream
    seq: int = -1  # of the last record read


class BoardRecords:
    """Reads what is new; what that changes is noted in the `changes` of the run's history."""

    def __init__(
        self, folder: RunFolder, boards: Sequence[Board], history: RunHistory, now_s: Callable[[], float]
    ) -> None:
        """RunError where there is no record store. `boards` by device; `now_s` is the clock of who reads,
        seconds since 1970."""
        self._info = folder.info
        self._boards = boards
        self._history = history
        self._now_s = now_s
        self._files = [folder.path / name for name in ("records.sqlite", "records.sqlite-wal")]
        self._store = RecordStore(self._files[0], read_only=True)
        try:
            self._store.spools()  # what is no record store says so now
        except RunError:
            self.close()
            raise
        self._version = -1  # of the store, when all that was in it had been read
        self._spools: dict[tuple[str, str], _Spool] = {}
        self._device_of = {name: device for device, name in enumerate(self._info.device_names)}
        self._streams: dict[str, list[BoardStream]] = {}  # by device, the oldest spool first
        self._offsets_ns: dict[tuple[str, str], float] = {}  # by device's name and boot
        self._throttled: dict[int, str] = {}  # as last noted, by device

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def read(self, most: int) -> int:
        """Read what was drained since the last time, about `most` records of it; returns how many."""
        version = self._store.version()
        if version == self._version:
            return 0
        arrival_s = self._now_s() if self._version >= 0 else self._written_s()
        read = 0
        for key in self._store.spools():
            if key[0] not in self._device_of:
                continue  # of no device of this run
            spool = self._spools.get(key)
            if spool is None:
                spool = self._spools[key] = _Spool(self._stream_of(key[0]))
            records = self._store.records_beyond(*key, spool.seq, most - read)
            if not records:
                continue
            for _, kind, payload in records:
                spool.stream.add(kind, payload)
            spool.seq = records[-1][0]
            read += len(records)
            spool.stream.arrived(arrival_s)
            for stream in (spool.stream, self._booked(key[0])):
                if stream is not None:
                    self._note_board(self._device_of[key[0]], stream)
            if read >= most:
                return read  # the version is not noted: there is more of it
        self._version = version
        return read

    def note_clock(self, probe: ClockProbed) -> None:
        """A board's clock against the controller's; emulated boards go by the controller's own."""
        names = self._info.device_names
        if self._info.kind.own_clocks and 0 <= probe.device < len(names):
            self._offsets_ns[names[probe.device], probe.boot_id] = probe.offset_ns

    def _written_s(self) -> float:
        """The time of the store's last write; at the first look its records' arrival is unknown."""
        return max((file.stat().st_mtime for file in self._files if file.is_file()), default=self._now_s())

    def _stream_of(self, device: str) -> BoardStream:
        start_ns = self._info.start_device_ns

        def on_one_clock(boot: str, ns: int) -> int | None:
            host = made.reader or device
            ours = not self._info.kind.own_clocks or host == CONTROLLER_HOST
            offset_ns = 0.0 if ours else self._offsets_ns.get((host, boot))
            if start_ns is None or offset_ns is None:
                return None
            since_ns = ns - start_ns - round(offset_ns)
            return since_ns if since_ns * 1e-9 < self._longest_s() else None

        board = self._boards[self._device_of[device]]
        made = BoardStream(device, board, self._info.time_scale, on_one_clock)
        self._streams.setdefault(device, []).append(made)
        return made

    def _booked(self, device: str) -> BoardStream | None:
        """Book what another host read to the board's own phases; the stream that has them, None: none has."""
        streams = self._streams[device]
        own = next((one for one in reversed(streams) if one.has_phases and not one.reader), None)
        if own is not None:
            for stream in streams:
                if stream.reader:
                    stream.book_to(own)
        return own

    def _longest_s(self) -> float:
        """Device time that can have passed since the run's begin: a board's clock may say anything."""
        try:
            begun_s = datetime.fromisoformat(self._info.created_utc).timestamp()
        except ValueError:
            return math.inf
        since_s = self._now_s() - begun_s
        return (since_s + _LEEWAY_S) * self._info.time_scale if since_s > -_LEEWAY_S else math.inf

    def _note_board(self, device: int, stream: BoardStream) -> None:
        self._note_throttling(device)
        if (ended := stream.ended) is not None:
            self._history.end_phase(device, ended.phase, ended.order_id)
            stream.ended = None
        changes = self._history.changes
        changes.devices.add(device)
        if stream.changed_steps:
            changes.steps |= stream.changed_steps
            changes.cells.setdefault(device, set()).update(stream.changed_steps)
            stream.changed_steps.clear()
        for order_id in stream.changed_updates:
            index = self._history.index_of(order_id)
            if index is not None:
                changes.updates.add(index)
        stream.changed_updates.clear()

    def _note_throttling(self, device: int) -> None:
        throttled, before = self._boards[device].throttled, self._throttled.get(device, "")
        if throttled == before:
            return
        self._throttled[device] = throttled
        now = self._history.now
        step = now.step if now is not None else -1
        if throttled:
            self._history.note(step, device, "throttled", 2, throttled)
        else:
            self._history.note(step, device, "no longer throttled", 0, f"was: {before}")
