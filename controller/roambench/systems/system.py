"""A learning system as ten small choices (docs/algorithms.md); the round loop is the same for all.

A step: collect finished models at the edge, aggregate, now and then in the cloud, select who trains next.
Every choice is a pure function or an enum. A new system is one file that composes them, and one row of the
catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.aggregation import Folding
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import Vector
from roambench.contract.phases import Phase
from roambench.energy.energy_value import Energy
from roambench.mobility.association import Association
from roambench.mobility.trace import Trace
from roambench.vectors import Weights

#: What a rule keeps from one aggregation to the next: named flat vectors of float32 or float64, of any
#: length. They lie in the run's checkpoint; a rule returns new ones and writes to none.
Memory = Mapping[str, npt.NDArray[np.floating[Any]]]


class UploadRule(Enum):
    """The time at which a finished model is sent, and so its AP."""

    NEXT_STEP = "next_step"  # at the beginning of a later step, to the AP where the device is then
    SAME_STEP = "same_step"  # at the end of the step it was trained in, to the AP it was downloaded from


#: The start rule that needs the model of the AP where the device was at the step before.
EDGE_PAIR: Final = "edge_pair"


class Participants(Enum):
    """The APs that the cloud aggregates."""

    ALL = "all"  # every AP, also those that aggregated nothing
    AGGREGATED = "aggregated"  # A: those that aggregated a model since the last cloud aggregation


class SyncRule(Enum):
    """Rule that says who receives the new global model."""

    APS = "aps"
    APS_AND_DEVICES = "aps_and_devices"  # every device's own model too


@dataclass(frozen=True, slots=True)
class Training:
    """A finished local training whose model the device holds. `ap` is where it was downloaded, `distance_m`
    away by the trace. `refused`: why the device holds no model of it after all; rules see no such training.
    `undelivered`: what an access point got when it asked for the model and that did not come."""

    device: int
    step: int
    ap: int
    order_id: str
    samples: int
    mean_loss: float = 0.0
    mean_squared_loss: float = 0.0
    sgd_steps: int = 0  # 0 in a rehearsal, which trains nothing
    distance_m: float = 0.0
    refused: str = ""
    undelivered: str = ""
    start_digest: str = ""  # the version it began from, where its model travels as the difference to that


@dataclass(frozen=True, slots=True)
class PastTraining:
    """Selection's memory of a device's newest uploaded training; `utility` as Selection rated it."""

    step: int
    ap: int
    utility: float


@dataclass(frozen=True, slots=True)
class SpentEnergy:
    """Gross energy of a device since the run began, measured or modelled, whole and by phase; `u_joules` of
    `total` knows which errors the phases share. No joules in a rehearsal, nor before the first work."""

    total: Energy = field(default_factory=Energy)
    phases: Mapping[Phase, Energy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Selection's view of one step: parallel tuples of the present devices (ascending), their APs and the
    distances to these. `memory` is what `choose` last returned; empty the first time. `energy` is by device,
    and empty unless the selection `sees_energy`; `charges` are by device, as shares of a full battery, and
    empty without batteries. `accuracy` is the last score of a global model, on the server's test set; None
    where there is none."""

    step: int
    seed: int
    devices: tuple[int, ...]
    aps: tuple[int, ...]
    past: Mapping[int, PastTraining]  # by device; absent before its first upload
    last_sync_step: int  # -1 before the first cloud aggregation
    distances_m: tuple[float, ...]
    memory: Memory = field(default_factory=dict)
    energy: Mapping[int, SpentEnergy] = field(default_factory=dict)
    charges: Mapping[int, float] = field(default_factory=dict)
    accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """The devices that train, any order, the memory that `choose` wants to find next time, and the local
    epochs of devices that shall not have those of the system's training."""

    devices: Sequence[int]
    memory: Memory
    epochs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EdgeInput:
    """Models that reached one AP in a step, ascending by device. `reference` is the AP's previous model.

    `models`, `samples`, `trainings` and `distances_m` are parallel. A model's staleness is
    `step - trainings[i].step`.
    `memory` is what the rule last returned for this AP; empty the first time. `vectors` came behind the
    models, by name, parallel to them; the AP merges them by itself, as the local algorithm says. `trained` is
    how many entries of a model training moves: the first ones, before buffers; 0 in a rehearsal. `energy` of
    all devices is that before the step's uploads, and empty unless the system `sees_energy`; `charges` are
    those of all devices, and empty without batteries.
    """

    reference: Vector
    models: Sequence[Vector]
    samples: Sequence[int]  # training samples behind each model
    step: int = 0  # of the upload
    ap: int = 0
    trainings: Sequence[Training] = ()  # device, step, AP, samples and losses of the training
    distances_m: Sequence[float] = ()  # from the AP to the devices, now
    memory: Memory = field(default_factory=dict)
    vectors: Mapping[str, Sequence[Vector]] = field(default_factory=dict)
    trained: int = 0
    energy: Mapping[int, SpentEnergy] = field(default_factory=dict)
    charges: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApWork:
    """Trainings whose models an AP aggregated since the last cloud aggregation, as they came."""

    trainings: tuple[Training, ...] = ()
    last_step: int = -1  # of its newest aggregation

    @property
    def samples(self) -> int:
        """Training samples behind its models."""
        return sum(training.samples for training in self.trainings)

    @property
    def models(self) -> int:
        """Number of models that it aggregated."""
        return len(self.trainings)

    @property
    def mean_loss(self) -> float:
        """Mean training loss, weighted by samples; NaN where nothing was aggregated."""
        whole = sum(training.samples * training.mean_loss for training in self.trainings)
        return whole / self.samples if self.samples else math.nan

    def plus(self, step: int, trainings: Iterable[Training]) -> ApWork:
        """The same after an aggregation of these at `step`."""
        these = tuple(trainings)
        return ApWork((*self.trainings, *these), step if these else self.last_step)


