"""Which finished runs should be measured again, and which boards made them so."""

from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.fitness import Unfitness
from roambench.report.summaries.run import summarise
from roambench.runs.doubts import BY_THE_WALL_CLOCK, LEASE_LOST
from roambench.runs.folder import RunFolder


def unfit_of(path, *doubts):
    if doubts:
        with RunFolder.open(path, write=True) as folder:
            for doubt in doubts:
                folder.doubt(doubt)
    (run,) = read_runs([path])
    return summarise(run).unfit


def test_a_whole_run_is_fit_and_a_doubt_of_another_sort_changes_nothing(hand_made):
    assert unfit_of(hand_made()) == ()
    assert unfit_of(hand_made("waived"), "the run began without a preflight of the bench") == ()


def test_a_board_that_was_not_measured_all_the_time_is_named(hand_made):
    """Readings of seconds 60..64 are missing on both boards: 94 % are covered."""
    found = unfit_of(hand_made(stall_s=(60.0, 5.0)))
    assert [(one.why, one.boards) for one in found] == [
        (Unfitness.COVERAGE, ("pi-01",)),
        (Unfitness.COVERAGE, ("pi-02",)),
    ]
    assert found[0].sentence == "pi-01: coverage 94.0%, less than 99% (rule R4)"


def test_a_fleet_that_no_meter_saw_has_nothing_to_be_unfit_by(hand_made):
    assert unfit_of(hand_made(readings=False)) == ()


def test_a_lost_lease_and_a_clock_that_is_guessed_are_nobodys_fault(hand_made):
    found = unfit_of(hand_made(), BY_THE_WALL_CLOCK, LEASE_LOST)
    assert [(one.why, one.boards) for one in found] == [(Unfitness.LEASE_LOST, ()), (Unfitness.CLOCK, ())]
