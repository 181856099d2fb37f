"""The bench's lease on disk: claims in one SQLite file, each transaction alone, nothing kept in memory.

A claim is written, renewed and dropped in transactions that no other process can come between; every process
that looks
first removes the dead. Dead is at once what was a process of this machine that is no more, or of an earlier
boot of it: a claim left by `kill -9` does not have to run out. Dead is also what was not renewed in time, as
soon as another process wants the bench: until then, a process that stood still finds its claim as it was.
Time is how long this machine is up for its own processes, which no step of the wall clock moves, and the wall
clock for all others.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil

from roambench.contract.errors import FleetError
from roambench.provision.leases.queue import (
    NO_PROCESS,
    LeaseRequest,
    LeaseStanding,
    collisions,
    earliest_s,
    standing,
)

#: A process's claim lives this long without being renewed.
LEASE_S: Final = 60.0
#: A bench's calendar ends somewhere.
MOST_BOOKINGS: Final = 100
#: What a transaction of another process may take at most.
_BUSY_S: Final = 10.0
#: `until_s` is when a process's claim expires by its machine's uptime; `boards` are names, one a line.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS claims(
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL, machine TEXT NOT NULL, pid INTEGER NOT NULL, purpose TEXT NOT NULL,
    asked_s REAL NOT NULL, expires_s REAL NOT NULL, begun INTEGER NOT NULL DEFAULT 0, until_s REAL,
    from_s REAL, expects_s REAL, boards TEXT NOT NULL DEFAULT '', aside INTEGER NOT NULL DEFAULT 0
)"""
#: A machine's id, or its boot's, that it does not tell.
_UNKNOWN: Final = "-"
_COLUMNS: Final = (
    "until_s, boards, aside, "
    "number, user, machine, pid, purpose, asked_s, expires_s, begun, from_s, expects_s"
)


class BookedError(FleetError):
    """The bench is taken at that time: `there` are the reservations and bookings in the way."""

    def __init__(self, there: Sequence[LeaseRequest]) -> None:
        self.there = tuple(there)
        super().__init__("the bench is booked then")


class LeaseBook:
    """The claims on one bench. Every method is one transaction; FleetError where the file cannot be used."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "lease.sqlite"

    def bench_id(self) -> str:
        """The bench's random id, by which boards know it; the first call makes it."""
        with self._transaction() as claims:
            claims.execute("CREATE TABLE IF NOT EXISTS bench(id TEXT NOT NULL)")
            claims.execute(
                "INSERT INTO bench SELECT ? WHERE NOT EXISTS (SELECT 1 FROM bench)", (uuid4().hex,)
            )
            return str(claims.execute("SELECT id FROM bench").fetchone()[0])

    def standing(self) -> LeaseStanding:
        """The present holder of the bench and the queue behind it, without claims of dead processes."""
        with self._transaction() as claims:
            return _standing(claims, looks=True)

    def claim(
        self,
        purpose: str,
        *,
        expects_s: float | None = None,
        boards: Sequence[str] = (),
    ) -> int:
        """Join the queue and get a number; `standing().allows(number)` tells when it is one's turn.
        `expects_s`: how long the bench will be needed, where that is known; `boards`: the only ones."""
        now_s, until_s = time.time(), _uptime_s() + LEASE_S
        with self._transaction() as claims:
            _living(claims)
            found = claims.execute(
                "INSERT INTO claims"
                "(user, machine, pid, purpose, asked_s, expires_s, until_s, expects_s, boards) "
                "VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    user(),
                    machine(),
                    os.getpid(),
                    purpose,
                    now_s,
                    now_s + LEASE_S,
                    until_s,
                    expects_s,
                    "\n".join(boards),
                ),
            )
            assert found.lastrowid is not None
            return found.lastrowid

    def book(self, purpose: str, from_s: float, until_s: float) -> int:
        """The bench is this user's between these moments; the booking's number. BookedError where it is
        taken already, FleetError where the calendar is full."""
        with self._transaction() as claims:
            living = _living(claims, looks=True)
            if there := collisions(living, from_s, until_s):
                raise BookedError(there)
            if sum(claim.books for claim in living) >= MOST_BOOKINGS:
                raise FleetError(f"{self.path}: has {MOST_BOOKINGS} bookings, and takes no more")
            found = claims.execute(
                "INSERT INTO claims(user, machine, pid, purpose, asked_s, expires_s, from_s) "
                "VALUES (?,?,?,?,?,?,?)",
                (user(), machine(), NO_PROCESS, purpose, time.time(), until_s, from_s),
            )
            assert found.lastrowid is not None
            return found.lastrowid

    def turn(self, number: int, expects_s: float | None) -> LeaseStanding | None:
        """Between two pieces of work: make way for another user's booking that has begun, or begins
        before the next piece, which takes that long, is expected to end. The place in the queue stays. None
        where the claim is gone."""
        with self._transaction() as claims:
            _live_on(claims, number)
            living = _living(claims)
            mine = next((claim for claim in living if claim.number == number), None)
            if mine is None:
                return None
            now_s, mine = time.time(), replace(mine, expects_s=expects_s)
            begun = mine.begun and earliest_s(mine, living, now_s) <= now_s
            change = "UPDATE claims SET expects_s = ?, begun = ? WHERE number = ?"
            claims.execute(change, (expects_s, begun, number))
            return _standing(claims)

    def renew(self, number: int) -> LeaseStanding | None:
        """Live on, however late; None where the claim is gone (it ran out and another user wanted the bench,
        or was removed)."""
        with self._transaction() as claims:
            _live_on(claims, number)
            if not any(claim.number == number for claim in _living(claims)):
                return None
            return _standing(claims)

    def reserve(self, number: int, *, lasts_s: float) -> bool:
        """Turn the claim of the process that has the bench into its user's reservation; False where it is
        gone. BookedError where another user booked a part of that time meanwhile."""
        with self._transaction() as claims:
            _live_on(claims, number)
            there = collisions(_living(claims), time.time(), time.time() + lasts_s)
            if others := [claim for claim in there if claim.books and claim.user != user()]:
                raise BookedError(others)
            change = "UPDATE claims SET pid = ?, expires_s = ? WHERE number = ?"
            return claims.execute(change, (NO_PROCESS, time.time() + lasts_s, number)).rowcount == 1

    def step_aside(self, number: int, boards: Sequence[str]) -> None:
        """Keep these boards alone (one or more); the bench is the next one's who needs none of them."""
        with self._transaction() as claims:
            change = "UPDATE claims SET boards = ?, aside = 1 WHERE number = ?"
            claims.execute(change, ("\n".join(boards), number))

    def drop(self, number: int) -> bool:
        """Leave the bench or the queue; False where the claim was gone already."""
        with self._transaction() as claims:
            return claims.execute("DELETE FROM claims WHERE number = ?", (number,)).rowcount == 1

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection that holds the write lock: safe with threads, forks and a kill."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            connection = sqlite3.connect(self.path, isolation_level=None, timeout=_BUSY_S)
            try:
                if new:
                    self._share()
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_SCHEMA)
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()  # what was not committed is rolled back
        except sqlite3.Error as error:
            raise FleetError(f"{self.path}: the bench's lease cannot be used: {error}") from None
        except OSError as error:
            raise FleetError(
                f"{self.path}: the bench's lease cannot be used: {error.strerror or error}"
            ) from None

    def _share(self) -> None:
        """In a folder that a group may write, the group may write the lease, too."""
        if self.path.parent.stat().st_mode & stat.S_IWGRP:
            with contextlib.suppress(PermissionError):
                self.path.chmod(0o660)


