"""Options of a learning system that an experiment may set; each system reads what concerns it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from roambench.aggregation import COSINE_READINGS
from roambench.contract.errors import ConfigError
from roambench.contract.local_training import LocalTraining

MACFL_CLOUDS: Final = ("attention", "mean")
#: Readings that are one of a few words; the first is the default.
READINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "macfl_cloud": MACFL_CLOUDS,
    "association": ("nearest", "trace"),
    "ties": ("lowest", "random"),
    "previous_edge": ("own", "edge_pair"),
    "stayed_model": ("ap", "own"),
    "sync_download": ("charged", "free"),
    "cloud_counts": ("since_sync", "printed"),
}


@dataclass(frozen=True, slots=True)
class SystemOptions:
    """Defaults are MOHAWK's section 4.1; readings of unclear points are explained in docs/algorithms.md.

    `shapes` are the entries of the flat model in order, needed by the cosines "per_entry" and "per_column".
    Raises ConfigError that lists every value out of range.
    """

    k1: int = 5  # local epochs
    local_steps: int = 0  # mini-batches per training instead of epochs (MIDDLE's I, its other reading); 0: k1
    k2: int = 5  # steps between cloud aggregations
    sigma: float = 0.1  # of Eq. 5 and 6
    cosine: str = "flat"
    lookahead: bool = False  # an oracle, see System.lookahead
    empty_sync_clears: bool = True  # see System.empty_sync_clears
    per_ap: int = 5  # K of the MIDDLE family: devices that train at each AP (all, if there are fewer)
    lambda1: float = 0.01  # MIDDLE+: pull of the base to where training started
    lambda2: float = 0.01  # MIDDLE+: pull of the base to the last global one
    proximal: float = 0.0  # FedProx's mu for the systems that train on plain cross-entropy; 0: none
    local: str = ""  # local algorithm of the same systems: "feddyn:alpha=0.1"; "": see proximal
    macfl_cloud: str = "attention"  # MACFL's cloud weights: "attention" (Eq. 6) or "mean"
    self_attention: float = 0.5  # HeurFedAMP: what an AP's own model weighs
    association: str = "nearest"  # the MIDDLE family's edge: "nearest" AP or the "trace"'s own record
    ties: str = "lowest"  # of equally near APs: "lowest" index, or "random" as MOHAWK's authors draw
    previous_edge: str = "own"  # FedMes, Ensemble: its model is the device's "own", or "edge_pair" fetches it
    fresh_uses_ap: bool = False  # a moved device that holds the sync's global starts as one that stayed
    stayed_model: str = "ap"  # MIDDLE, a device that stayed: the "ap"'s, or its "own" (Alg. 1 line 7)
    sync_download: str = "charged"  # the device part of a sync: "charged" as communication, or "free"
    cloud_counts: str = "since_sync"  # Eq. 7: samples of T_c steps, or as "printed" of T_c + 1
    optimiser: str = "sgd"  # of local training
    momentum: float = 0.0  # of SGD
    shapes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        problems = [
            f"{name} = {value}: expected a whole number of at least 1"
            for name, value in (("k1", self.k1), ("k2", self.k2), ("per_ap", self.per_ap))
            if value < 1
        ]
        if not math.isfinite(self.sigma):
            problems.append(f"sigma = {self.sigma}: expected a finite number")
        problems += [
            f"{name} = {value}: expected a finite number of at least 0"
            for name, value in (
                ("lambda1", self.lambda1),
                ("lambda2", self.lambda2),
                ("proximal", self.proximal),
            )
            if not 0.0 <= value < math.inf
        ]
        if not 0.0 <= self.self_attention <= 1.0:
            problems.append(f"self_attention = {self.self_attention}: expected a share between 0 and 1")
        if self.local_steps < 0:
            problems.append(f"local_steps = {self.local_steps}: expected a whole number of at least 0")
        problems += [
            f"{name} = {getattr(self, name)!r}: expected one of {', '.join(words)}"
            for name, words in READINGS.items()
            if getattr(self, name) not in words
        ]
        if self.cosine not in COSINE_READINGS:
            problems.append(f"cosine = {self.cosine!r}: expected one of {', '.join(COSINE_READINGS)}")
        if problems:
            raise ConfigError(problems)

    @property
    def training(self) -> LocalTraining:
        """As long as the options say, by the local algorithm they name: else on plain cross-entropy or with
        FedProx's term."""
        objective = self.local or (f"fedprox:mu={self.proximal!r}" if self.proximal else "ce")
        return LocalTraining(epochs=self.k1, steps=self.local_steps, objective=objective)
