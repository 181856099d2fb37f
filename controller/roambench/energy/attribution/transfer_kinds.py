"""Which transfers may share a mean power: those of one direction that moved at about one throughput; pure.

A radio's power follows its throughput (Eq. 1: P = alpha t + beta). Where links differ, one mean for all
downloads is right for nothing: the short, fast ones draw much, the long, slow ones draw little, and the short
ones would be believed to draw what the long ones do (Wi-Fi uploads of 0.35 s beside LTE ones of 1 to 3 s at
1 Hz: 59 % too little).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from roambench.energy.attribution.pieces import CUT, Pieces

#: What the names of kinds end with, where a direction has several.
OF_KINDS: Final = (" Mbit/s", " of unknown rate")
#: Half an octave: within a whole one of LTE rates the sum over downloads still came out 2 % low.
BAND: Final = 2.0**0.5


def kinds_of(cut: Pieces) -> list[str]:
    """The kind of each piece's transfer, empty for other phases and for pieces that wait; shape (pieces,).

    Bands of half an octave begin at the slowest transfer of a direction, so that transfers which all run at
    about one rate are one kind, named by the direction alone, wherever that rate lies. Transfers without
    bytes or time (broken off, never recorded) have no rate and are a kind of their own beside others.
    """
    spans = cut.spans
    rates = _mbit_s(cut)
    kinds = [""] * len(spans)
    for phase in CUT:
        own = sorted(
            (i for i, span in enumerate(spans) if span.phase is phase and cut.parts[i] is None),
            key=rates.__getitem__,
        )
        bands: list[list[int]] = []
        for i in own:
            if not bands or not rates[i] <= BAND * rates[bands[-1][0]]:
                bands.append([])
            bands[-1].append(i)
        for band in bands:
            low, high = rates[band[0]], rates[band[-1]]
            rate = f" {low:.3g} to {high:.3g}{OF_KINDS[0]}" if low else OF_KINDS[1]
            for i in band:
                kinds[i] = phase.value + (rate if len(bands) > 1 else "")
    return kinds


def _mbit_s(cut: Pieces) -> list[float]:
    """Of each piece the throughput of all that draws its power, while it moved: a radio's power follows its
    rate, of which a stall says nothing. 0 where it is not known."""
    moved = np.bincount(cut.power_of, [span.transferred_bytes for span in cut.spans])
    seconds = np.bincount(cut.power_of, [span.duration_s for span in cut.spans])
    rates = np.divide(moved * 8e-6, seconds, out=np.zeros(len(moved)), where=seconds > 0.0)
    return [float(rate) for rate in rates[cut.power_of]]
