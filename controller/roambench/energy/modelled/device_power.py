"""Assumed power and speed of a virtual device: assumed figures, drawn per device; pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from roambench.contract.draws import generator

#: Where an experiment says nothing else: watts of an idle Pi 3B+, watts more of one busy core, and by which
#: share at most the devices differ.
IDLE_W: Final = 1.9
TRAIN_W: Final = 0.8
POWER_SPREAD: Final = 0.03


@dataclass(frozen=True, slots=True)
class DevicePower:
    """Watts of a device: `idle_w` all the time, `train_w` on top while it trains.

    The radio's part is the link model's. Devices differ: each one's two powers lie within ± `spread` of
    these, or of those in `watts` (idle and training, by device), fixed by (seed, device).
    """

    idle_w: float
    train_w: float
    spread: float = 0.0
    seed: int = 0
    watts: tuple[tuple[float, float], ...] = ()

    def of(self, device: int) -> DevicePower:
        """One device's own, without any spread left."""
        usual = (self.idle_w, self.train_w)
        idle_w, train_w = self.watts[device] if device < len(self.watts) else usual
        if self.spread == 0.0:
            return DevicePower(idle_w, train_w)
        draws = generator(self.seed, "device power", device).uniform(1.0 - self.spread, 1.0 + self.spread, 2)
        return DevicePower(idle_w * float(draws[0]), train_w * float(draws[1]))


def drawn_step_s(sgd_step_s: float, spread: float, seed: int, device: int) -> float:
    """Seconds of one SGD step on `device`: within ± `spread` of `sgd_step_s`, fixed by (seed, device)."""
    if spread == 0.0:
        return sgd_step_s
    return sgd_step_s * _drawn_share(spread, seed, device)


@lru_cache(maxsize=100_000)  # it is asked for with every order
def _drawn_share(spread: float, seed: int, device: int) -> float:
    return float(generator(seed, "device speed", device).uniform(1.0 - spread, 1.0 + spread))
