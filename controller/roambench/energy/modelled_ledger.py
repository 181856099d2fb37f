"""All modelled rows of a run as columns: Eq. 1 and assumed powers over a million rows at once; pure.

The same rows as `EnergyModel` makes one by one, to the bit, and sums in the rows' order: a total over columns
is the total over the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import Outcome, Phase
from roambench.energy.energy_value import Energy, Part
from roambench.energy.ledger import Kind
from roambench.energy.modelled import EnergyModel, ModelledRow

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Chosen = npt.NDArray[np.bool_]

PHASES: Final = tuple(Phase)
OUTCOMES: Final = tuple(Outcome)
NONE: Final = -1
_DOWN, _TRAIN, _UP = (PHASES.index(phase) for phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD))
_BLOCK: Final = 10_000  # rows made at a time
_TERMS: Final = 4  # of a row: the three axes of a link's parameters and a meter's gain


@dataclass(frozen=True, eq=False)
class ModelledWork:
    """Transfers and trainings that were done: the part of their rows that no energy model decides.

    All columns have the shape (rows,). `device` is a place in `names`, `phase` in PHASES (download, training,
    upload or exchange), `outcome` in OUTCOMES and `link` in `links`; NONE is an outcome or training that is
    none. Rows of one training share a number in `training`. `train_s` counts in trainings only, `mbit_s`
    (positive) and the last columns in transfers only; they are 0 elsewhere.
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
        """Which rows' bytes leave the device."""
        up: Chosen = self.phase == _UP
        return up if self.sends is None else up | self.sends


