"""What a run on real agents goes on from besides the round loop's state: published models, its clock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ModelError, RunError
from roambench.contract.model_blob import decode, digest_of
from roambench.contract.orders import Vector
from roambench.contract.whole_file import write_whole
from roambench.fleet.grpc_fleet import GrpcFleet
from roambench.runs.database import naming

#: In the run folder: the models that the checkpoint names, by digest.
MODELS: Final = "checkpoint-models"


class AgentsKept:
    """`checkpoints.Keeper` of a fleet of real agents. Access points' models and the global one lie in the run
    folder, each written once; what a device holds it keeps itself (`agent.resume_point`)."""

    keeps_much = False

    def __init__(self, folder: Path, fleet: GrpcFleet, clock: DeviceClock, layout: str) -> None:
        self._models = folder / MODELS
        self._fleet = fleet
        self._clock = clock
        self._layout = layout
        self._named: set[str] = set()

    def snapshot(self) -> dict[str, Any]:
        """What going on needs of the fleet, as JSON values; models are files beside it."""
        at_ns, published = self._clock.now_ns(), self._fleet.published
        with naming(self._models):
            self._models.mkdir(exist_ok=True)
            for digest, blob in published.items():
                if not (self._models / digest).exists():
                    write_whole(self._models / digest, blob)
        self._named = set(published)
        return {
            "models": sorted(published),
            "at_ns": at_ns,
            "epoch_ns": self._clock.epoch_ns,
            "boot_id": boot_id(),
        }

    def keep(self, step: int) -> None:
        """The checkpoint of `step` is durable: delete models that it does not name."""
        self._fleet.checkpointed(step)
        for file in self._models.iterdir():
            if file.name not in self._named:
                file.unlink()

    def restore(self, told: Mapping[str, Any]) -> dict[str, Vector]:
        """The models that a snapshot names, by digest."""
        models = {}
        for digest in told["models"]:
            file = self._models / digest
            with naming(file):
                blob = file.read_bytes()
            try:
                if digest_of(blob) != digest:
                    raise ModelError("its content is another")
                models[digest] = decode(blob, layout=self._layout)
            except ModelError as error:
                raise RunError(f"{file}: not the checkpoint's model: {error}") from None
        return models


def clock_again(told: Mapping[str, Any], time_scale: float) -> DeviceClock:
    """The run's clock as it was: device time went on while there was no controller. RunError where this
    machine was booted since, and with it every clock of the run."""
    if told["boot_id"] != boot_id():
        raise RunError("this machine was booted since, and the run's device time began anew with it")
    return DeviceClock(told["epoch_ns"], time_scale)


def boot_id() -> str:
    """The kernel's name of this machine's present boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
