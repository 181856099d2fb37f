"""Orders that the controller gives to devices, and the one answer each order gets.

An `order_id` is idempotent: the same order sent again is answered from disk, not carried out twice.
Devices are indices 0..N-1 of the experiment; the fleet knows their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.local_training import LocalTraining
from roambench.contract.phases import Phase

Vector = npt.NDArray[np.float32]  # a flat model, shape (parameters,)


@dataclass(frozen=True, slots=True)
class TrainOrder:
    """Download the AP's model, build the start model and train.

    `previous_digest` is a second model to download: the present one of the AP where the device was before,
    for start rules that mix it in; empty: none.
    """

    order_id: str
    device: int
    step: int
    ap: int
    start_digest: str  # hex digest of the AP's model version
    training: LocalTraining
    download_mbit_s: float = 0.0  # 0: the link's native speed
    previous_digest: str = ""

    @property
    def model_digests(self) -> tuple[str, ...]:
        """Return which published models the order lets its device download."""
        return (self.start_digest, self.previous_digest) if self.previous_digest else (self.start_digest,)


@dataclass(frozen=True, slots=True)
class ProgramOrder:
    """Download a message and let the device's program answer it (`program_spec.ProgramSpec`).

    Message and answer are bytes that neither controller nor agent reads. The answer stays on the device, as a
    trained model does, until an upload order names this one.
    """

    order_id: str
    device: int
    step: int
    ap: int
    digest: str  # hex digest of the message's blob
    evaluates: bool = False  # no training: its phase is another, and never wasted
    download_mbit_s: float = 0.0  # 0: the link's native speed
    limit_s: float = 0.0  # device time: a deadline shorter than the run's; 0: the run's

    @property
    def model_digests(self) -> tuple[str, ...]:
        """Return which published messages the order lets its device download."""
        return (self.digest,)

    @property
    def phase(self) -> Phase:
        """The phase in which the program computes."""
        return Phase.EVALUATE if self.evaluates else Phase.TRAIN

    @property
    def training_id(self) -> str:
        """The training that the phases of this order are of; empty: of none."""
        return "" if self.evaluates else self.order_id


@dataclass(frozen=True, slots=True)
class UploadOrder:
    """Send the finished model of `train_order_id`, or the answer of a program to the order of that id, to the
    AP where the device is now."""

    order_id: str
    device: int
    step: int
    ap: int
    train_order_id: str
    upload_mbit_s: float = 0.0
    keeps_model: bool = False  # the model stays on the device as its own (the MIDDLE family)
    free: bool = False  # not communication: unpaced, outside every measured phase, counted as no bytes
    message_bytes: int = 0  # of a program's answer: the most; 0: a model of the run
    evaluates: bool = False  # the answer is of a program order that does
    limit_s: float = 0.0  # device time: a deadline shorter than the run's; 0: the run's
    #: Where models are coded as differences: the version that the training began from.
    base_digest: str = ""
    plain: bool = False  # as it is, although the run's models are coded

    @property
    def training_id(self) -> str:
        """The training whose outcome decides on the joules of this upload; empty: none's does."""
        return "" if self.evaluates else self.train_order_id

    @property
    def collects(self) -> bool:
        """In a decentralised run: the mixed model that the device holds, whichever exchange made it, is
        wanted for scoring. It stays held (`keeps_model`), the transfer is `free`."""
        return not self.train_order_id


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


#: The reason of a DISCARD of a model that its device does not know to have arrived.
HAD_ARRIVED: Final = "it had arrived"


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
    free: bool = False  # not communication: unpaced, outside every measured phase, counted as no bytes

    @property
    def model_digests(self) -> tuple[str, ...]:
        """Return which published models the order lets its device download."""
        return (self.digest,)


