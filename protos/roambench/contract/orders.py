"""Orders that the controller gives to devices, and the one answer each order gets.

An `order_id` is idempotent: the same order sent again is answered from disk, not carried out twice.
Devices are indices 0..N-1 of the experiment; the fleet knows their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]  # a flat model, shape (parameters,)


@dataclass(frozen=True, slots=True)
class TrainOrder:
    """Download the AP's model, build the start model, run `local_epochs` of the local objective."""

    order_id: str
    device: int
    step: int
    ap: int
    start_digest: str  # hex digest of the AP's model version
    local_epochs: int
    seed: int  # keyed by (seed, "train", device, step)
    start_rule: str = "ap"
    objective: str = "ce"
    download_mbit_s: float = 0.0  # 0: the link's native speed

    @property
    def model_digest(self) -> str:
        """Which published model the order lets its device download."""
        return self.start_digest


@dataclass(frozen=True, slots=True)
class UploadOrder:
    """Send the finished model of `train_order_id` to the AP where the device is now."""

    order_id: str
    device: int
    step: int
    ap: int
    train_order_id: str
    upload_mbit_s: float = 0.0
    keeps_model: bool = False  # the model stays on the device as its own (the MIDDLE family)


@dataclass(frozen=True, slots=True)
class DiscardOrder:
    """The finished model of `train_order_id` will not be wanted any more; free its disk space.

    With `keeps_model` it is only not uploaded: it stays on the device as its own.
    """

    order_id: str
    device: int
    step: int
    train_order_id: str
    reason: str
    keeps_model: bool = False


@dataclass(frozen=True, slots=True)
class SyncOrder:
    """Download the global model of a cloud aggregation: from now on it is the device's own model, and the
    global one that its objective may pull to."""

    order_id: str
    device: int
    step: int
    ap: int
    digest: str  # hex digest of the global model
    download_mbit_s: float = 0.0

    @property
    def model_digest(self) -> str:
        """Which published model the order lets its device download."""
        return self.digest


@dataclass(frozen=True, slots=True)
class IdleOrder:
    """Nothing to do in this step; `present` tells background phases apart (idle or absent)."""

    order_id: str
    device: int
    step: int
    present: bool


@dataclass(frozen=True, slots=True)
class TransferOrder:
    """Move `total_bytes` of ballast `repeats` times, back to back: a window of a link's calibration.

    Not a step's order: rounds neither give it nor see its answer.
    """

    order_id: str
    device: int
    step: int
    direction: Literal["up", "down"]
    total_bytes: int
    mbit_s: float  # 0: the link's native speed
    repeats: int


#: Orders that are outstanding until the device answers.
Task = TrainOrder | UploadOrder | SyncOrder
Order = Task | DiscardOrder | IdleOrder


def order_id(run_id: str, step: int, device: int, kind: str) -> str:
    """The one spelling of an order's id: run/step/device/kind."""
    return f"{run_id}/{step:05d}/{device:05d}/{kind}"


class AnswerStatus(StrEnum):
    DONE = "done"
    REFUSED = "refused"  # the agent will not (unknown model, bad order)
    FAILED = "failed"  # it tried and could not
    LOST = "lost"  # the agent died or its session ended, and it did not come back with a result in time
    TIMEOUT = "timeout"  # the agent lives, the deadline passed
    GARBAGE = "garbage"  # it answered something that cannot be: wrong digest, wrong size, NaN


@dataclass(frozen=True, slots=True)
class TrainReply:
    """What a finished training tells: sample counts and losses; the model itself stays on the device."""

    samples: int
    sgd_steps: int
    mean_loss: float
    mean_squared_loss: float
    model_digest: str
    cpu_s: float = 0.0
    device_s: float = 0.0
    late_s: float = 0.0
    downloaded_bytes: int = 0
    download_s: float = 0.0


@dataclass(frozen=True, slots=True)
class UploadReply:
    """An uploaded model: float32 vector, shape (parameters,), verified against its digest."""

    model: Vector
    model_digest: str
    uploaded_bytes: int = 0
    upload_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SyncReply:
    """A global model that reached a device."""

    downloaded_bytes: int = 0
    download_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TransferReply:
    """Ballast that was moved: whole transfers, their bytes and the device seconds they took together."""

    transfers: int
    transferred_bytes: int
    transfer_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The one answer to an order. `reply` is set exactly when `status` is DONE and the order yields one."""

    order_id: str
    device: int
    step: int
    status: AnswerStatus
    reason: str = ""
    reply: TrainReply | UploadReply | SyncReply | TransferReply | None = None
