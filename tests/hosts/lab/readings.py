"""What a meter said in a run in the middle of which its board was away."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

#: A line may come so late on a machine that stands still for a moment; only its stamp tells.
_LATE_S: Final = 5.0


def the_outage(ns: npt.NDArray[np.int64]) -> tuple[float, int]:
    """How long the longest gap between a meter's lines lasts (s), and when the first line after it came (ns).

    AssertionError where two lines are missing before or after it: there is one a second. `ns`: their times.
    """
    gaps_s = np.diff(ns) * 1e-9
    at = int(np.argmax(gaps_s))
    for there_ns in (ns[: at + 1], ns[at + 1 :]):
        missing = (there_ns[-1] - there_ns[0]) * 1e-9 - (len(there_ns) - 1)
        assert missing < 1.5, missing  # the last may come late
    assert np.delete(gaps_s, at).max() < _LATE_S
    return float(gaps_s[at]), int(ns[at + 1])
