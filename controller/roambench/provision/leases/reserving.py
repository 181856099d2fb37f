"""A person's claims on a bench, which no process keeps alive: a reservation of now, bookings, their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from roambench.contract.errors import ConfigError, FleetError
from roambench.provision.leases.described import MOST_LETTERS, described
from roambench.provision.leases.holding import LeasedBench, wait_for_turn
from roambench.provision.leases.lease import BookedError, LeaseBook, user
from roambench.provision.leases.local_time import shown
from roambench.provision.leases.queue import LeaseRequest, LeaseStanding

#: Bookings begin within this many days.
_MOST_DAYS_AHEAD: Final = 366.0


def reserve(
    bench: LeasedBench,
    purpose: str,
    lasts_s: float,
    wait_s: float,
    report: Callable[[str], None],
) -> None:
    """Hold the bench for this user, with no process that has to live: until its time is over or it is given
    back. FleetError says who holds it if it is not free within `wait_s` seconds."""
    _check_purpose(purpose)
    book = LeaseBook(bench.state_dir)
    number = book.claim(purpose, expects_s=lasts_s)
    try:
        wait_for_turn(bench.name, book, number, wait_s, report)
        if not book.reserve(number, lasts_s=lasts_s):
            raise FleetError(f"{bench.name}: the place in the queue is gone: it was released by force")
    except BookedError as error:
        book.drop(number)
        raise FleetError(_booked(bench.name, error)) from None
    except BaseException:
        book.drop(number)
        raise


def book_ahead(bench: LeasedBench, purpose: str, from_s: float, lasts_s: float) -> LeaseRequest:
    """Reserve the bench for this user at a later time. FleetError says who has it then, ConfigError what is
    no such time."""
    _check_purpose(purpose)
    ahead_s = from_s - time.time()
    if not 0.0 < ahead_s < _MOST_DAYS_AHEAD * 86400.0:
        raise ConfigError(
            [f"--from: {shown(from_s)}: expected a time from now on, within {_MOST_DAYS_AHEAD:g} days"]
        )
    book = LeaseBook(bench.state_dir)
    try:
        number = book.book(purpose, from_s, from_s + lasts_s)
    except BookedError as error:
        raise FleetError(_booked(bench.name, error)) from None
    return next(claim for claim in book.standing().everybody if claim.number == number)


def give_back(bench: LeasedBench, *, booking: int | None = None, force: bool = False) -> list[str]:
    """End this user's reservations of now, or the `booking` of that number; with `force` also another
    user's, and the lease that holds the bench now. Return what was ended."""
    book = LeaseBook(bench.state_dir)
    found = book.standing()
    if booking is not None:
        ended = [_booking(bench.name, found, booking, force=force)]
    else:
        now = [claim for claim in found.everybody if claim not in found.bookings]
        ended = [claim for claim in now if claim.reserves and claim.user == user()]
        if force:
            holders = (found.holder, found.runner, *found.beside)
            ended += [claim for claim in holders if claim is not None and claim not in ended]
    if not ended:
        own = [claim for claim in found.bookings if claim.user == user()]
        if own:
            raise FleetError(
                f"{bench.name}: you hold nothing now; to take back what you have booked (roambench fleet who "
                f"lists it): roambench fleet release --booking {own[0].number}"
            )
        there = found.holder or next(iter(found.beside), None)
        if there is None:
            return [f"{bench.name} is free already"]
        raise FleetError(f"{bench.name}: you have reserved nothing; held by {described(there)}")
    for claim in ended:
        book.drop(claim.number)
    return [f"ended: {described(claim)}" for claim in ended]


def _booking(bench: str, found: LeaseStanding, number: int, *, force: bool) -> LeaseRequest:
    books = {claim.number: claim for claim in found.everybody if claim.books}
    claim = books.get(number)
    if claim is None:
        there = f"its bookings are {', '.join(map(str, sorted(books)))}" if books else "nothing is booked"
        raise FleetError(f"{bench}: there is no booking {number}: {there} (roambench fleet who)")
    if claim.user != user() and not force:
        raise FleetError(f"{bench}: booking {number} is not yours: {described(claim)}; --force ends it")
    return claim


def _check_purpose(purpose: str) -> None:
    if len(purpose) > MOST_LETTERS:
        raise ConfigError(
            [f"--purpose: {len(purpose)} letters: expected at most {MOST_LETTERS}, others read it in a line"]
        )


def _booked(bench: str, error: BookedError) -> str:
    return f"{bench}: not free at that time: {'; '.join(map(described, error.there))}"
