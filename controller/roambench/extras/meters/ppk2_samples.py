"""Samples of a Nordic PPK2: 100,000 a second, four bytes each, without pause and without stamps.

Bits of a sample, the lowest byte first: 14 of the converter, 3 of the measuring range (0 to 4), one unused, 6
of a counter, 8 of the logic port (Nordic's pc-nrfconnect-ppk, `serialDevice.ts`; IRNAS's ppk2-api 0.9.2 knows
all but the counter).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.meters.means import Samples

RATE_HZ: Final = 100_000
COUNTER: Final = 64
#: Amperes of range 0 of one step of a converter of 1.8 V, before the shunt divides it (ppk2-api, `adc_mult`).
ADC_V: Final = 1.8 / 163_840
_BYTES: Final = 4
#: Fewer samples than this say nothing about where a sample begins.
_ENOUGH: Final = 16
_KEYS: Final = ("R", "GS", "GI", "O", "S", "I", "UG")


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors of the five ranges from a device's memory: shunt, gains and offsets, by Nordic's letters."""

    columns: Mapping[str, Samples]

    @classmethod
    def of(cls, modifiers: Mapping[str, Mapping[str, float]]) -> Factors:
        """Factors that the library read; ValueError where they are no numbers."""
        columns = {key: np.array([float(modifiers[key][str(k)]) for k in range(5)]) for key in _KEYS}
        if not all(np.isfinite(column).all() for column in columns.values()) or not (columns["R"] > 0).all():
            raise ValueError("its memory holds no calibration")
        return cls(columns)

    def amps(self, words: np.ndarray[tuple[int], np.dtype[np.uint32]], volts: float) -> Samples:
        """Amperes of samples, as the library computes them without its filter of spikes, which would change
        their mean."""
        factor = self.columns
        at = np.minimum(words >> 14 & 7, 4)
        bare = ((words & 0x3FFF) * 4.0 - factor["O"][at]) * (ADC_V / factor["R"][at])
        inner = factor["GS"][at] * bare + factor["GI"][at]
        found: Samples = factor["UG"][at] * (bare * inner + factor["S"][at] * volts + factor["I"][at])
        return found


class SampleBytes:
    """Splits bytes into samples and finds the lost ones by the counter.

    A loss of a whole multiple of 64 does not show here (`sample_clock` finds it by the time that it took).
    """

    def __init__(self) -> None:
        self._rest = b""
        self._next: int | None = None
        self.misplaced = 0  # bytes that began no sample

    def feed(self, data: bytes) -> Iterator[tuple[int, np.ndarray[tuple[int], np.dtype[np.uint32]]]]:
        """Samples in a row, each time with how many were lost before them (0 to 63)."""
        data = self._rest + data
        start = self._start(data)
        self.misplaced += start
        whole = start + (len(data) - start) // _BYTES * _BYTES
        self._rest = data[whole:]
        words = np.frombuffer(data[start:whole], "<u4").astype(np.uint32)
        if not len(words):
            return
        counters = (words >> 18 & 63).astype(np.int64)
        expected = np.concatenate(([counters[0] if self._next is None else self._next], counters[:-1] + 1))
        lost = (counters - expected) % COUNTER
        self._next = int(counters[-1]) + 1
        cuts = np.flatnonzero(lost)
        for begin, end in zip((0, *cuts), (*cuts, len(words)), strict=True):
            if end > begin:
                yield int(lost[begin]), words[begin:end]

    def _start(self, data: bytes) -> int:
        """The byte at which samples begin: 0, unless the counter goes on only from another."""
        scores = []
        for start in range(_BYTES):
            words = np.frombuffer(data[start : start + (len(data) - start) // _BYTES * _BYTES], "<u4")
            if len(words) < _ENOUGH:
                return 0
            good = float(np.mean(np.diff(words.astype(np.int64) >> 18 & 63) % COUNTER == 1))
            if good > 0.5:
                return start
            scores.append(good)
        return 0 if math.isclose(max(scores), scores[0]) else int(np.argmax(scores))
