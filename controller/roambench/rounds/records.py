"""Everything the round loop writes down, one dataclass per kind of fact; the journal keeps them in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from roambench.contract.phases import Outcome

#: MIDDLE's Eq. 23 at a cloud aggregation: how far the devices' own models were from its global model.
LOCAL_DIVERGENCE: Final = "local model divergence"


def ap_metric(ap: int) -> str:
    """The accuracy of an access point's model, before a cloud aggregation replaces it."""
    return f"AP {ap}"


#: When a burst of clock probes was made: never inside a measured phase or an idle baseline.
ClockOccasion = Literal["hello", "before", "during", "after"]


#: The rules that see joules, each by one look in a step; "aggregation" is at the edge and in the cloud.
EnergyRules = Literal["selection", "aggregation", "mixing"]


@dataclass(frozen=True, slots=True)
class StepOpened:
    """A time step begins: who is present and where (parallel tuples; `aps` and `distances_m` per device)."""

    step: int
    devices: tuple[int, ...]
    aps: tuple[int, ...]
    distances_m: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class EnergySeen:
    """Gross energy since the run began, as rules saw it: a row of the parallel tuples is a device's phase, or
    all its phases ("")."""

    step: int
    devices: tuple[int, ...]
    phases: tuple[str, ...]
    joules: tuple[float, ...]
    u_joules: tuple[float, ...]  # standard uncertainties
    covered_s: tuple[float, ...]  # seconds that hold the joules
    gap_s: tuple[float, ...]  # seconds that no meter saw
    rules: EnergyRules = "selection"


@dataclass(frozen=True, slots=True)
class BatteriesSeen:
    """The batteries of all devices at the beginning of a step (parallel tuples by device); devices that are
    `off` are not in `StepOpened`, wherever they are."""

    step: int
    charges: tuple[float, ...]  # shares of the capacity
    spent_j: tuple[float, ...]  # gross joules of orders since the run began
    worked_s: tuple[float, ...]  # their seconds
    charging: tuple[int, ...]  # devices that are charged in this step
    off: tuple[int, ...]
    at_s: float = 0.0  # device time since the run began, of agents


@dataclass(frozen=True, slots=True)
class BoardSwitched:
    """The power of a device's board was cut for want of charge, or given again."""

    step: int
    device: int
    on: bool
    at_ns: int  # the run's clock


@dataclass(frozen=True, slots=True)
class OrderGiven:
    """A device was given an order."""

    step: int
    device: int
    order_id: str
    kind: Literal["train", "upload", "sync", "discard", "idle", "exchange", "evaluate"]
    ap: int  # -1 where an order names none
    train_order_id: str = ""  # for upload and discard
    start_digest: str = ""  # for train, and the global model's for sync
    distance_m: float = 0.0
    link: str = ""  # "wifi" or "lte" by the placement's distance
    throughput_mbit_s: float = 0.0  # Eq. 2 in the order's direction, 0 where it names no transfer
    paced_mbit_s: float = 0.0  # what the link is held to; below `throughput_mbit_s`: clipped; 0: native
    epochs: int = 0  # of a training whose selection chose its epochs; 0: the system's
    plain: bool = False  # an upload that was not coded, by the system's choice


@dataclass(frozen=True, slots=True)
class OrderAnswered:
    """An order was answered; figures that its kind does not have are left at their defaults."""

    step: int
    device: int
    order_id: str
    status: str  # contract.orders.AnswerStatus
    reason: str = ""
    transferred_bytes: int = 0
    transfer_s: float = 0.0
    train_s: float = 0.0
    samples: int = 0
    mean_loss: float | None = 0.0  # None: the training was not computed by then, perhaps never
    late_s: float = 0.0
    coding_s: float = 0.0  # device time in which a model was coded or decoded


