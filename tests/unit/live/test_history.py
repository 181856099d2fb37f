"""The fold of an event log: phases, outcomes and what is worth a line."""

from __future__ import annotations

from roambench.contract.events import EventKind
from roambench.contract.phases import Outcome, Phase
from roambench.live.history import MOST_EVENTS, RunHistory
from roambench.rounds.records import (
    BatteriesSeen,
    FleetEvent,
    MixingPlanned,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    ReplayPaused,
    ReplayResumed,
    RoundRecord,
    StepClosed,
    StepOpened,
)

NAMES = ("pi-01", "pi-02", "pi-03")


def folded(*records: RoundRecord) -> RunHistory:
    history = RunHistory(NAMES, 0.13, lambda: 100.0)
    for record in records:
        history.add(record)
    return history


def phases(history: RunHistory) -> list[Phase]:
    return [activity.phase for activity in history.activities]


OPEN = StepOpened(0, (0, 1), (4, 2), (10.0, 20.0))
TRAIN = OrderGiven(0, 0, "t", "train", 4)


def test_a_device_is_in_the_phase_of_its_order_until_that_is_answered() -> None:
    assert phases(folded(OPEN)) == [Phase.IDLE, Phase.IDLE, Phase.ABSENT]
    assert phases(folded(OPEN, TRAIN))[0] is Phase.TRAIN
    loading = FleetEvent(0, 0, "pi-01", EventKind.DOWNLOAD_STARTED, "t")
    assert phases(folded(OPEN, TRAIN, loading))[0] is Phase.DOWNLOAD
    done = OrderAnswered(0, 0, "t", "done", train_s=20.0)
    assert phases(folded(OPEN, TRAIN, loading, done))[0] is Phase.WAIT
    # What an agent says after its answer begins no phase any more.
    assert phases(folded(OPEN, TRAIN, done, loading))[0] is Phase.WAIT


def test_a_board_that_rests_around_its_phases_is_seen_to_rest() -> None:
    """It rests from its order on, until it says that a phase begins; its records say when one is over."""
    history = RunHistory(NAMES, 0.13, lambda: 100.0, rests=True)

    def seen(*records: RoundRecord) -> Phase:
        for record in records:
            history.add(record)
        return phases(history)[0]

    assert seen(OPEN, TRAIN) is Phase.REST
    assert seen(FleetEvent(0, 0, "pi-01", EventKind.DOWNLOAD_STARTED, "t")) is Phase.DOWNLOAD
    history.end_phase(0, Phase.DOWNLOAD, "t")
    assert seen() is Phase.REST
    assert seen(FleetEvent(0, 0, "pi-01", EventKind.TRAIN_STARTED, "t")) is Phase.TRAIN
    history.end_phase(0, Phase.DOWNLOAD, "t")  # a record that came late
    history.end_phase(0, Phase.TRAIN, "of another order")
    assert seen() is Phase.TRAIN
    history.end_phase(0, Phase.TRAIN, "t")
    assert seen() is Phase.REST
    assert seen(OrderAnswered(0, 0, "t", "done", train_s=20.0)) is Phase.WAIT
    history.end_phase(0, Phase.WAIT, "")
    assert seen() is Phase.WAIT


def test_an_outcome_keeps_the_step_in_which_it_was_decided() -> None:
    history = folded(OPEN, TRAIN, OutcomeDecided(3, 0, "t", Outcome.WASTED, "absent"))
    (update,) = history.updates
    assert (update.device, update.step, update.outcome, update.decided_step) == (0, 0, Outcome.WASTED, 3)
    assert history.count(Outcome.WASTED) == 1
    assert history.steps[0].updates == 1


