"""Eq. 1 over sums of transfers, with the uncertainty of its parameters; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.link_power import LTE, WIFI, LinkPower
from roambench.energy.links.models import ANY, KnownLink, LinkModel, Provenance
from roambench.energy.links.throughput import Direction

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
class Modelled:
    """A modelled energy with its standard uncertainty (k = 1)."""

    joules: float = 0.0
    u_joules: float = 0.0


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

    def __add__(self, other: RadioWork) -> RadioWork:
        return RadioWork(
            self.up_mbit + other.up_mbit, self.down_mbit + other.down_mbit, self.active_s + other.active_s
        )

    def energy(self, known: KnownLink) -> Modelled:
        """E = alpha_up * Mbit up + alpha_down * Mbit down + beta * seconds.

        Eq. 1 is linear in its parameters whatever the throughputs were, so the uncertainty of any sum of
        transfers follows from the parameters' covariance without approximation.
        """
        amounts = np.array([self.up_mbit, self.down_mbit, self.active_s])
        variance = float(amounts @ known.total_covariance @ amounts)
        return Modelled(1e-3 * float(known.values @ amounts), 1e-3 * math.sqrt(max(0.0, variance)))


def energy_of(work: Mapping[tuple[KnownLink, str], RadioWork]) -> Modelled:
    """Sum over several sets of parameters; the key's text is the board that a set is the own one of, or "".

    Sets fitted on one board each are independent: quadrature. Sets that speak of all boards (a paper's link
    classes) may be wrong together: linear.
    """
    parts = [(board, done.energy(known)) for (known, board), done in work.items()]
    shared = math.fsum(part.u_joules for board, part in parts if not board)
    own = (part.u_joules for board, part in parts if board)
    return Modelled(math.fsum(part.joules for _, part in parts), math.hypot(shared, *own))
