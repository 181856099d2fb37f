"""Rule of who may use a bench now, and who waits: the rule alone, over the claims as they stand; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: A reservation belongs to a person, no process keeps it alive: it ends at its hour or when it is released.
NO_PROCESS = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """One wish to use the bench; the first that was made comes first.

    `user` is "name@host". `machine` tells where the process `pid` can be looked up. Times are seconds since
    the epoch; a claim that is not renewed until `expires_s` is dead. `begun`: its turn has come once, and
    nobody who asked earlier comes in between any more.
    """

    number: int
    user: str
    machine: str
    pid: int
    purpose: str
    asked_s: float
    expires_s: float
    begun: bool = False

    @property
    def reserves(self) -> bool:
        """Whether it is a reservation by hand, of no process."""
        return self.pid == NO_PROCESS


@dataclass(frozen=True, slots=True)
class Standing:
    """`holder` uses the bench or has reserved it; `runner` works under the reservation of its own user.

    `waiting` are the others in the order they will come.
    """

    holder: Claim | None
    runner: Claim | None
    waiting: tuple[Claim, ...]

    def allows(self, number: int) -> bool:
        """Whether the claim of this number may use the bench."""
        return any(claim is not None and claim.number == number for claim in (self.holder, self.runner))

    def before(self, number: int) -> tuple[Claim, ...]:
        """All that this claim waits for, the holder first."""
        first = tuple(claim for claim in (self.holder, self.runner) if claim is not None)
        return first + tuple(claim for claim in self.waiting if claim.number < number)


def standing(claims: Sequence[Claim]) -> Standing:
    """Of living claims: the oldest holds. Under a reservation the oldest process of the same user runs, and
    goes on when the reservation ends before it does."""
    ordered = sorted(claims, key=lambda claim: (not claim.begun, claim.number))
    if not ordered:
        return Standing(None, None, ())
    holder, *others = ordered
    runner = None
    if holder.reserves:
        own = (claim for claim in others if claim.user == holder.user and not claim.reserves)
        runner = next(own, None)
    return Standing(holder, runner, tuple(claim for claim in others if claim is not runner))
