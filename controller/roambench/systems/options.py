"""Options of a learning system that an experiment may set; each system reads what concerns it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roambench.aggregation import CosineReading
from roambench.contract.local_training import LocalTraining


@dataclass(frozen=True, slots=True)
class SystemOptions:
    """Choices of a system. k1, k2 (one of three) and sigma are those of MOHAWK's section 4.1; readings of
    unclear points are explained in docs/algorithms.md.

    `shapes` are the entries of the flat model in order, needed by the cosines "per_entry" and "per_column".
    Ranges are those of the experiment's tables, which checked the values.
    """

    k1: int = 5  # local epochs
    local_steps: int = 0  # mini-batches per training instead of epochs (MIDDLE's I, its other reading); 0: k1
    k2: int = 5  # steps between cloud aggregations
    sigma: float = 0.1  # of Eq. 5 and 6
    cosine: CosineReading = "flat"
    lookahead: bool = False  # an oracle, see System.lookahead
    empty_sync_clears: bool = True  # see System.empty_sync_clears
    per_ap: int = 5  # K of the MIDDLE family: devices that train at each AP (all, if there are fewer)
    lambda1: float = 0.01  # MIDDLE+: pull of the base to where training started
    lambda2: float = 0.01  # MIDDLE+: pull of the base to the last global one
    proximal: float = 0.0  # FedProx's mu for the systems that train on plain cross-entropy; 0: none
    local: str = ""  # local algorithm of the same systems: "feddyn:alpha=0.1"; "": see proximal
    macfl_cloud: Literal["attention", "mean"] = "attention"  # MACFL's cloud weights: Eq. 6, or all alike
    self_attention: float = 0.5  # HeurFedAMP: what an AP's own model weighs
    association: Literal["nearest", "trace"] = "nearest"  # the MIDDLE family's edge; the trace's own record
    ties: Literal["lowest", "random"] = "lowest"  # of equally near APs; MOHAWK's authors draw
    previous_edge: Literal["own", "edge_pair"] = "own"  # FedMes, Ensemble: whose model stands for its
    fresh_uses_ap: bool = False  # a moved device that holds the sync's global starts as one that stayed
    stayed_model: Literal["ap", "own"] = "ap"  # MIDDLE, of a device that stayed (Alg. 1 line 7: own)
    sync_download: Literal["charged", "free"] = "charged"  # the device part of a sync
    cloud_counts: Literal["since_sync", "printed"] = "since_sync"  # Eq. 7: of T_c steps, or T_c + 1
    optimiser: Literal["sgd", "adam"] = "sgd"  # of local training
    momentum: float = 0.0  # of SGD
    capacity_wh: float = 0.0  # of a full battery; 0: none
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def training(self) -> LocalTraining:
        """Return the training that the options describe, by the local algorithm they name: else on plain
        cross-entropy or with FedProx's term."""
        objective = self.local or (f"fedprox:mu={self.proximal!r}" if self.proximal else "ce")
        return LocalTraining(epochs=self.k1, steps=self.local_steps, objective=objective)
