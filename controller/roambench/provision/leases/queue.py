"""Rule of who may use a bench now, and who waits: the rule alone, over the claims as they stand; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: A reservation belongs to a person, no process keeps it alive: it ends at its hour or when it is released.
NO_PROCESS = 0


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """One wish to use the bench; the first that was made comes first.

    `user` is "name@host". `machine` tells where the process `pid` can be looked up. Times are seconds since
    the epoch; a claim that is not renewed until `expires_s` is dead. `begun`: its turn has come once, and
    no earlier claim comes in between any more. `from_s`: of a booking, when it begins; it ends with
    `expires_s`. `expects_s`: how long a process will need the bench; None where that is unknown. `boards`:
    the only ones that it is about; () for all. `aside`: it has had its turn and keeps but these.
    """

    number: int
    user: str
    machine: str
    pid: int
    purpose: str
    asked_s: float
    expires_s: float
    begun: bool = False
    from_s: float | None = None
    expects_s: float | None = None
    boards: tuple[str, ...] = ()
    aside: bool = False

    @property
    def reserves(self) -> bool:
        """True if it is a reservation by hand, of no process."""
        return self.pid == NO_PROCESS

    @property
    def books(self) -> bool:
        """True if it is a reservation that was made for later."""
        return self.from_s is not None

    def needs_any_of(self, other: LeaseRequest) -> bool:
        """Return whether it works on a board that the other one keeps. A reservation works on none."""
        if self.reserves:
            return False
        return not self.boards or not other.boards or not set(self.boards).isdisjoint(other.boards)


@dataclass(frozen=True, slots=True)
class LeaseStanding:
    """`holder` uses the bench or has reserved it; `runner` works under its user's reservation.

    `waiting` are the others in the order they will come, `bookings` what begins later, the next one first,
    `now_s` when this was so. `beside` are those that have stepped aside: each keeps some boards, and only who
    needs one of these waits for it.
    """

    holder: LeaseRequest | None
    runner: LeaseRequest | None
    waiting: tuple[LeaseRequest, ...]
    bookings: tuple[LeaseRequest, ...] = ()
    now_s: float = 0.0
    beside: tuple[LeaseRequest, ...] = ()

    @property
    def everybody(self) -> tuple[LeaseRequest, ...]:
        """All claims, the holder first and bookings last."""
        return self._first + self.beside + self.waiting + self.bookings

    def allows(self, number: int) -> bool:
        """Return whether the claim of this number may use the bench, or the boards that it keeps."""
        return any(claim.number == number for claim in self._first + self.beside)

    def before(self, number: int) -> tuple[LeaseRequest, ...]:
        """All that this claim waits for, the holder first; last the bookings until whose end it waits."""
        me = next((claim for claim in self.waiting if claim.number == number), None)
        if me is None:
            return ()
        kept = [claim for claim in self.beside if me.needs_any_of(claim)]
        ahead = [claim for claim in self.waiting[: self.waiting.index(me)] if not self._kept_waiting(claim)]
        begins_s = earliest_s(me, self.everybody, self.now_s)
        booked = [claim for claim in self.bookings if claim.user != me.user and _from_s(claim) < begins_s]
        return (*self._first, *kept, *ahead, *booked)

    def begins_s(self, number: int) -> float:
        """Return when this claim could begin as far as bookings go; `now_s` where none of them keeps it
        waiting."""
        (me,) = (claim for claim in self.everybody if claim.number == number)
        return earliest_s(me, self.everybody, self.now_s)

    @property
    def _first(self) -> tuple[LeaseRequest, ...]:
        return tuple(claim for claim in (self.holder, self.runner) if claim is not None)

    def _kept_waiting(self, claim: LeaseRequest) -> bool:
        if any(claim.needs_any_of(other) for other in self.beside):
            return True
        return earliest_s(claim, self.everybody, self.now_s) > self.now_s


def standing(claims: Sequence[LeaseRequest], now_s: float) -> LeaseStanding:
    """Order the living claims: a process that has begun goes on to its end, also into reserved time. Else the
    reservation or booking of now holds, and the oldest process of the same user runs under it. Else the
    oldest holds that is expected to end before the next booking of another user. Who has stepped aside holds
    the bench no more, and keeps those waiting who need its boards.
    """
    beside = tuple(sorted((claim for claim in claims if claim.aside), key=lambda claim: claim.number))
    ordered = sorted((claim for claim in claims if not claim.aside), key=lambda claim: claim.number)
    later = sorted((claim for claim in ordered if _from_s(claim) > now_s), key=_from_s)
    present = [claim for claim in ordered if _from_s(claim) <= now_s]
    free = [
        claim
        for claim in present
        if claim.begun
        or (
            earliest_s(claim, ordered, now_s) <= now_s
            and not any(claim.needs_any_of(other) for other in beside)
        )
    ]
    running = next((claim for claim in present if claim.begun and not claim.reserves), None)
    reserved = sorted((c for c in present if c.reserves and (c.begun or c.books)), key=lambda c: not c.begun)
    holder, runner = next(iter(free), None), running
    if reserved and (running is None or any(claim.user == running.user for claim in reserved)):
        holder = next(claim for claim in reserved if running is None or claim.user == running.user)
    elif running is not None:
        holder, runner = running, None
    if holder is not None and holder.reserves and runner is None:
        own = (claim for claim in free if claim.user == holder.user and not claim.reserves)
        runner = next(own, None)
    waiting = [claim for claim in present if claim is not holder and claim is not runner]
    waiting.sort(key=lambda claim: not claim.books)
    return LeaseStanding(holder, runner, tuple(waiting), tuple(later), now_s, beside)


def earliest_s(claim: LeaseRequest, claims: Iterable[LeaseRequest], now_s: float) -> float:
    """The first moment from now on at which it may begin and is expected to end before the next booking of
    another user. Work of unknown length may begin in every gap. A booking waits for none."""
    if claim.books:
        return now_s
    begins_s = now_s
    others = (other for other in claims if other.books and other.user != claim.user)
    for other in sorted(others, key=_from_s):
        if _from_s(other) <= begins_s < other.expires_s or (
            begins_s < _from_s(other) < begins_s + (claim.expects_s or 0.0)
        ):
            begins_s = other.expires_s
    return begins_s


def collisions(claims: Iterable[LeaseRequest], from_s: float, until_s: float) -> tuple[LeaseRequest, ...]:
    """The reservations and bookings that lie at least partly between these moments, the first one first."""
    found = (
        claim for claim in claims if claim.reserves and _from_s(claim) < until_s and from_s < claim.expires_s
    )
    return tuple(sorted(found, key=_from_s))


def _from_s(claim: LeaseRequest) -> float:
    """Return when it counts from: a claim that is not for later always does."""
    return float("-inf") if claim.from_s is None else claim.from_s