@dataclass(frozen=True, slots=True)
class EdgeAggregated:
    """An AP replaced its model by the weighted mean of `devices`' models (weights sum to 1)."""

    step: int
    ap: int
    devices: tuple[int, ...]
    train_order_ids: tuple[str, ...]
    weights: tuple[float, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class CloudAggregated:
    """The cloud replaced the global model; `aps` empty: nothing had been aggregated, the model stays."""

    step: int
    aps: tuple[int, ...]
    weights: tuple[float, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class OutcomeDecided:
    """The outcome of a training; `step` is when it was decided. `reason`, unless it was aggregated: of a
    wasted one "absent", "cloud aggregation", "retrained", "not eligible" or "end of run"; of a failed one
    what broke: "timeout", "lost", "refused", "upload timeout", ... with details behind a colon."""

    step: int
    device: int
    train_order_id: str
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StepClosed:
    """A time step ended. `outstanding` is Tr and `participating_aps` is the set A, both after the step."""

    step: int
    aggregated: int
    outstanding: tuple[int, ...]
    participating_aps: tuple[int, ...]
    accuracy: float | None  # of the global model (decentralised: mean of the devices'); None: not scored,
    # or scored by `MetricsScored` alone
    loss: float | None
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PeersDescribed:
    """Facts of a decentralised run: which devices are of high mobility, and the speeds that mixing may go
    by."""

    step: int  # before which it holds
    high_mobility: tuple[int, ...]
    speeds: tuple[float, ...]  # of all devices, in one unit


@dataclass(frozen=True, slots=True)
class MixingPlanned:
    """The mixing matrix W of a step as it was ordered: row after row, ascending by device in each.

    `counts[i]` entries belong to device i, oneself among them; a device that is absent has none.
    """

    step: int
    counts: tuple[int, ...]
    columns: tuple[int, ...]
    weights: tuple[float, ...]
    spectral_gap: float | None  # 1 - λ2(WᵀW) of the devices present; None: not computed
    distribution_distance: float | None  # mean over the devices present; None: classes unknown


@dataclass(frozen=True, slots=True)
class ModelsExchanged:
    """A device mixed its model with its neighbours'. `left_out`: neighbours whose models did not enter, their
    weight went to the device's own; `reasons` is parallel. `rounds.exchanges` tells every single transfer."""

    step: int
    device: int
    order_id: str
    left_out: tuple[int, ...]
    reasons: tuple[str, ...]
    sent_bytes: int
    received_bytes: int
    exchange_s: float
    downloaded_bytes: int
    download_s: float
    digest: str  # of the mixed model; empty where the fleet does not tell
    left_out_bytes: tuple[int, ...] = ()  # parallel to `left_out`: as far as their models came
    not_taken: tuple[int, ...] = ()  # neighbours who did not take the whole half-step model
    not_taken_bytes: tuple[int, ...] = ()  # parallel: as far as it was sent
    model_bytes: int = 0  # of one half-step model that moved whole; 0: none did


@dataclass(frozen=True, slots=True)
class ModelsScored:
    """The models that devices hold after a step, on the test set, and the mean of these models (`average_`).

    Scores are accuracies (0..1), where labels are no classes values of the first of the task's own metrics,
    NaN for none.
    """

    step: int
    devices: tuple[int, ...]
    scores: tuple[float, ...]
    losses: tuple[float, ...]
    digests: tuple[str, ...]
    average_score: float
    average_loss: float


@dataclass(frozen=True, slots=True)
class MetricsScored:
    """Metrics of a step by their names, NaN for none, written before `StepClosed`: a task's own of the global
    model (decentralised: mean of the devices'), and `local model divergence` (MIDDLE's Eq. 23) where it was
    sent to devices that keep models. With `rounds.score_aps` also `AP 0`, ... and accuracies by
    class.

    `better`: of each of the task's own "higher" or "lower", the one it is judged by first; "" for others.
    """

    step: int
    names: tuple[str, ...]
    values: tuple[float, ...]
    better: tuple[Literal["higher", "lower", ""], ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """`step` was the last one played although the trace has more; a run to the trace's end has no such
    record."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """Something the fleet saw besides answers: hello, session lost, refused upload, clock offset.

    `device` is -1 when the peer could not be matched to one; `name` is then what it claimed.
    """

    step: int  # the step in which it was seen; -1 before the first
    device: int
    name: str
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ClockProbed:
    """A burst of four-stamp exchanges with an agent, judged by the one with the shortest round trip.

    At `at_ns` of the controller's device time the device's clock was ahead by `offset_ns`, wrong by
    `bound_ns` at most (half of that round trip); `probes` is how many were answered. `stamps_ns` are the
    best exchange's t0 (controller), t1, t2 (device), t3 (controller). A device's clock starts again with
    every boot, so offsets of different `boot_id` do not lie on one line. Device time runs `time_scale`
    times faster than the machines' own (1 on boards): divided by it, a bound is host time.
    """

    step: int  # the step in which it was made; -1 before the first
    device: int
    occasion: ClockOccasion
    boot_id: str
    at_ns: int
    offset_ns: float
    bound_ns: float
    probes: int
    stamps_ns: tuple[int, ...]
    time_scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ReplayPaused:
    """The user holds the replay: all orders of `step` are answered, the next step has not begun."""

    step: int


@dataclass(frozen=True, slots=True)
class ReplayResumed:
    """The replay goes on; it was held from `from_ns` to `to_ns` by the `clock`: device time, in which boards
    idled and meters went on, or the host's, where device time is modelled and stood still.
    """

    step: int
    from_ns: int
    to_ns: int
    clock: Literal["device", "host"]


@dataclass(frozen=True, slots=True)
class RunResumed:
    """The controller died, and the run goes on with `step` from what it had written down: all that the log
    says before of this step and later ones is void, but for what was seen of the fleet and its clocks.
    """

    step: int
    at_ns: int  # device time; 0 where it is modelled and stood still
    outage_s: float  # of this machine's wall clock, since the last sign of the run
    from_ns: int = 0  # device time from which on what devices did and drew is void, up to `at_ns`


RoundRecord = (
    StepOpened
    | EnergySeen
    | BatteriesSeen
    | BoardSwitched
    | OrderGiven
    | OrderAnswered
    | EdgeAggregated
    | CloudAggregated
    | OutcomeDecided
    | PeersDescribed
    | MixingPlanned
    | ModelsExchanged
    | ModelsScored
    | MetricsScored
    | StepClosed
    | RunEnded
    | FleetEvent
    | ClockProbed
    | ReplayPaused
    | ReplayResumed
    | RunResumed
)

#: Kinds that stay true when the steps they were written in are played again: facts of the world.
LASTING = (FleetEvent, ClockProbed, ReplayPaused, ReplayResumed, RunResumed, PeersDescribed)
