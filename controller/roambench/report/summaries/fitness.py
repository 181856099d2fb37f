"""The fitness of a finished run's record: reasons to measure the run again; pure.

A flag (`flags`) tells a reader what to keep in mind. Few doubts say that another run of the same would be
better, and these are typed: what is wrong, and with which boards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from roambench.energy.clocks.clock_fit import ClockVerdict
from roambench.report.summaries.board_state import BoardState
from roambench.report.summaries.energy import EnergySummary
from roambench.report.summaries.flags import COVERAGE_LIMIT
from roambench.runs.doubts import BY_THE_WALL_CLOCK, LEASE_LOST
from roambench.runs.info import RunInfo
from roambench.runs.measured.clocks import ReaderCase

#: A board whose time is accounted for less than this took no part that could be compared.
_MOST_LOST: Final = 0.5


class Unfitness(StrEnum):
    """A reason to measure a run again."""

    LEASE_LOST = "lease lost"
    CLOCK = "clock"
    COVERAGE = "coverage"
    SILENT = "silent"
    MISSING = "missing"
    NOT_COUNTED = "not counted"
    REOPENED = "meter opened again"


@dataclass(frozen=True, slots=True)
class Unfit:
    """`boards` that made it so, none where no board is at fault; `sentence` says it to a reader."""

    why: Unfitness
    boards: tuple[str, ...]
    sentence: str


def unfitness(
    info: RunInfo, energy: EnergySummary | None, boards: Sequence[BoardState] = ()
) -> tuple[Unfit, ...]:
    """Every reason, the gravest first; () for a fit run, and for one of a fleet without meters."""
    found = []
    if LEASE_LOST in info.doubts:
        found.append(Unfit(Unfitness.LEASE_LOST, (), LEASE_LOST))
    if BY_THE_WALL_CLOCK in info.doubts:
        found.append(Unfit(Unfitness.CLOCK, (), BY_THE_WALL_CLOCK))
    for state in boards:
        if state.doubt:
            sentence = f"{state.device}: {state.doubt}: left out of every sum"
            found.append(Unfit(Unfitness.NOT_COUNTED, (state.device,), sentence))
        elif state.clock.case is ReaderCase.REMOTE and state.clock.verdict is not ClockVerdict.GOOD:
            found.append(Unfit(Unfitness.CLOCK, (state.device,), f"clock of {state.clock.sentence()}"))
        if state.reopened:
            found.append(Unfit(Unfitness.REOPENED, (state.device,), state.reopened))
    if energy is not None and energy.measured:
        found += _of_boards(energy)
    return tuple(found)


def _of_boards(energy: EnergySummary) -> list[Unfit]:
    found = []
    for board in energy.boards:
        if board.device in energy.without:
            continue
        if not board.whole_run.covered_s:
            sentence = f"{board.device}: not a single usable reading"
            found.append(Unfit(Unfitness.SILENT, (board.device,), sentence))
        elif board.whole_run.coverage < COVERAGE_LIMIT:
            sentence = (
                f"{board.device}: coverage {board.whole_run.coverage:.1%}, less than {COVERAGE_LIMIT:.0%}"
            )
            found.append(Unfit(Unfitness.COVERAGE, (board.device,), f"{sentence} (rule R4)"))
        elif board.lost_s > _MOST_LOST * energy.duration_s:
            sentence = f"{board.device}: missing for {board.lost_s:,.0f} of {energy.duration_s:,.0f} s"
            found.append(Unfit(Unfitness.MISSING, (board.device,), sentence))
    return found
