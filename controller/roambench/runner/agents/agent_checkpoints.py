"""The part of a checkpoint of real agents besides the round loop's state: published models, its clock."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ModelError, RunError
from roambench.contract.orders import Vector
from roambench.contract.whole_file import write_whole
from roambench.fleet.grpc_fleet import GrpcFleet
from roambench.rounds.records import ClockProbed
from roambench.runner.agents.checkpoints import MODELS
from roambench.runs.database import naming

#: A power cut takes back the times of files that were written in the last 5 s.
_UNSYNCED_NS: Final = 5 * 10**9


class AgentCheckpoints:
    """The `CheckpointKeeper` of a fleet of real agents. Access points' models and the global one lie in the
    run folder, each written once; what a device holds it keeps itself (`agent.orders.resume_point`)."""

    keeps_much = False

    def __init__(self, folder: Path, fleet: GrpcFleet, clock: DeviceClock) -> None:
        self._models = folder / MODELS
        self._fleet = fleet
        self._clock = clock
        self._named: set[str] = set()

    def snapshot(self) -> dict[str, Any]:
        """The fleet's part of a checkpoint, as JSON values; models are files beside it."""
        at_ns, unix_ns, published = self._clock.now_ns(), time.time_ns(), self._fleet.published
        with naming(self._models):
            self._models.mkdir(exist_ok=True)
            for digest, blob in published.items():
                if not (self._models / digest).exists():
                    write_whole(self._models / digest, blob)
        self._named = set(published)
        return {
            "models": sorted(published),
            "at_ns": at_ns,
            "unix_ns": unix_ns,
            "epoch_ns": self._clock.epoch_ns,
            "ahead_ns": self._clock.ahead_ns,
            "boot_id": boot_id(),
        }

    def keep(self, step: int) -> None:
        """The checkpoint of `step` is durable: delete models that it does not name."""
        self._fleet.checkpointed(step)
        for file in self._models.iterdir():
            if file.name not in self._named:
                file.unlink()

    def restore(self, fleet_state: Mapping[str, Any]) -> dict[str, Vector]:
        """The models that a snapshot names, by digest."""
        models = {}
        for digest in fleet_state["models"]:
            file = self._models / digest
            with naming(file):
                blob = file.read_bytes()
            try:
                models[digest] = self._fleet.restore(digest, blob)
            except ModelError as error:
                raise RunError(f"{file}: not the checkpoint's model: {error}") from None
        return models


def was_booted(fleet_state: Mapping[str, Any]) -> bool:
    """Return whether this machine was booted since that snapshot, and its CLOCK_MONOTONIC began again."""
    return bool(fleet_state["boot_id"] != boot_id())


def clock_again(fleet_state: Mapping[str, Any], time_scale: float, folder: Path) -> DeviceClock:
    """The run's clock, which went on while there was no controller. Over a boot of this machine the wall
    clock says for how long, but no device of this machine can have stamped anything later than it says."""
    if not was_booted(fleet_state):
        return DeviceClock(fleet_state["epoch_ns"], time_scale, fleet_state["ahead_ns"])
    written_ns = (file.stat().st_mtime_ns for file in folder.glob("agents/*/spool.sqlite*"))
    last_ns = max(written_ns, default=fleet_state["unix_ns"]) + _UNSYNCED_NS
    host_ns = time.monotonic_ns()
    at_ns = fleet_state["at_ns"] + round((max(time.time_ns(), last_ns) - fleet_state["unix_ns"]) * time_scale)
    return DeviceClock(host_ns, time_scale, at_ns - host_ns)


def behind_boards_ns(before: Iterable[ClockProbed], now: Iterable[ClockProbed]) -> int | None:
    """Return how far the run's clock is behind what it would be had this machine not been booted: boards that
    lived on are ahead of it by so much more than `before`. None where none of those of `now` was there then.

    Boards agree within what their crystals drift. The middle one in size counts: no single board can make
    it worse than the wall clock had made it.
    """
    known = {(record.device, record.boot_id): record.offset_ns for record in before}
    found = [
        record.offset_ns - known[record.device, record.boot_id]
        for record in now
        if (record.device, record.boot_id) in known
    ]
    return round(sorted(found, key=abs)[(len(found) - 1) // 2]) if found else None


def boot_id() -> str:
    """The kernel's name of this machine's present boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
