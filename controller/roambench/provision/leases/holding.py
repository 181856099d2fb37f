"""Holding a bench while something runs on it: wait for one's turn, keep the lease alive, give it back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from roambench.contract.errors import FleetError
from roambench.provision.leases.described import described, refusal, waiting_for
from roambench.provision.leases.lease import LEASE_S, LeaseBook, user
from roambench.provision.leases.queue import LeaseStanding

#: Carries the number of the lease that a parent process holds to the processes it starts.
LEASE_VARIABLE: Final = "ROAMBENCH_LEASE"
#: Three heartbeats may be late before a lease has run out.
_HEARTBEAT_S: Final = LEASE_S / 4.0
_LOOK_S: Final = 0.5
#: How long what begins now is expected to need the bench, in seconds; None where that is unknown. It is asked
#: only where another user has booked the bench.
Expects = Callable[[], float | None]


def nobody_knows() -> float | None:
    """Return None: the work may take any time."""
    return None


class LeasedBench(Protocol):
    """The part of a bench that a lease needs."""

    @property
    def name(self) -> str:
        """The bench's name."""
        ...

    @property
    def state_dir(self) -> Path:
        """The folder in which the lease lies."""
        ...


class HeldLease:
    """A lease that is held. A lost one cannot come back: another user may have used the bench.

    `ours` looks whether it is still; in between, heartbeats do. `waits` looks whom the next piece of work,
    which takes that long, has to make way for: "" for none, None where the lease is gone. `steps_aside` is
    called with the boards that are kept. `beside`: who kept some, and which, when it began.
    """

    def __init__(
        self,
        bench: str,
        ours: Callable[[], bool],
        waits: Callable[[float | None], str | None],
        steps_aside: Callable[[Sequence[str]], None],
    ) -> None:
        self._bench, self._ours, self._waits, self._steps_aside = bench, ours, waits, steps_aside
        self.beside: tuple[str, ...] = ()
        self._lost = threading.Event()
        self._gave_way = threading.Event()

    @property
    def gave_way(self) -> bool:
        """True while another user, who has booked the bench, may use it and this lease waits."""
        return self._gave_way.is_set()

    def turn(self, expects_s: float | None) -> str:
        """Ask between two pieces of work: "" where the next one, which is expected to take `expects_s`, may
        begin now, else whom it waits for and until when. From then on the bench is another's, until a later
        call gives "" again; the place in the queue stays. FleetError if the lease is lost."""
        self._gave_way.set()  # before a heartbeat can miss it
        waits_for = self._waits(expects_s)
        if waits_for is None:
            self.lose()
        if not waits_for:
            self._gave_way.clear()
        self.ensure()
        return waits_for or ""

    def make_way(self, expects_s: float | None, report: Callable[[str], None]) -> None:
        """Wait until the next piece of work, which is expected to take `expects_s`, may begin."""
        reported = ""
        while waits_for := self.turn(expects_s):
            if waits_for != reported:
                reported = waits_for
                report(waits_for)
            time.sleep(_LOOK_S)

    def keep(self, boards: Sequence[str]) -> None:
        """From now on others may use all boards but these; without any left it stays as it was."""
        if boards:
            self._steps_aside(boards)

    @property
    def lost(self) -> bool:
        """True once another user has taken the lease."""
        return self._lost.is_set()

    def lose(self) -> None:
        """Note that another user has taken the lease."""
        self._lost.set()

    def still(self) -> bool:
        """Return whether it was never lost, as of now."""
        if not self.lost and not self.gave_way and not self._ours():
            self.lose()
        return not self.lost

    def ensure(self) -> None:
        """FleetError if the lease is lost: what is measured from then on may be another user's."""
        if not self.still():
            raise FleetError(
                f"{self._bench}: the lease was lost (released by force, or this process stood still for "
                f"{LEASE_S:g} s and another user wanted the bench): another user may have run on the bench; "
                "measure again"
            )