def test_what_was_lost_refused_or_late_is_an_event_and_ordinary_life_is_none() -> None:
    history = folded(
        OPEN,
        FleetEvent(0, 1, "pi-02", EventKind.SESSION_OPENED, "version 1"),
        TRAIN,
        OrderAnswered(0, 0, "t", "lost", "the agent is gone"),
        OrderGiven(0, 1, "u", "train", 2),
        OrderAnswered(0, 1, "u", "done", train_s=20.0, late_s=1.5),
        FleetEvent(0, 1, "pi-02", EventKind.SESSION_LOST, "reset"),
        FleetEvent(0, -1, "stranger", "a kind of tomorrow", "x" * 5000),
    )
    told = [(event.device, event.kind, event.gravity) for event in history.happenings]
    lost = (1, EventKind.SESSION_LOST, 2)
    assert told == [(0, "dead", 2), (1, "late", 1), lost, (-1, "a kind of tomorrow", 1)]
    assert history.happenings[3].detail.startswith("stranger: xxx")
    assert len(history.happenings[3].detail) == 300


def test_records_that_name_no_device_of_the_run_break_nothing() -> None:
    history = folded(
        OPEN,
        OrderGiven(0, 99, "t", "train", 4),
        OrderAnswered(0, 99, "t", "lost"),
        FleetEvent(0, 99, "?", EventKind.TRAIN_STARTED),
        OutcomeDecided(0, 7, "never ordered", Outcome.WASTED),
        StepClosed(5, 0, (), (), None, None),
    )
    assert phases(history) == [Phase.IDLE, Phase.IDLE, Phase.ABSENT]


def test_changes_are_handed_over_once() -> None:
    history = folded(OPEN, TRAIN)
    taken = history.taken()
    assert (taken.steps, taken.updates, taken.devices) == ({0}, {0}, {0, 1})
    assert history.taken().steps == set()
    history.add(StepClosed(0, 0, (0,), (), 0.5, 1.0, 2.0))
    assert history.taken().steps == {0}


def test_a_pause_and_too_many_events() -> None:
    history = folded(OPEN, ReplayPaused(0))
    assert history.paused
    history.add(ReplayResumed(0, 0, 1, "device"))
    assert not history.paused
    for _ in range(2 * MOST_EVENTS):
        history.add(FleetEvent(0, 0, "pi-01", EventKind.SESSION_LOST))
    assert len(history.happenings) == MOST_EVENTS
    assert history.happenings[-1].kind == "and more"


def test_who_mixes_with_whom_is_kept_by_step() -> None:
    """Rows of the matrix: 0 with 1, 1 with 0 and 2, 2 with 1."""
    mixing = MixingPlanned(0, (2, 3, 2), (0, 1, 0, 1, 2, 1, 2), (0.5,) * 7, None, None)
    history = folded(StepOpened(0, (0, 1, 2), (0, 0, 0), (0.0,) * 3), mixing)
    assert history.steps[0].links == (0, 1, 1, 2)
    assert history.without_server
    assert history.taken().links == {0}


def test_a_device_without_charge_is_off_until_it_is_charged() -> None:
    def seen(step: int, charges: tuple[float, ...], off: tuple[int, ...]) -> list[RoundRecord]:
        there = tuple(device for device in (0, 1) if device not in off)
        where = (4,) * len(there), (10.0,) * len(there)
        return [StepOpened(step, there, *where), BatteriesSeen(step, charges, (), (), (), off)]

    closed = StepClosed(0, 0, (0,), (), None, None)
    dark = [*seen(0, (0.5, 0.9, 1.0), ()), TRAIN, closed, *seen(1, (0.04, 0.8, 1.0), (0,))]
    history = folded(*dark)
    assert phases(history) == [Phase.OFF, Phase.IDLE, Phase.ABSENT]
    assert (history.steps[1].charges, history.steps[1].off) == ((0.04, 0.8, 1.0), (0,))
    (event,) = history.happenings
    assert (event.step, event.device, event.kind) == (1, 0, "no charge")
    assert event.detail == "off at 4%, with a model that no access point has"
    lost = OutcomeDecided(1, 0, "t", Outcome.WASTED, "cloud aggregation")
    history = folded(*dark, lost, *seen(2, (0.3, 0.7, 1.0), ()))
    assert phases(history) == [Phase.IDLE, Phase.IDLE, Phase.ABSENT]
    assert [(one.kind, one.detail) for one in history.happenings[1:]] == [
        ("model lost", "while it was off: cloud aggregation"),
        ("charged", "back at 30%"),
    ]
