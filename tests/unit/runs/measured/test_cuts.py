"""When boards had no power, as a run's log says."""

from __future__ import annotations

from roambench.rounds.records import BoardSwitched, RunResumed
from roambench.runs.measured.accounts import cuts_of


def test_a_cut_lasts_until_the_power_is_back_the_run_goes_on_or_ends() -> None:
    log = [
        BoardSwitched(1, 0, False, 100),
        BoardSwitched(1, 2, False, 110),
        BoardSwitched(3, 0, True, 300),
        RunResumed(4, 900, 5.0, 500),  # by a controller that gave all boards their power first
        BoardSwitched(4, 2, False, 910),
        BoardSwitched(5, 2, True, 950),
        BoardSwitched(5, 1, True, 950),  # it had it already
        BoardSwitched(6, 1, False, 980),
    ]
    assert cuts_of(log, 1000) == {0: [(100, 300)], 2: [(110, 500), (910, 950)], 1: [(980, 1000)]}
    assert cuts_of([], 1000) == {}