@contextmanager
def holding(
    bench: LeasedBench,
    purpose: str,
    report: Callable[[str], None],
    wait_s: float = 0.0,
    *,
    expects: Expects = nobody_knows,
    boards: Sequence[str] = (),
    heartbeat_s: float = _HEARTBEAT_S,
) -> Iterator[HeldLease]:
    """Hold the bench for the body. FleetError says who holds it if it is not free within `wait_s` seconds,
    or at the end that the lease was lost meanwhile. The lease is renewed every `heartbeat_s`.

    Until it steps aside (`HeldLease.keep`) it has the whole bench, but it waits for no user who keeps none of
    its `boards` (() for all). What `expects` to need the bench beyond the beginning of another user's
    booking is not begun before it.

    Who waits keeps a place in the queue, first come first served; `report` gets whom one waits for. Inside a
    process that was started under a lease (`LEASE_VARIABLE`) that lease is used.
    """
    book = LeaseBook(bench.state_dir)
    inherited = _inherited(book)
    if inherited is not None:
        number = inherited
    else:
        number = book.claim(purpose, expects_s=_expected(book, expects), boards=boards)

    def ours() -> bool:
        """Also as a process that was started under the lease of another, and may look before that does."""
        found = book.renew(number)
        return found is not None and found.allows(number)

    def waits(expects_s: float | None) -> str | None:
        """The lease's owner makes way; a process that was started under it follows."""
        found = book.turn(number, expects_s) if inherited is None else book.renew(number)
        if found is None or (inherited is not None and not found.allows(number)):
            return None
        return "" if found.allows(number) else waiting_for(bench.name, found, number)

    def steps_aside(kept: Sequence[str]) -> None:
        """Let others use what the lease's owner leaves free."""
        if inherited is None:
            book.step_aside(number, kept)

    held = HeldLease(bench.name, ours, waits, steps_aside)
    ended = threading.Event()
    beat = threading.Thread(target=_renewing, args=(book, number, held, ended, heartbeat_s), daemon=True)
    try:
        if inherited is None:
            found = wait_for_turn(bench.name, book, number, wait_s, report)
            held.beside = tuple(map(described, found.beside))
            beat.start()
        before = os.environ.get(LEASE_VARIABLE)
        os.environ[LEASE_VARIABLE] = f"{number} {book.path.resolve()}"
        try:
            yield held
        finally:
            if before is None:
                del os.environ[LEASE_VARIABLE]
            else:
                os.environ[LEASE_VARIABLE] = before
        held.ensure()
    finally:
        ended.set()
        if beat.ident is not None:
            beat.join()
        if inherited is None:
            book.drop(number)


def _expected(book: LeaseBook, expects: Expects) -> float | None:
    """Worked out only where it can matter."""
    mine = user()
    return expects() if any(claim.user != mine for claim in book.standing().bookings) else None


def _inherited(book: LeaseBook) -> int | None:
    """The number of this bench's lease that a parent holds and still may use; None without one."""
    written, _, path = os.environ.get(LEASE_VARIABLE, "").partition(" ")
    if not written.isdecimal() or path != str(book.path.resolve()):
        return None
    found = book.renew(int(written))  # who holds it may have stood still, and not looked again yet
    return int(written) if found is not None and found.allows(int(written)) else None


def wait_for_turn(
    bench: str, book: LeaseBook, number: int, wait_s: float, report: Callable[[str], None]
) -> LeaseStanding:
    """Return how everybody stands when its turn has come; FleetError if that is not within `wait_s`
    seconds."""
    deadline_s = time.monotonic() + wait_s
    reported: tuple[int, ...] = ()
    while True:
        found = book.renew(number)
        if found is None:
            raise FleetError(f"{bench}: the place in the queue is gone: it was released by force")
        if found.allows(number):
            return found
        ahead = found.before(number)
        if time.monotonic() >= deadline_s:
            raise FleetError(refusal(bench, found, number))
        if reported != (numbers := tuple(claim.number for claim in ahead)):
            reported = numbers
            report(waiting_for(bench, found, number))
        time.sleep(min(_LOOK_S, max(0.0, deadline_s - time.monotonic())))


def _renewing(
    book: LeaseBook, number: int, held: HeldLease, ended: threading.Event, heartbeat_s: float
) -> None:
    good_until_s = time.monotonic() + LEASE_S
    while not ended.wait(heartbeat_s):
        gave_way = held.gave_way  # before it looks: the turn may come while it does
        try:
            found = book.renew(number)
        except FleetError:  # a disk that hiccups: the next beat may do
            if time.monotonic() < good_until_s:
                continue
            found = None
        if found is None or not (found.allows(number) or gave_way or held.gave_way):
            held.lose()
            return
        good_until_s = time.monotonic() + LEASE_S


def standing_of(bench: LeasedBench) -> LeaseStanding:
    """The bench's holder and its queue."""
    return LeaseBook(bench.state_dir).standing()
