"""Modelled joules of work that no meter saw: Eq. 1 for transfers, assumed power times seconds for training.

A ledger of a million rows at once; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.phases import COMPUTING_PHASES, Phase
from roambench.energy.energy_value import UncertaintyPart
from roambench.energy.ledger import PHASES, Chosen, Codes, Errors, Ledger, Numbers
from roambench.energy.links.models import KnownLink, LinkModel
from roambench.energy.links.radio_work import independent_errors
from roambench.energy.modelled.device_power import DevicePower

_UP, _REST = (PHASES.index(phase) for phase in (Phase.UPLOAD, Phase.REST))
_UNMOVING = tuple(PHASES.index(phase) for phase in (*COMPUTING_PHASES, Phase.REST))
_TERMS: Final = 4  # of a row: the three axes of a link's parameters and a meter's gain


@dataclass(frozen=True, slots=True)
class EnergyModel:
    """A link model and a power model together: joules of transfers and trainings.

    `overhead_bytes` is Eq. 1's Delta: what protocols add to every transfer's own bytes.
    """

    links: LinkModel
    power: DevicePower
    overhead_bytes: int = 0

    def sources(self, link: str, device: str) -> tuple[str, str, str, str]:
        """Sources of a transfer's errors: the three directions of its parameters' error, and the gain."""
        own = device in self.links.devices
        source, gain = (device, device) if own else (f"{self.links.name} {link}", self.links.name)
        return f"{source} 0", f"{source} 1", f"{source} 2", f"{gain} gain"

    def known(self, link: str, device: str) -> tuple[KnownLink, np.ndarray]:
        """The parameters for a link and their independent errors, a column each."""
        known = self.links.of(link, device)
        return known, independent_errors(known)


@dataclass(frozen=True, eq=False)
class ModelledWork:
    """Transfers and trainings that were done, and rests around them: the part of their rows that no energy
    model decides.

    All columns have the shape (rows,). `device` is a place in `names`, `phase` in PHASES (download, training,
    evaluation, upload, exchange or rest), `outcome` in OUTCOMES and `link` in `links`; NONE is an outcome or
    training that is none. Rows of one training share a number in `training`. `train_s` counts in trainings,
    evaluations and rests only, `mbit_s` (positive) and the last columns in transfers only; they are 0
    elsewhere.
    """

    names: Sequence[str]
    links: Sequence[str]
    device: Codes
    step: Codes
    at_step: Codes
    phase: Codes
    outcome: Codes
    training: Codes
    order_ids: Sequence[str]
    train_order_ids: Sequence[str]
    train_s: Numbers
    transferred_bytes: Codes
    mbit_s: Numbers
    link: Codes
    distance_m: Numbers
    sends: Chosen | None = None  # which exchanges between devices are sent; None: there are none
    transfers: Codes | None = None  # how many a row stands for, each with its overhead; None: one each

    def sent(self) -> Chosen:
        """Return which rows' bytes leave the device."""
        up: Chosen = self.phase == _UP
        return up if self.sends is None else up | self.sends


@dataclass(frozen=True, eq=False)
class ModelledLedger(Ledger):
    """The ledger of `work`, with what its devices draw anyway in the rows' seconds, J, shape (rows,).

    All uncertainty is what the link model leaves open, common to all rows of the model, in gross and net
    alike; assumed powers have none that is known.
    """

    work: ModelledWork
    idle_j: Numbers


def modelled_ledger(work: ModelledWork, model: EnergyModel) -> ModelledLedger:
    """Eq. 1 for the transfers, the devices' own power for the trainings."""
    moved, up = ~np.isin(work.phase, _UNMOVING), work.sent()
    transfers = 1 if work.transfers is None else work.transfers
    size_mbit = (work.transferred_bytes + model.overhead_bytes * transfers) * 8e-6
    duration_s = np.divide(size_mbit, work.mbit_s, out=work.train_s.copy(), where=moved)
    present = np.unique(work.device)
    watts = np.zeros((len(work.names), 2))
    for number in present.tolist():
        power = model.power.of(number)
        watts[number] = power.idle_w, power.train_w
    # Parameters by link class, and by device where one has its own fit.
    own = np.array([name in model.links.devices for name in work.names], bool)[work.device]
    group = work.link * (len(work.names) + 1) + np.where(own, work.device + 1, 0)
    groups, of_group = np.unique(group[moved], return_inverse=True)
    pairs = [divmod(number, len(work.names) + 1) for number in groups.tolist()]
    known = [model.known(work.links[link], work.names[n - 1] if n else "") for link, n in pairs]
    values = np.array([link.values for link, _ in known]).reshape(-1, 3)[of_group]
    mbit, active_s, sent = size_mbit[moved], duration_s[moved], up[moved]
    net_j = np.where(work.phase == _REST, 0.0, watts[work.device, 1] * duration_s)
    net_j[moved] = 1e-3 * (np.where(sent, values[:, 0], values[:, 1]) * mbit + values[:, 2] * active_s)
    sources: list[str] = []
    source, u_j = np.zeros((len(group), 0), np.int64), np.zeros((len(group), 0))
    if any(link.u_gain or root.any() for link, root in known):
        source, u_j = np.zeros((len(group), _TERMS), np.int64), np.zeros((len(group), _TERMS))
        roots = np.array([root for _, root in known])[of_group]
        gains = np.array([link.u_gain for link, _ in known])[of_group]
        texts = [model.sources(work.links[link], work.names[n - 1] if n else "") for link, n in pairs]
        sources = list(dict.fromkeys(text for row in texts for text in row))
        source[moved] = np.array([[sources.index(text) for text in row] for row in texts])[of_group]
        for axis in range(3):
            root = np.where(sent, roots[:, 0, axis], roots[:, 1, axis])
            u_j[moved, axis] = 1e-3 * (root * mbit + roots[:, 2, axis] * active_s)
        u_j[moved, 3] = gains * net_j[moved]
    idle_j = watts[work.device, 0] * duration_s
    errors = Errors(tuple((UncertaintyPart.MODEL, text) for text in sources), source, u_j)
    return ModelledLedger(
        "modelled",
        work.names,
        work.device,
        work.step,
        work.phase,
        work.outcome,
        work.training,
        duration_s,
        duration_s,
        idle_j + net_j,
        net_j,
        {"gross": errors, "net": errors},
        work,
        idle_j,
    )
