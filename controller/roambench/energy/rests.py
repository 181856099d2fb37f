"""Windows around what is measured: a phase, or several without a rest between them, and the rest behind it.

Boards rest before and after each active phase (`rounds.rest_s`). A window goes from the start of a phase to
`guard_s` after its end. Every joule that the phase caused is in a line that arrives inside it, as
long as the guard outlasts what the meter averages over and how late its lines are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from typing import Final

import numpy as np
import numpy.typing as npt

from roambench.contract.phases import ACTIVE_PHASES, UNSTAMPED_PHASES, Phase, PhaseSpan

#: Share of a rest that belongs to the phase before it; what is left shows the board idling.
GUARD_SHARE: Final = 0.65
#: Phases in which a board does nothing and sends nothing: their readings tell its idle power.
QUIET_PHASES: Final = frozenset({Phase.REST, Phase.IDLE})
#: A rest may begin so much late, or be cut so short by rounding, and still be one, s.
_SEAM_S: Final = 0.05

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Window:
    """Active spans without a rest between them: indices of the timeline from `first` to `last`.

    `start_s` and `end_s` are the borders of the phases, in seconds after the timeline's start, `until_s` the
    end of the guard. Directly before it the board was quiet from `rest_from_s` on, behind it until
    `rest_until_s`. `active` are the indices of the active spans. `cut`: the guard ends where time begins of
    which nothing says what the board did.
    """

    first: int
    last: int
    active: tuple[int, ...]
    start_s: float
    end_s: float
    until_s: float
    rest_from_s: float
    rest_until_s: float
    cut: bool = False


def rest_of(spans: Sequence[PhaseSpan]) -> float:
    """Length of the rests behind active phases, s: all but the shortest tenth last this long, not counting
    those that were cut short, to less than half of the median. 0 without any."""
    lengths = [
        after.duration_s
        for before, after in pairwise(spans)
        if before.phase in ACTIVE_PHASES and after.phase is Phase.REST
    ]
    if not lengths:
        return 0.0
    least_s = 0.5 * float(np.median(lengths))
    return float(np.quantile([seconds for seconds in lengths if seconds >= least_s], 0.1))


def windows_of(spans: Sequence[PhaseSpan], guard_s: float) -> list[Window]:
    """The windows of a timeline that partitions its time, ascending.

    Active spans with less than `guard_s` of quiet time between them are one window: their joules cannot be
    separated by a sum.
    """
    origin_ns = spans[0].start_ns if spans else 0
    groups: list[list[int]] = []
    for index, span in enumerate(spans):
        if span.phase not in ACTIVE_PHASES:
            continue
        if groups and not _rested(spans, groups[-1][-1], index, guard_s):
            groups[-1].append(index)
        else:
            groups.append([index])
    windows = []
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        last = group[-1]
        end_s = (spans[last].end_ns - origin_ns) * 1e-9
        start_s = (spans[group[0]].start_ns - origin_ns) * 1e-9
        behind = range(last + 1, len(spans) if following is None else following[0])
        unknown = next((k for k in behind if spans[k].phase in UNSTAMPED_PHASES), None)
        limit_ns = spans[-1].end_ns if following is None else spans[following[0]].start_ns
        if unknown is not None:
            limit_ns = spans[unknown].start_ns
        limit_s = (limit_ns - origin_ns) * 1e-9
        windows.append(
            Window(
                group[0],
                last,
                tuple(group),
                start_s,
                end_s,
                min(end_s + guard_s, limit_s),
                start_s - _quiet_s(spans[k] for k in range(group[0] - 1, -1, -1)),
                end_s + _quiet_s(islice(spans, last + 1, None)),
                unknown is not None and end_s + guard_s > limit_s,
            )
        )
    return windows


def _rested(spans: Sequence[PhaseSpan], before: int, after: int, guard_s: float) -> bool:
    """Return whether the guard behind span `before` fits into what lies between it and span `after`."""
    between = spans[before + 1 : after]
    if any(span.phase in UNSTAMPED_PHASES for span in between):
        return True
    return (spans[after].start_ns - spans[before].end_ns) * 1e-9 >= guard_s - _SEAM_S


def _quiet_s(spans: Iterable[PhaseSpan]) -> float:
    """Seconds of the quiet phases that `spans` begin with."""
    return math.fsum(span.duration_s for span in takewhile(lambda span: span.phase in QUIET_PHASES, spans))