@dataclass(frozen=True, slots=True)
class CloudInput:
    """AP models that the cloud aggregates, ascending by AP. `reference` is the previous global model.

    `aps`, `models`, `aggregated_samples` and `work` are parallel. `memory` is what the rule last returned;
    empty the first time. `trained`, `energy` and `charges` as an AP's rule sees them.
    """

    reference: Vector
    aps: Sequence[int]
    models: Sequence[Vector]
    aggregated_samples: Sequence[int]  # per AP: samples behind the models it aggregated since the last sync
    device_samples: Sequence[int]  # of every device of the experiment
    ap_count: int
    step: int = 0
    last_sync_step: int = -1  # -1 before the first cloud aggregation
    work: Sequence[ApWork] = ()  # per AP: the trainings behind it, their counts and losses, the newest step
    memory: Memory = field(default_factory=dict)
    trained: int = 0
    energy: Mapping[int, SpentEnergy] = field(default_factory=dict)
    charges: Mapping[int, float] = field(default_factory=dict)


#: Applies a placement rule to a trace; the seed only matters to rules that draw.
AssociationRule = Callable[[Trace, int], Association]
#: (step of the training, step now, step of the last cloud aggregation or -1) -> would an AP accept it now?
Eligibility = Callable[[int, int, int], bool]
#: What a rule returns: the new model, float32 of shape (parameters,), one weight per model (they add up to 1)
#: and, if it likes, the memory that it wants to find next time (without it the memory stays as it is).
RuleAnswer = tuple[Vector, Weights] | tuple[Vector, Weights, Memory]
#: A rule that is a `FoldedEdge` never sees all models at once.
EdgeRule = Callable[[EdgeInput], RuleAnswer]
CloudRule = Callable[[CloudInput], RuleAnswer]


@dataclass(frozen=True, slots=True)
class FoldedEdge:
    """An EdgeRule whose weights are known as models arrive: `share` of the samples behind a model, over the
    sum of shares. The round loop folds such models into one accumulator as they come, and keeps none."""

    share: Callable[[int], float]

    def __call__(self, edge: EdgeInput) -> tuple[Vector, Weights]:
        """The edge's model and the weights of what it was made from."""
        folding = Folding()
        for model, samples in zip(edge.models, edge.samples, strict=True):
            folding.add(model, self.share(samples))
        return folding.close()


@dataclass(frozen=True, slots=True)
class Selection:
    """`choose` names the devices that train, any order; a `Selected` has a memory, too. `rate` gives the
    utility of a finished training from (training, its model, the global model), for `choose` to see at later
    steps; None: not needed. `sees_energy`: candidates come with their joules so far."""

    choose: Callable[[Candidates], Sequence[int] | Selected]
    rate: Callable[[Training, Vector, Vector], float] | None = None
    sees_energy: bool = False


@dataclass(frozen=True, slots=True)
class StartModel:
    """Names of `learning.start_models` rules: for a device that stayed at its AP, and one that moved.

    Moved: its AP at t-1 is not this one, trained there or not; absent at t-1 counts as moved; at the first
    step no device has moved.
    """

    stayed: str = "ap"
    moved: str = "ap"

    @classmethod
    def of(cls, stayed: str, moved: str, fresh_uses_ap: bool, fresh: str = "ap") -> StartModel:
        """With `fresh_uses_ap`, a moved device whose own model is still the last sync's starts by the rule
        `fresh`: the order then spells "moved|fresh"."""
        return cls(stayed, f"{moved}|{fresh}" if fresh_uses_ap else moved)


@dataclass(frozen=True, slots=True)
class System:
    """The ten choices, one of them the local training, and k2 (steps between cloud aggregations)."""

    name: str
    training: LocalTraining  # its objective and length; each order adds its start rule and its seed
    k2: int
    association: AssociationRule
    selection: Selection
    start_model: StartModel
    upload: UploadRule
    eligible: Eligibility
    edge_weights: EdgeRule
    cloud_participants: Participants
    cloud_weights: CloudRule
    sync: SyncRule
    #: The device part of a sync costs nothing: outside every measured phase, of no bytes.
    sync_is_free: bool = False
    #: What APs aggregated in the step of a sync counts at the next one, too (MIDDLE Eq. 7 as printed).
    counts_sync_step: bool = False
    #: Train only devices whose model will still be accepted when they come back (the authors' simulator;
    #: if there are none, all). A real bench cannot know: refused where energy is reported.
    lookahead: bool = False
    #: A cloud aggregation that is due while no AP aggregated anything still empties Tr (Alg. 1 line 29).
    empty_sync_clears: bool = True
    #: Its edge and cloud rules see the joules so far.
    sees_energy: bool = False
    #: The devices, of those that are to upload, whose models travel as they are in a run that codes them.
    plain_uploads: Callable[[Candidates], Selected] | None = None

    def cloud_due(self, step: int) -> bool:
        """c % k2 == 0 with c = t where uploads come a step later (t = 0 only trains), else c = t + 1,
        because MIDDLE counts its steps from 1."""
        count = step if self.upload is UploadRule.NEXT_STEP else step + 1
        return count > 0 and count % self.k2 == 0

    @property
    def keeps_models(self) -> bool:
        """True where devices keep their models: kept after the upload, replaced by cloud aggregations."""
        return self.sync is SyncRule.APS_AND_DEVICES

    def trains_at(self, step: int, steps: int) -> bool:
        """Return whether a model trained at `step` of `steps` can still be uploaded within the run."""
        return self.upload is UploadRule.SAME_STEP or step < steps - 1