@dataclass(frozen=True, eq=False)
class ModelledLedger(Sequence[ModelledRow]):
    """The rows of `work` with their joules; see `ModelledRow`.

    `u_j` and `source` have the shape (rows, up to 4): signed standard uncertainties and the places in
    `sources` of what each comes from; 0 where there is none. No columns at all: the link model tells none.
    """

    work: ModelledWork
    duration_s: Numbers
    idle_j: Numbers
    net_j: Numbers
    sources: tuple[str, ...]
    source: Codes
    u_j: Numbers

    @classmethod
    def of(cls, rows: Iterable[ModelledRow]) -> ModelledLedger:
        """The ledger of these rows; a ledger itself as it is."""
        if isinstance(rows, ModelledLedger):
            return rows
        told = tuple(rows)
        names, device = _coded(row.device for row in told)
        links, link = _coded(row.link for row in told)
        trainings, training = _coded((row.device, row.train_order_id) for row in told)
        none = np.array([not order for _, order in trainings], bool)
        sources, source = _coded(text for row in told for _, text, _ in row.terms)
        filled = np.arange(_TERMS) < np.array([len(row.terms) for row in told]).reshape(-1, 1)
        work = ModelledWork(
            names,
            links,
            device,
            np.array([row.step for row in told], np.int64),
            np.array([row.at_step for row in told], np.int64),
            np.array([PHASES.index(row.phase) for row in told], np.int64),
            np.array(
                [NONE if row.outcome is None else OUTCOMES.index(row.outcome) for row in told], np.int64
            ),
            np.where(none[training], NONE, training) if told else training,
            [row.order_id for row in told],
            [row.train_order_id for row in told],
            np.array([row.duration_s if row.phase is Phase.TRAIN else 0.0 for row in told]),
            np.array([row.transferred_bytes for row in told], np.int64),
            np.array([row.mbit_s for row in told], np.float64),
            link,
            np.array([row.distance_m for row in told], np.float64),
        )
        columns = np.zeros((len(told), _TERMS), np.int64), np.zeros((len(told), _TERMS))
        columns[0][filled] = source
        columns[1][filled] = [u for row in told for _, _, u in row.terms]
        return cls(
            work,
            np.array([row.duration_s for row in told], np.float64),
            np.array([row.idle_j for row in told], np.float64),
            np.array([row.net_j for row in told], np.float64),
            tuple(sources),
            *columns,
        )

    @property
    def gross_j(self) -> Numbers:
        """Idle plus net energy of every row, J, shape (rows,)."""
        return self.idle_j + self.net_j

    def joules(self, kind: Kind) -> Numbers:
        """Gross or net energy of every row, J, shape (rows,)."""
        return self.gross_j if kind == "gross" else self.net_j

    def total_u_j(self) -> Numbers:
        """Standard uncertainty of every row, as `ModelledRow.u_j`."""
        if not self.sources:
            return np.zeros(len(self))
        return np.array([math.hypot(*row) for block in self._blocks() for row in self.u_j[block].tolist()])

    def phases(self) -> list[Phase]:
        """Those that occur, in order of first appearance."""
        found, first = np.unique(self.work.phase, return_index=True)
        return [PHASES[code] for code in found[np.argsort(first)].tolist()]

    def of_phase(self, *phases: Phase) -> Chosen:
        """The rows of any of these phases, as a mask of shape (rows,)."""
        return np.isin(self.work.phase, [PHASES.index(phase) for phase in phases])

    def wasted(self, *, finished: bool = True) -> Chosen:
        """Whose joules were wasted; a model outstanding when the run has finished is."""
        outcomes = [Outcome.WASTED, Outcome.PENDING] if finished else [Outcome.WASTED]
        return np.isin(self.work.outcome, [OUTCOMES.index(outcome) for outcome in outcomes])

    def total(self, kind: Kind = "gross", chosen: Chosen | None = None) -> Energy:
        """Sum of the chosen rows (default: all) in their order, as of the rows one by one: what the link
        model leaves open is common to them and adds linearly."""
        rows = slice(None) if chosen is None else chosen
        terms = np.zeros(len(self.sources))
        for source, u_j in zip(self.source[rows].T, self.u_j[rows].T, strict=True):
            terms += np.bincount(source, u_j, len(self.sources))
        return Energy(
            running_sum(self.joules(kind)[rows]),
            0.0,
            running_sum(self.duration_s[rows]),
            0.0,
            tuple((Part.MODEL, text, float(u)) for text, u in zip(self.sources, terms, strict=True) if u),
        )

    def __len__(self) -> int:
        return len(self.net_j)

    def __iter__(self) -> Iterator[ModelledRow]:
        for block in self._blocks():
            yield from self._rows(block)

    @overload
    def __getitem__(self, index: int) -> ModelledRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ModelledRow, ...]: ...
    def __getitem__(self, index: int | slice) -> ModelledRow | tuple[ModelledRow, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        at = range(len(self))[index]
        (row,) = self._rows(slice(at, at + 1))
        return row

    def _blocks(self) -> Iterator[slice]:
        return (slice(start, start + _BLOCK) for start in range(0, len(self), _BLOCK))

    def _rows(self, rows: slice) -> Iterator[ModelledRow]:
        work = self.work
        values: zip[tuple[Any, ...]] = zip(
            work.device[rows].tolist(), work.step[rows].tolist(), work.at_step[rows].tolist(),
            work.phase[rows].tolist(), work.outcome[rows].tolist(), work.order_ids[rows],
            work.train_order_ids[rows], self.duration_s[rows].tolist(), self.idle_j[rows].tolist(),
            self.net_j[rows].tolist(), work.transferred_bytes[rows].tolist(), work.mbit_s[rows].tolist(),
            work.link[rows].tolist(), work.distance_m[rows].tolist(), self.source[rows].tolist(),
            self.u_j[rows].tolist(), strict=True,
        )  # fmt: skip
        for (
            device, step, at_step, phase, outcome, order, training, duration_s, idle_j, net_j, size, mbit_s,
            link, distance_m, sources, us_j,
        ) in values:  # fmt: skip
            yield ModelledRow(
                work.names[device], step, at_step, PHASES[phase],
                None if outcome == NONE else OUTCOMES[outcome],
                order, training, duration_s, idle_j, net_j, size, mbit_s,
                "" if phase == _TRAIN else work.links[link], distance_m,
                tuple(
                    (Part.MODEL, self.sources[source], u_j)
                    for source, u_j in zip(sources, us_j, strict=True)
                    if u_j
                ),
            )  # fmt: skip


def modelled_ledger(work: ModelledWork, model: EnergyModel) -> ModelledLedger:
    """Eq. 1 for the transfers, the devices' own power for the trainings."""
    moved, up = work.phase != _TRAIN, work.sent()
    transfers = 1 if work.transfers is None else work.transfers
    size_mbit = (work.transferred_bytes + model.overhead_bytes * transfers) * 8e-6
    duration_s = np.divide(size_mbit, work.mbit_s, out=work.train_s.copy(), where=moved)
    present = np.unique(work.device)
    watts = np.zeros((len(work.names), 2))
    for number in present.tolist():
        power = model.power_of(number)
        watts[number] = power.idle_w, power.train_w
    # Parameters by link class, and by device where one has a fit of its own.
    own = np.array([name in model.links.devices for name in work.names], bool)[work.device]
    group = work.link * (len(work.names) + 1) + np.where(own, work.device + 1, 0)
    groups, of_group = np.unique(group[moved], return_inverse=True)
    pairs = [divmod(number, len(work.names) + 1) for number in groups.tolist()]
    known = [model.known(work.links[link], work.names[n - 1] if n else "") for link, n in pairs]
    values = np.array([link.values for link, _ in known]).reshape(-1, 3)[of_group]
    mbit, active_s, sent = size_mbit[moved], duration_s[moved], up[moved]
    net_j = watts[work.device, 1] * duration_s
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
    return ModelledLedger(work, duration_s, idle_j, net_j, tuple(sources), source, u_j)


def running_sum(values: Numbers) -> float:
    """Sum from the first to the last, as a loop adds them (np.sum adds in pairs)."""
    return float(np.cumsum(values)[-1]) if values.size else 0.0


def _coded(values: Iterable[Any]) -> tuple[list[Any], Codes]:
    """The different values in order of first appearance, and the place of each."""
    places: dict[Any, int] = {}
    codes = np.array([places.setdefault(value, len(places)) for value in values], np.int64)
    return list(places), codes
