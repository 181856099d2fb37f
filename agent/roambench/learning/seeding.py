"""The generators that a user's model and task may draw from: torch's, NumPy's and Python's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed all three in the body; behind it they are as before."""
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed % (1 << 32))  # noqa: NPY002
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)  # noqa: NPY002


def generators() -> tuple[object, ...]:
    """States of Python's and NumPy's generators: others after a draw."""
    of_numpy: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return random.getstate(), of_numpy["state"]["key"].tobytes(), of_numpy["state"]["pos"]
