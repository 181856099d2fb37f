"""Which finished runs should be measured again, and which boards made them so."""

from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent
from roambench.meters.traits import MeterDescription
from roambench.report.report import report
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.fitness import Unfitness
from roambench.report.summaries.run import summarise
from roambench.runs.doubts import BY_THE_WALL_CLOCK, LEASE_LOST
from roambench.runs.folder import RunFolder

S = 1_000_000_000


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


def reopened(unit, again):
    """The meter's line is lost for 5 s, 40 s after the run's begin."""
    meter = [
        MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2", unit=one) for one in (unit, again)
    ]
    lost = AgentEvent(EventKind.METER_LOST, 140 * S, "the port has gone")
    return [meter[0].to_event(100 * S), lost, meter[1].to_event(145 * S)]


def test_a_bench_whose_meter_came_back_as_anybodys_is_to_be_measured_again_and_says_so_everywhere(hand_made):
    path = hand_made(fleet="bench", own_events={"pi-01": reopened("usb a", "usb b")})
    sentence = (
        "pi-01: 45 s after the run began its meter was opened again, as its line was lost (the port has "
        "gone); nothing shows that it is the same meter, so from there on its joules may be another board's: "
        "roambench fleet identify proves it again"
    )
    (found,) = [one for one in unfit_of(path) if one.why is Unfitness.REOPENED]
    assert (found.boards, found.sentence) == (("pi-01",), sentence)
    made = report([path])
    assert sentence in made.summaries[0].flags
    assert sentence in made.json()


def test_a_meter_that_is_known_to_be_the_same_makes_no_run_unfit(hand_made):
    path = hand_made(fleet="bench", own_events={"pi-01": reopened("usb a", "usb a")})
    assert not any(one.why is Unfitness.REOPENED for one in unfit_of(path))
    path = hand_made("emulated", own_events={"pi-01": reopened("", "")})  # whose meters cannot be swapped
    assert not any(one.why is Unfitness.REOPENED for one in unfit_of(path))