def user() -> str:
    """The claimant: the account on this machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        name = f"uid-{os.getuid()}"
    return f"{name}@{socket.gethostname()}"


def machine() -> str:
    """Return where a process id can be looked up: this boot of this machine, this process namespace."""
    parts = [socket.gethostname()]
    for name in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        try:
            parts.append(Path(name).read_text(encoding="ascii").strip() or _UNKNOWN)
        except OSError:
            parts.append(_UNKNOWN)
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def _was_booted_since(there: str, here: str) -> bool:
    """Return whether `there` is an earlier boot of the machine that `here` is."""
    (*before, boot), (*same, now) = there.split()[:3], here.split()[:3]
    return before == same and boot != now and _UNKNOWN not in (*before, boot)


def _uptime_s() -> float:
    """Also while it is suspended; the same for all processes of a boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _live_on(claims: sqlite3.Connection, number: int) -> None:
    """A process's claim that is still there lives for LEASE_S from now on."""
    mine = "UPDATE claims SET expires_s = ?, until_s = ? WHERE number = ? AND pid <> ?"
    claims.execute(mine, (time.time() + LEASE_S, _uptime_s() + LEASE_S, number, NO_PROCESS))


def _standing(claims: sqlite3.Connection, *, looks: bool = False) -> LeaseStanding:
    """Return where the living claims stand; the first keeps the bench from now on."""
    found = standing(_living(claims, looks=looks), time.time())
    for claim in (found.holder, found.runner):
        if claim is not None and not claim.begun and not claim.books:
            claims.execute("UPDATE claims SET begun = 1 WHERE number = ?", (claim.number,))
    return found


def _living(claims: sqlite3.Connection, *, looks: bool = False) -> list[LeaseRequest]:
    """The claims that are alive; the others are removed in the same transaction. Who only `looks` wants
    nothing: where no process does, those that ran out are left."""
    here = machine()
    alive: list[LeaseRequest] = []
    late: list[int] = []
    for until_s, boards, aside, *row in claims.execute(
        f"SELECT {_COLUMNS} FROM claims ORDER BY number"
    ).fetchall():
        claim = LeaseRequest(*row)
        kept = tuple(boards.split("\n")) if boards else ()
        claim = replace(claim, begun=bool(claim.begun), boards=kept, aside=bool(aside))
        by_wall = claim.reserves or claim.machine != here
        left_s = claim.expires_s - time.time() if by_wall else until_s - _uptime_s()
        if _has_died(claim, here) or (claim.reserves and left_s <= 0.0):
            claims.execute("DELETE FROM claims WHERE number = ?", (claim.number,))
        elif left_s <= 0.0:
            late.append(claim.number)
        else:
            alive.append(claim)
    if not looks or any(not claim.reserves for claim in alive):
        claims.executemany("DELETE FROM claims WHERE number = ?", [(number,) for number in late])
    return alive


def _has_died(claim: LeaseRequest, here: str) -> bool:
    """Return whether its process surely is no more. Another that got the same id lets it run out instead."""
    if claim.reserves:
        return False
    if claim.machine != here:
        return _was_booted_since(claim.machine, here)
    try:
        return bool(psutil.Process(claim.pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
