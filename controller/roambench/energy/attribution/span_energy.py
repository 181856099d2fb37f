"""The energy of one span, and which parts of its uncertainty others share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SpanEnergy:
    """Energy of one span over its measured seconds.

    `u_gross_j` and `u_net_j` are whole. What spans share: `u_level_w` (gross; `u_net_level_w`: net) within a
    phase type, `edge_w` (`net_edge_w`; signed) and `u_idle_w` (net only) within the board. The rest is the
    span's own.
    """

    covered_s: float
    gross_j: float
    net_j: float
    u_gross_j: float
    u_net_j: float
    u_level_w: float
    u_net_level_w: float
    edge_w: float
    net_edge_w: float
    u_idle_w: float
    resolved: bool

    def above(self, idle_w: float, u_idle_w: float) -> SpanEnergy:
        """The same with its net energy above an idle power that other readings than its own tell."""
        return replace(
            self,
            net_j=self.gross_j - idle_w * self.covered_s,
            u_net_j=math.hypot(self.u_gross_j, u_idle_w * self.covered_s),
            u_net_level_w=self.u_level_w,
            net_edge_w=self.edge_w,
            u_idle_w=u_idle_w,
        )
