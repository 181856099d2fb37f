"""The rule of a bench's calendar: who goes first, whatever begins, ends and is booked meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from roambench.provision.leases.queue import NO_PROCESS, LeaseRequest, collisions, earliest_s, standing


def process(number: int, user: str, expects_s: float | None = None, *, begun: bool = False) -> LeaseRequest:
    return LeaseRequest(number, user, "srv", 1, "run", 0.0, 1e12, begun, None, expects_s)


def booking(number: int, user: str, from_s: float, until_s: float) -> LeaseRequest:
    return LeaseRequest(number, user, "srv", NO_PROCESS, "night", 0.0, until_s, False, from_s)


def test_what_would_not_end_before_somebody_elses_booking_waits_and_what_does_comes_in_between() -> None:
    bens = booking(1, "ben", 100.0, 200.0)
    found = standing([bens, process(2, "ann", 150.0), process(3, "cid", 50.0)], 0.0)
    assert found.allows(3)
    assert not found.allows(2)
    assert [claim.number for claim in found.before(2)] == [3, 1]
    assert found.begins_s(2) == 200.0
    assert found.bookings == (bens,)


def test_what_takes_nobody_knows_how_long_and_ones_own_booking_keep_nobody_waiting() -> None:
    bens = booking(1, "ben", 100.0, 200.0)
    assert standing([bens, process(2, "ann")], 99.0).allows(2)
    assert standing([bens, process(2, "ben", 150.0)], 0.0).allows(2)


def test_in_a_booking_only_its_users_processes_run_and_one_that_began_before_goes_on() -> None:
    bens, anns = booking(1, "ben", 100.0, 200.0), process(2, "ann")
    found = standing([bens, anns, process(3, "ben")], 150.0)
    assert (found.holder, found.runner and found.runner.number) == (bens, 3)
    assert found.waiting == (anns,)
    found = standing([bens, replace(anns, begun=True), process(3, "ben")], 150.0)
    assert found.allows(2)
    assert not found.allows(3)
    assert [claim.number for claim in found.waiting] == [1, 3]


def test_it_waits_for_the_first_gap_that_is_long_enough() -> None:
    claims = [
        booking(1, "ben", 100.0, 200.0),
        booking(2, "cid", 230.0, 300.0),
        booking(3, "ann", 300.0, 350.0),
    ]
    assert earliest_s(process(4, "ann", 100.0), claims, 0.0) == 0.0
    assert earliest_s(process(4, "ann", 101.0), claims, 0.0) == 300.0
    assert earliest_s(process(4, "ann", 30.0), claims, 150.0) == 200.0
    assert earliest_s(process(4, "dan", 60.0), claims, 210.0) == 350.0
    assert earliest_s(process(4, "dan"), claims, 299.0) == 350.0
    assert earliest_s(process(4, "dan"), claims, 220.0) == 220.0


def test_only_what_touches_no_other_can_be_booked() -> None:
    claims = [booking(1, "ben", 100.0, 200.0), process(2, "ann"), replace(process(3, "cid"), pid=NO_PROCESS)]
    now = replace(claims[2], expires_s=50.0)
    assert collisions([claims[0], claims[1], now], 50.0, 100.0) == ()
    assert collisions([claims[0], claims[1], now], 200.0, 300.0) == ()
    assert collisions([claims[0], claims[1], now], 40.0, 101.0) == (now, claims[0])


USERS = st.sampled_from(["ann", "ben", "cid"])


@dataclass
class Work:
    """One process of a schedule: when it asks, how long it really takes, and what it says of that."""

    user: str
    asks_s: int
    takes_s: int
    says: int | None


WORKS = st.lists(
    st.builds(Work, USERS, st.integers(0, 60), st.integers(1, 25), st.none() | st.integers(1, 25)),
    min_size=1,
    max_size=8,
)
BOOKED = st.lists(st.tuples(USERS, st.integers(0, 90), st.integers(1, 30)), max_size=5)


@settings(max_examples=400, deadline=None)
@given(WORKS, BOOKED)
def test_whatever_is_asked_for_and_booked_nobody_is_robbed_and_everybody_comes(
    works: list[Work], booked: list[tuple[str, int, int]]
) -> None:
    """A second at a time, as the processes of a bench would find it. Whoever begins is noted by what the
    schedule says, not by what the rule keeps."""
    calendar: list[LeaseRequest] = []
    for user, from_s, lasts_s in booked:
        if not collisions(calendar, from_s, from_s + lasts_s):
            calendar.append(booking(100 + len(calendar), user, from_s, from_s + lasts_s))
    began: dict[int, int] = {}
    ended: dict[int, int] = {}
    second = 0
    while len(ended) < len(works):
        assert second < 1000, "somebody never came"
        for number, at_s in list(began.items()):
            if number not in ended and second >= at_s + works[number].takes_s:
                ended[number] = second
        living = [
            process(number, work.user, work.says, begun=number in began)
            for number, work in enumerate(works)
            if work.asks_s <= second and number not in ended
        ]
        found = standing([*living, *(one for one in calendar if second < one.expires_s)], second)
        running = [claim.number for claim in living if found.allows(claim.number)]
        assert len(running) <= 1  # one at a time
        before = [number for number in began if number not in ended]
        assert not before or running == before  # who has begun goes on to the end
        assert {claim.number for claim in found.everybody} >= {claim.number for claim in living}
        for number in running:
            if number not in began:
                began[number] = second
                work = works[number]
                theirs = [one for one in calendar if one.user != work.user]
                says = work.says or 0
                # In nobody's booking but one's own, and said to end before the next.
                assert not any(
                    one.from_s < max(second + says, second + 0.5) and second < one.expires_s  # type: ignore[operator]
                    for one in theirs
                )
        second += 1
    # Who waited was kept waiting by somebody: a bench is idle only where all who ask must wait for a booking.
    for second in range(max(ended.values())):
        if any(began[number] <= second < ended[number] for number in began):
            continue
        for number, work in enumerate(works):
            if work.asks_s <= second < began[number]:
                me = process(number, work.user, work.says)
                here = [one for one in calendar if second < one.expires_s]
                mine = any(one.user == work.user and one.from_s <= second for one in here)  # type: ignore[operator]
                assert not mine or earliest_s(me, here, second) > second
                assert earliest_s(me, here, second) > second
