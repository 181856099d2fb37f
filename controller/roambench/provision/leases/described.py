"""Claims and queues in words: who has a bench, whom one waits for, and why it cannot be had now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from roambench.contract.printable import printable
from roambench.provision.leases.local_time import shown
from roambench.provision.leases.queue import LeaseRequest, LeaseStanding

#: Of a purpose.
MOST_LETTERS: Final = 200
#: Boards that are named in a line.
_MOST_NAMES: Final = 8


def refusal(bench: str, found: LeaseStanding, number: int) -> str:
    """Return why the bench cannot be had now, and what one can do."""
    ahead = found.before(number)
    if all(claim in found.bookings for claim in ahead):
        return (
            f"{bench}: free now, but what was to begin is {_expectation(found, number)}, and it is booked: "
            f"{'; '.join(map(described, ahead))}; wait (--wait SECONDS) until {shown(found.begins_s(number))}"
        )
    chooses = any(claim.boards for claim in found.everybody if claim.number == number)  # a lease: all of them
    without = " do without those boards (--only)," if chooses and all(claim.aside for claim in ahead) else ""
    return (
        f"{bench}: used by {' and then '.join(map(described, ahead))}; wait for it (--wait SECONDS),"
        f"{without} or ask its owner (roambench fleet release --force ends a lease that is not yours)"
    )


def waiting_for(bench: str, found: LeaseStanding, number: int) -> str:
    """Return whom a caller waits for, and the earliest end."""
    ahead = found.before(number)
    line = f"{bench}: waiting for {' and '.join(map(described, ahead))}"
    if any(claim in found.bookings for claim in ahead):
        line += f" (what is to begin here is {_expectation(found, number)})"
    if (begins_s := found.begins_s(number)) > found.now_s:
        line += f"; goes on {shown(begins_s)} at the earliest"
    return line


def _expectation(found: LeaseStanding, number: int) -> str:
    (me,) = (claim for claim in found.everybody if claim.number == number)
    return f"expected to take {lasting(me.expects_s or 0.0)}"


def described(claim: LeaseRequest) -> str:
    """ann@server (pid 4711): run demo, asked 12 min ago."""
    owner, purpose = printable(claim.user), printable(claim.purpose)[:MOST_LETTERS]
    if claim.from_s is not None:
        times = f"from {shown(claim.from_s)} to {shown(claim.expires_s)}"
        return f"{owner}, who booked it {times}: {purpose} (booking {claim.number})"
    if claim.reserves:
        return f"{owner}, who reserved it until {shown(claim.expires_s)}: {purpose}"
    since_s = max(0.0, time.time() - claim.asked_s)
    kept = f", keeps {_names(claim.boards)}" if claim.aside else ""
    return f"{owner} (pid {claim.pid}): {purpose}, asked {since_s / 60.0:.0f} min ago{kept}"


def _names(boards: Sequence[str]) -> str:
    names = ", ".join(map(printable, boards[:_MOST_NAMES]))
    return names + (f" and {len(boards) - _MOST_NAMES} more" if len(boards) > _MOST_NAMES else "")


def lasting(seconds: float) -> str:
    """3.2 h, or 12 min."""
    return f"{seconds / 3600.0:.1f} h" if seconds >= 3600.0 else f"{max(1.0, seconds / 60.0):.0f} min"
