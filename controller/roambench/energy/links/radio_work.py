"""Eq. 1 over transfers, with the uncertainty of its parameters; pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from roambench.contract.link_power import LTE, WIFI, LinkPower
from roambench.energy.energy_value import Energy, UncertaintyPart
from roambench.energy.links.models import ANY, KnownLink, LinkModel, Provenance
from roambench.energy.links.throughput import Direction, Numbers

#: Huang et al. state an error of less than 6 % for their model: taken as an expanded uncertainty (k = 2).
PAPER_U_SHARE: Final = 0.03
#: The third radio of the same paper's table.
THREE_G: Final = LinkPower("3g", 868.98, 122.12, 817.88)
#: What measured transfers are held against by default: the paper's radios, granted their stated error.
PAPER: Final = LinkModel(
    "paper",
    {link.name: KnownLink(link, u_gain=PAPER_U_SHARE) for link in (LTE, WIFI, THREE_G)},
    Provenance("Huang et al., MobiSys 2012"),
)


def paper_radio(name: str) -> LinkModel:
    """One radio of the paper for every link class; KeyError for a name it does not have."""
    return LinkModel(name, {ANY: PAPER.links[name]}, PAPER.about)


@dataclass(frozen=True, slots=True)
class RadioWork:
    """Factors of Eq. 1's parameters: Mbit sent, Mbit received, seconds of active radio."""

    up_mbit: float = 0.0
    down_mbit: float = 0.0
    active_s: float = 0.0

    @classmethod
    def of(cls, size_mbit: float, mbit_s: float, direction: Direction) -> RadioWork:
        """`size_mbit` in one direction at a throughput, which must be positive."""
        seconds = size_mbit / mbit_s
        return cls(size_mbit, 0.0, seconds) if direction == "up" else cls(0.0, size_mbit, seconds)

    def energy(self, known: KnownLink, source: str = "model") -> Energy:
        """E = alpha_up * Mbit up + alpha_down * Mbit down + beta * seconds; `source` names the parameters.

        Eq. 1 is linear in its parameters for all throughputs. The terms are the signed parts that
        independent errors of the parameters have in E, so sums of transfers have the uncertainty that the
        covariance gives them, without approximation. The meter's gain is in no term.
        """
        amounts = 1e-3 * np.array([self.up_mbit, self.down_mbit, self.active_s])
        terms = [
            (UncertaintyPart.MODEL, f"fit of {source}, {number}", u_j)
            for number, u_j in enumerate((amounts @ independent_errors(known)).tolist())
        ]
        return Energy(float(known.values @ amounts), covered_s=self.active_s, terms=tuple(terms))


@cache
def independent_errors(known: KnownLink) -> Numbers:
    """Errors of the parameters, shape (3, 3): a column each, independent of the others; ± 2 u holds 95 % of
    what a fit with few degrees of freedom leaves open."""
    variances, directions = np.linalg.eigh(np.array(known.covariance))
    return np.asarray(known.student() * directions * np.sqrt(np.maximum(variances, 0.0)))
