"""What a world is: a meter's readings, the board's phases, and what was really drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fidelity.signals import DT, Floats, cumulated

BASE_NS = 1_790_000_000_000_000_000  # an arbitrary wall time
LOADS = ("download", "train", "upload", "exchange")


@dataclass(frozen=True)
class Readings:
    """Lines of the meter, shape (lines,) each."""

    arrival_ns: npt.NDArray[np.int64]
    watts: Floats
    volts: Floats
    amps: Floats

    def __len__(self) -> int:
        return len(self.watts)


@dataclass(frozen=True)
class Span:
    phase: str
    step: int
    start_ns: int
    end_ns: int


class Truth:
    """Joules between moments (`gross`, `idle`, `net`), within each span and caused by it."""

    def __init__(self, idle: Floats, net: Floats, spans: Sequence[Span], caused: Floats) -> None:
        self._cumulated_idle, self._cumulated_net = cumulated(idle), cumulated(net)
        self._spans = spans
        ends = np.array([[span.start_ns, span.end_ns] for span in spans], dtype=np.int64)
        self.span_idle = self.idle(ends[:, 0], ends[:, 1])
        self.span_net = self.net(ends[:, 0], ends[:, 1])
        self.span_gross = self.span_idle + self.span_net
        self.span_caused = np.asarray(caused)

    @property
    def cumulated_gross(self) -> Floats:
        return self._cumulated_idle + self._cumulated_net

    def idle(self, from_ns: Any, to_ns: Any) -> Any:
        return _at(self._cumulated_idle, to_ns) - _at(self._cumulated_idle, from_ns)

    def net(self, from_ns: Any, to_ns: Any) -> Any:
        return _at(self._cumulated_net, to_ns) - _at(self._cumulated_net, from_ns)

    def gross(self, from_ns: Any, to_ns: Any) -> Any:
        return self.idle(from_ns, to_ns) + self.net(from_ns, to_ns)

    def caused(self, phase: str) -> float:
        """Net joules of a phase wherever they fell: tails are those of the spans that caused them."""
        return self._sum(self.span_caused, phase)

    def inside(self, phase: str) -> float:
        """Net joules between the borders of a phase."""
        return self._sum(self.span_net, phase)

    def idle_inside(self, phase: str) -> float:
        return self._sum(self.span_idle, phase)

    def _sum(self, values: Floats, phase: str) -> float:
        return float(sum(v for v, span in zip(values, self._spans, strict=True) if span.phase == phase))


@dataclass(frozen=True)
class World:
    """`gain_u` is the standard uncertainty of the gain that the user was given; `facts` are what is really
    true (for tests of the generator only)."""

    name: str
    seed: int
    readings: Readings
    spans: list[Span]
    truth: Truth
    nominal_s: float
    window_s: float
    latch_s: float
    gain_u: float
    holds: bool
    cause: str
    rest_s: float
    facts: dict[str, Any]


def _at(joules: Floats, ns: Any) -> Any:
    x = (np.asarray(ns, dtype=np.int64) - BASE_NS) / 1e9 / DT
    x = np.clip(x, 0, len(joules) - 1)
    i = np.minimum(x.astype(np.int64), len(joules) - 2)
    return joules[i] + (x - i) * (joules[i + 1] - joules[i])
