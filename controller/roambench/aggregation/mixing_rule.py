"""The type of a mixing rule, and the names of ours: read for every experiment file, and `mixing` not."""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy

Neighbours: TypeAlias = "scipy.sparse.csr_array"
Mixing: TypeAlias = "scipy.sparse.csr_array"

#: The names an experiment may give to a rule.
MIXINGS: Final[tuple[str, ...]] = (
    "plain",
    "mobility_aware",
    "data_size",
    "metropolis_hastings",
    "fully_connected",
)


class MixingRule(Protocol):
    """W from the neighbours: how another package's system weighs. `speeds` and `samples` have a value per
    device, `alpha` is `decentralised.alpha`. What it returns is checked at every iteration."""

    def __call__(
        self,
        neighbours: Neighbours,
        *,
        speeds: npt.NDArray[np.float64],
        samples: npt.NDArray[np.int64],
        alpha: float,
    ) -> Mixing:
        """Each device's weights over itself and its neighbours."""
        ...