@dataclass(frozen=True, slots=True)
class ExchangeOrder:
    """One iteration of decentralised learning on one device: a local half step, then x_i ← Σ_j W_ij x_j.

    1. Train from the held model, which is what the device's last exchange left; with a `start_digest`,
       download that published model first and start from it, without momentum. Otherwise the
       velocity of SGD's momentum goes on from order to order: it stays on the device and is never mixed.
    2. Send the half-step model to every neighbour and get theirs, all at the same time. Each neighbour has an
       order of the same `step` that names this device: the orders of a step are given together.
    3. The mixed model is `roambench.vectors.weighted_mean` of the half-step models in ascending order of
       device, oneself at one's place among them, with the float64 weights given here; a model of weight 0 is
       not added. A neighbour that failed, or from whom no model came within `deadline_s`, is left out: its
       weight is added to `own_weight`, in ascending order of those left out (float64).
    4. The mixed model is held from now on. DONE tells who was left out.

    A half step that cannot be done is REFUSED or FAILED: nothing is sent, and the model held before stays
    held. REFUSED with the reason `NO_MODEL_HELD`: the device has nothing to start from (it lost its disk).
    """

    order_id: str
    device: int
    step: int
    neighbours: tuple[int, ...]  # ascending, without oneself; they send to this device and get from it
    weights: tuple[float, ...]  # W_ij of each of them; may be negative
    own_weight: float  # W_ii
    training: LocalTraining  # the half step
    start_digest: str = ""  # empty: the held model
    download_mbit_s: float = 0.0  # of the start model; 0: the link's native speed
    exchange_mbit_s: float = 0.0  # of all that the device sends together, and of all that it gets; 0: native
    deadline_s: float = 60.0  # device time from the end of the half step until late neighbours are left out

    @property
    def model_digests(self) -> tuple[str, ...]:
        """Return which published models the order lets its device download."""
        return (self.start_digest,) if self.start_digest else ()


#: The reason of a REFUSED exchange whose device has no model to start from.
NO_MODEL_HELD: Final = "no model held"


@dataclass(frozen=True, slots=True)
class IdleOrder:
    """Nothing to do in this step; `present` tells background phases apart (idle or absent)."""

    order_id: str
    device: int
    step: int
    present: bool


@dataclass(frozen=True, slots=True)
class TransferOrder:
    """Move `total_bytes` of padding `repeats` times, back to back: a window of a link's calibration.

    Not a step's order: rounds neither give it nor see its answer.
    """

    order_id: str
    device: int
    step: int
    upload: bool  # False: a download
    total_bytes: int
    mbit_s: float  # 0: the link's native speed
    repeats: int


@dataclass(frozen=True, slots=True)
class UnknownOrder:
    """An order of a kind that this version does not know: its device refuses it."""

    order_id: str
    device: int
    step: int


#: Orders that are outstanding until the device answers.
Task = TrainOrder | ProgramOrder | UploadOrder | SyncOrder | ExchangeOrder
Order = Task | DiscardOrder | IdleOrder


def rests_of(order: Order | TransferOrder | UnknownOrder) -> float:
    """Return how many rests a device takes while it carries the order out, at most: half a one before the
    first measured phase, a whole one after each."""
    match order:
        case TrainOrder() | ProgramOrder():
            return 3.5
        case UploadOrder():
            return 0.0 if order.collects else 2.5
        case SyncOrder():
            return 0.0 if order.free else 2.5
        case ExchangeOrder():
            return 3.5 if order.start_digest else 2.5
        case _:
            return 0.0


@dataclass(frozen=True, slots=True)
class Peer:
    """A device as its neighbours find it; no `address`: they do not."""

    name: str
    address: str


def order_id(run_id: str, step: int, device: int, kind: str) -> str:
    """The one spelling of an order's id: run/step/device/kind."""
    return f"{run_id}/{step:05d}/{device:05d}/{kind}"


class AnswerStatus(StrEnum):
    """The end of an order."""

    DONE = "done"
    REFUSED = "refused"  # the agent will not (unknown model, bad order)
    FAILED = "failed"  # it tried and could not
    LOST = "lost"  # the agent died or its session ended, and it did not come back with a result in time
    TIMEOUT = "timeout"  # the agent lives, the deadline passed
    GARBAGE = "garbage"  # it answered something that cannot be: wrong digest, wrong size, NaN


@dataclass(frozen=True, slots=True)
class TrainReply:
    """A finished training: sample counts and losses; the model itself stays on the device. Of a program's
    answer, which is not read, neither samples, steps nor losses (NaN) are known.

    It lasted `device_s` of device time; `late_s` (emulation only) is how much longer the host needed.
    """

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
    coding_s: float = 0.0  # device time in which what was downloaded was decoded


@dataclass(frozen=True, slots=True)
class UploadReport:
    """A device's account of an upload; the model itself arrived before it."""

    model_digest: str
    uploaded_bytes: int = 0
    upload_s: float = 0.0
    coding_s: float = 0.0


