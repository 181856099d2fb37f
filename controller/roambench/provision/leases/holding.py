"""Holding a bench while something runs on it: wait for one's turn, keep the lease alive, give it back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from roambench.contract.errors import FleetError
from roambench.provision.leases.lease import LEASE_S, LeaseBook, user
from roambench.provision.leases.queue import Claim, Standing

#: Carries the number of the lease that a parent process holds to the processes it starts.
LEASE_VARIABLE: Final = "ROAMBENCH_LEASE"
#: Three heartbeats may be late before a lease has run out.
_HEARTBEAT_S: Final = LEASE_S / 4.0
_LOOK_S: Final = 0.5


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


class Held:
    """A lease in one's hands. A lost one cannot come back: somebody else may have used the bench.

    `ours` looks whether it is still; in between, heartbeats do.
    """

    def __init__(self, bench: str, ours: Callable[[], bool]) -> None:
        self._bench, self._ours = bench, ours
        self._lost = threading.Event()

    @property
    def lost(self) -> bool:
        """Whether somebody else has taken the lease."""
        return self._lost.is_set()

    def lose(self) -> None:
        """Note that somebody else has taken the lease."""
        self._lost.set()

    def still(self) -> bool:
        """Whether it was never lost, as of now."""
        if not self.lost and not self._ours():
            self.lose()
        return not self.lost

    def ensure(self) -> None:
        """FleetError if the lease is lost: what is measured from then on may be somebody else's."""
        if not self.still():
            raise FleetError(
                f"{self._bench}: the lease was lost (released by force, or this process stood still for "
                f"{LEASE_S:g} s): another user may have run on the bench; measure again"
            )


@contextmanager
def holding(
    bench: LeasedBench,
    purpose: str,
    wait_s: float = 0.0,
    report: Callable[[str], None] = lambda line: None,
    *,
    heartbeat_s: float = _HEARTBEAT_S,
) -> Iterator[Held]:
    """Hold the bench for the body. FleetError says who holds it if it is not free within `wait_s` seconds,
    or at the end that the lease was lost meanwhile. The lease is renewed every `heartbeat_s`.

    Who waits keeps a place in the queue, first come first served; `report` gets whom one waits for. Inside a
    process that was started under a lease (`LEASE_VARIABLE`) that lease is used.
    """
    book = LeaseBook(bench.state_dir)
    inherited = _inherited(book)
    number = inherited if inherited is not None else book.claim(purpose)

    def ours() -> bool:
        """Also as a process that was started under the lease of another."""
        found = book.renew(number) if inherited is None else book.standing()
        return found is not None and found.allows(number)

    held = Held(bench.name, ours)
    ended = threading.Event()
    beat = threading.Thread(target=_renewing, args=(book, number, held, ended, heartbeat_s), daemon=True)
    try:
        if inherited is None:
            _wait(bench.name, book, number, wait_s, report)
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


def reserve(
    bench: LeasedBench,
    purpose: str,
    lasts_s: float,
    wait_s: float = 0.0,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Hold the bench for this user, with no process that has to live: until its time is over or it is given
    back. FleetError says who holds it if it is not free within `wait_s` seconds."""
    book = LeaseBook(bench.state_dir)
    number = book.claim(purpose)
    try:
        _wait(bench.name, book, number, wait_s, report)
        if not book.reserve(number, lasts_s=lasts_s):
            raise FleetError(f"{bench.name}: the place in the queue is gone: it was released by force")
    except BaseException:
        book.drop(number)
        raise


def give_back(bench: LeasedBench, *, force: bool = False) -> list[str]:
    """End this user's reservations; with `force` also whoever holds the bench now. Says what was ended."""
    book = LeaseBook(bench.state_dir)
    found = book.standing()
    everybody = [claim for claim in (found.holder, found.runner, *found.waiting) if claim is not None]
    ended = [claim for claim in everybody if claim.reserves and claim.user == user()]
    if force:
        holders = (found.holder, found.runner)
        ended += [claim for claim in holders if claim is not None and claim not in ended]
    if not ended:
        if found.holder is None:
            return [f"{bench.name} is free already"]
        raise FleetError(f"{bench.name}: you have reserved nothing; held by {described(found.holder)}")
    for claim in ended:
        book.drop(claim.number)
    return [f"ended: {described(claim)}" for claim in ended]


def _inherited(book: LeaseBook) -> int | None:
    """The number of this bench's lease that a parent holds and still may use; None without one."""
    written, _, path = os.environ.get(LEASE_VARIABLE, "").partition(" ")
    if not written.isdecimal() or path != str(book.path.resolve()):
        return None
    return int(written) if book.standing().allows(int(written)) else None


def _wait(bench: str, book: LeaseBook, number: int, wait_s: float, report: Callable[[str], None]) -> None:
    deadline_s = time.monotonic() + wait_s
    told: tuple[int, ...] = ()
    while True:
        found = book.renew(number)
        if found is None:
            raise FleetError(f"{bench}: the place in the queue is gone: it was released by force")
        if found.allows(number):
            return
        ahead = found.before(number)
        if time.monotonic() >= deadline_s:
            raise FleetError(refusal(bench, ahead))
        if told != (numbers := tuple(claim.number for claim in ahead)):
            told = numbers
            report(f"{bench}: waiting for {' and '.join(map(described, ahead))}")
        time.sleep(min(_LOOK_S, max(0.0, deadline_s - time.monotonic())))


def _renewing(book: LeaseBook, number: int, held: Held, ended: threading.Event, heartbeat_s: float) -> None:
    good_until_s = time.monotonic() + LEASE_S
    while not ended.wait(heartbeat_s):
        try:
            found = book.renew(number)
        except FleetError:  # a disk that hiccups: the next beat may do
            if time.monotonic() < good_until_s:
                continue
            found = None
        if found is None or not found.allows(number):
            held.lose()
            return
        good_until_s = time.monotonic() + LEASE_S


def refusal(bench: str, ahead: tuple[Claim, ...]) -> str:
    """Why the bench cannot be had now, and what one can do."""
    return (
        f"{bench}: used by {' and then '.join(map(described, ahead))}; wait for it (--wait SECONDS), or ask "
        "its owner (roambench fleet release --force ends a lease that is not yours)"
    )


def described(claim: Claim) -> str:
    """ann@server (pid 4711): run demo, for 12 min."""
    since_min = max(0.0, time.time() - claim.asked_s) / 60.0
    if claim.reserves:
        left_min = max(0.0, claim.expires_s - time.time()) / 60.0
        return f"{claim.user}, who reserved it for {left_min:.0f} min more: {claim.purpose}"
    return f"{claim.user} (pid {claim.pid}): {claim.purpose}, asked {since_min:.0f} min ago"


def standing_of(bench: LeasedBench) -> Standing:
    """The bench's holder and its queue."""
    return LeaseBook(bench.state_dir).standing()
