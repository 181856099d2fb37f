"""What all contenders of `simulation.py` are given, and how they take turns; needs nothing but numpy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Case:
    """One experiment. `folder` holds images.npy (clients, images, 1, side, side) float32, labels.npy
    (clients, images) int64, orders.npy (rounds, clients, images) int64: the batch order, start.npy
    (parameters,) float32, and seeds.npy (rounds, clients) uint64, from which roambench draws the same orders
    by itself."""

    folder: str
    network: str  # "mohawk" or "wide", see network.py
    clients: int
    images: int  # of each client
    rounds: int
    batch_size: int
    learning_rate: float
    momentum: float
    weight_decay: float
    workers: int
    final: str  # where the contender writes the model after the last round, .npy
    channels_last: bool = True
    double: bool = False  # sequential trains in float64

    def array(self, name: str) -> np.ndarray:
        return np.load(Path(self.folder) / f"{name}.npy", mmap_mode="r")

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def case_of(arguments: list[str]) -> Case:
    return Case(**json.loads(Path(arguments[1]).read_text()))


def tell(**news: object) -> None:
    """One JSON line to `simulation.py`."""
    sys.__stdout__.write(json.dumps(news) + "\n")
    sys.__stdout__.flush()


def wait_for_turn() -> None:
    """Until `simulation.py` writes a line; the end of input ends the contender."""
    if not sys.stdin.readline():
        sys.exit(1)


def turns(case: Case) -> Iterator[int]:
    """The rounds, each when it is our turn. Tell `sgd_s` and so on before asking for the next."""
    tell(ready=True)
    for number in range(case.rounds):
        wait_for_turn()
        yield number


def finish(case: Case, model: np.ndarray) -> None:
    np.save(case.final, np.asarray(model, dtype=np.float32))
    tell(final=case.final)
