"""Bytes of an exchange that are on the air at a moment, for the emulated radio."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: (what is sent, what comes) in Mbit/s from now on; infinite: as fast as the port goes.
RadioLoad = Callable[[float, float], None]


class Traffic:
    """Follows an exchange over a link of `mbit_s` (0: native) and tells `radio` at every change."""

    def __init__(self, mbit_s: float, radio: RadioLoad) -> None:
        self._limit_mbit_s = mbit_s or math.inf
        self._radio = radio
        self._sending_mbit_s = 0.0
        self._coming: list[float] = []

    def sending(self, on: bool) -> None:
        """All sends together go at the link's rate."""
        self._sending_mbit_s = self._limit_mbit_s if on else 0.0
        self._tell()

    @contextmanager
    def receiving(self) -> Iterator[Callable[[float], None]]:
        """Around one receive; to be called with its sender's pace (0: native) whenever its bytes begin."""
        paces: list[float] = []  # of this receive: none before its bytes begin, then one

        def now(*pace: float) -> None:
            for old in paces:
                self._coming.remove(old)
            paces[:] = pace
            self._coming.extend(pace)
            self._tell()

        try:
            yield lambda mbit_s: now(mbit_s if 0.0 < mbit_s < math.inf else math.inf)
        finally:
            if paces:
                now()

    def _tell(self) -> None:
        self._radio(self._sending_mbit_s, min(self._limit_mbit_s, sum(self._coming)))