_NOTHING: Final[Vector] = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class UploadReply:
    """An uploaded model: float32 vector, shape (parameters,), verified against its digest. Where a program's
    answer was uploaded, `message` has its bytes, and there is no model."""

    model: Vector
    model_digest: str
    uploaded_bytes: int = 0
    upload_s: float = 0.0
    message: bytes = b""
    coding_s: float = 0.0  # device time in which its device coded it

    def without_model(self) -> UploadReply:
        """Return what it tells besides its model. (`dataclasses.replace` takes three times as long.)"""
        return UploadReply(
            _NOTHING, self.model_digest, self.uploaded_bytes, self.upload_s, self.message, self.coding_s
        )


@dataclass(frozen=True, slots=True)
class SyncReply:
    """A global model w_c that reached a device.

    `divergence`: how far the device's own model w_m was from it, |w_c - w_m| / |w_c| (MIDDLE Eq. 23); None
    where it had no model itself, or is not asked.
    """

    downloaded_bytes: int = 0
    download_s: float = 0.0
    divergence: float | None = None
    coding_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A neighbour whose half-step model did not enter the mixed one, or who did not take ours."""

    device: int
    reason: str  # "late", "lost", "refused", "garbage", with details behind a colon
    moved_bytes: int = 0  # as far as the model came


@dataclass(frozen=True, slots=True)
class ExchangeReply:
    """A device's account of an iteration. The model itself stays on the device, held under `model_digest`.

    Bytes and seconds are of whole half-step models and their frames; a model that was left out counts as far
    as it came. `exchange_s` is from the end of the half step until the last model was sent and received.
    """

    samples: int
    sgd_steps: int
    mean_loss: float
    mean_squared_loss: float
    model_digest: str  # of the mixed model; simulated fleets leave it empty
    left_out: tuple[LeftOut, ...] = ()  # ascending by device
    not_taken: tuple[LeftOut, ...] = ()  # who did not take the whole half-step model, ascending by device
    sent_bytes: int = 0
    received_bytes: int = 0
    exchange_s: float = 0.0
    cpu_s: float = 0.0
    device_s: float = 0.0  # of the half step
    late_s: float = 0.0
    downloaded_bytes: int = 0  # of the start model
    download_s: float = 0.0
    model_bytes: int = 0  # of one half-step model; 0: unknown


@dataclass(frozen=True, slots=True)
class TransferReply:
    """Padding that was moved: whole transfers, their bytes and the device seconds they took together."""

    transfers: int
    transferred_bytes: int
    transfer_s: float


Reply = TrainReply | UploadReport | UploadReply | SyncReply | ExchangeReply | TransferReply


@dataclass(frozen=True, slots=True)
class Answer:
    """The one answer to an order. `reply` is set when `status` is DONE and the order yields one. It is also
    set where a training, or a half step, that had begun was REFUSED: then it tells the cost, and no losses
    (NaN)."""

    order_id: str
    device: int
    step: int
    status: AnswerStatus
    reason: str = ""
    reply: Reply | None = None


@dataclass(frozen=True, slots=True)
class GivenOrder:
    """An order as its device gets it."""

    order: Order | TransferOrder | UnknownOrder
    deadline_s: float  # from its arrival, in device time
    #: The run goes on with this step should its controller die: what the device held before it is kept until
    #: a later one is named. 0: there is nothing to go on from yet.
    resumes_at: int = 0
    peers: tuple[Peer, ...] = ()  # of an exchange: its neighbours, in their order
    in_session: bool = False  # what it downloads comes within the session (`model_blob.fits_session`)

    def done(self, reply: Reply) -> Answer:
        """It was carried out."""
        return self._answer(AnswerStatus.DONE, "", reply)

    def refused(self, reason: str, cost: TrainReply | ExchangeReply | None = None) -> Answer:
        """Its device will not, or has tried without success at this cost."""
        return self._answer(AnswerStatus.REFUSED, reason, cost)

    def failed(self, reason: str) -> Answer:
        """Its device tried and could not."""
        return self._answer(AnswerStatus.FAILED, reason)

    def late(self, reason: str) -> Answer:
        """Its deadline passed before its device was done."""
        return self._answer(AnswerStatus.TIMEOUT, reason)

    def _answer(self, status: AnswerStatus, reason: str, reply: Reply | None = None) -> Answer:
        order = self.order
        return Answer(order.order_id, order.device, order.step, status, reason, reply)
