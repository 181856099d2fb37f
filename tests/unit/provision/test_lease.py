"""The bench's lease with real processes: one at a time, first come first served, and no claim of the dead."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from roambench.contract.errors import FleetError
from roambench.provision.leases import lease as lease_module
from roambench.provision.leases.holding import LEASE_VARIABLE, holding, standing_of
from roambench.provision.leases.lease import LeaseBook, machine, user
from roambench.provision.leases.queue import NO_PROCESS, LeaseRequest, standing
from roambench.provision.leases.reserving import reserve


@dataclass(frozen=True)
class Bench:
    name: str
    state_dir: Path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench("bench36", tmp_path / ".bench36")


#: Takes the bench, says so in a file, and holds it until its standard input ends.
_HOLDER = """
import sys
from dataclasses import dataclass
from pathlib import Path
from roambench.contract.errors import FleetError
from roambench.provision.leases.holding import holding

@dataclass
class Bench:
    name: str
    state_dir: Path

folder, name, wait_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
try:
    with holding(Bench("bench36", folder), name, lambda line: print(line, file=sys.stderr), wait_s):
        with (folder / "order.txt").open("a") as order:
            order.write(name + "\\n")
        print("held", flush=True)
        sys.stdin.read()
        with (folder / "order.txt").open("a") as order:
            order.write("end of " + name + "\\n")
except FleetError as error:
    print("refused: " + str(error), flush=True)
"""


@contextmanager
def holder(bench: Bench, name: str, wait_s: float = 0.0) -> Iterator[subprocess.Popen[str]]:
    environment = {key: value for key, value in os.environ.items() if key != LEASE_VARIABLE}
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(bench.state_dir), name, str(wait_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(20)


def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    pytest.fail("did not come true")


def claim(number: int, name: str = "ann@srv", pid: int = 1) -> LeaseRequest:
    return LeaseRequest(number, name, "srv", pid, "run", 0.0, 100.0)


def test_the_oldest_claim_holds_and_the_others_wait_in_their_order() -> None:
    found = standing([claim(7, "cid@srv"), claim(3, "ann@srv"), claim(5, "ben@srv")], 0.0)
    assert found.holder is not None
    assert found.holder.number == 3
    assert [waiting.number for waiting in found.waiting] == [5, 7]
    assert found.allows(3)
    assert not found.allows(5)
    assert [ahead.number for ahead in found.before(7)] == [3, 5]


def test_under_a_reservation_only_its_user_runs_and_one_process_at_a_time() -> None:
    found = standing([claim(1, "ann@srv", pid=0), claim(2, "ben@srv"), claim(3), claim(4)], 0.0)
    assert (found.holder, found.runner) == (claim(1, pid=0), claim(3))
    assert [waiting.number for waiting in found.waiting] == [2, 4]
    assert [found.allows(number) for number in (1, 2, 3, 4)] == [True, False, True, False]


def test_a_second_reservation_waits_and_keeps_nobody_from_running() -> None:
    found = standing([claim(1, pid=0), claim(2, pid=0), claim(3)], 0.0)
    assert (found.holder, found.runner) == (claim(1, pid=0), claim(3))
    assert found.waiting == (claim(2, pid=0),)


def test_a_free_bench_is_nobodys() -> None:
    assert standing([], 0.0).holder is None


def test_the_body_holds_the_bench_and_leaves_it_free(bench: Bench) -> None:
    with holding(bench, "run demo", print) as held:
        now = standing_of(bench).holder
        assert now is not None
        assert (now.user, now.machine, now.pid, now.purpose) == (user(), machine(), os.getpid(), "run demo")
        assert not held.lost
    assert standing_of(bench).holder is None
    assert LEASE_VARIABLE not in os.environ


def test_a_second_process_is_refused_and_told_who_holds_it(bench: Bench) -> None:
    with holder(bench, "run first") as first:
        assert line_of(first) == "held"
        with holder(bench, "run second") as second:
            refused = line_of(second)
        assert f"used by {user()} (pid {first.pid}): run first, asked 0 min ago" in refused
        assert "fleet release --force" in refused
        now = standing_of(bench)
        assert now.holder is not None
        assert (now.holder.pid, now.waiting) == (first.pid, ())  # who was refused does not queue


def test_who_waits_comes_in_the_order_of_asking(bench: Bench) -> None:
    with holder(bench, "one") as one:
        assert line_of(one) == "held"
        with holder(bench, "two", 60) as two:
            until(lambda: len(standing_of(bench).waiting) == 1)
            with holder(bench, "three", 60) as three:
                until(lambda: len(standing_of(bench).waiting) == 2)
                let_go(one)
                assert line_of(two) == "held"
                let_go(two)
                assert line_of(three) == "held"
                let_go(three)
    assert (bench.state_dir / "order.txt").read_text().split("\n")[:-1] == [
        "one", "end of one", "two", "end of two", "three", "end of three",
    ]  # fmt: skip


def test_a_killed_owner_of_this_machine_blocks_nobody(bench: Bench) -> None:
    with holder(bench, "killed") as killed:
        assert line_of(killed) == "held"
        os.kill(killed.pid, signal.SIGKILL)  # not even waited for: a zombie holds nothing either
        until(lambda: standing_of(bench).holder is None)
        with holding(bench, "next", print):
            pass


def test_a_killed_waiter_loses_its_place(bench: Bench) -> None:
    with holding(bench, "run", print), holder(bench, "waiter", 60) as waiter:
        until(lambda: len(standing_of(bench).waiting) == 1)
        os.kill(waiter.pid, signal.SIGKILL)
        until(lambda: standing_of(bench).waiting == ())


def test_a_claim_of_another_machine_runs_out_unless_it_is_renewed(bench: Bench) -> None:
    book = LeaseBook(bench.state_dir)
    number = book.claim("from afar")
    with closing(sqlite3.connect(book.path)) as file, file:
        file.execute("UPDATE claims SET machine = 'elsewhere', pid = 4194305")  # no such process here
    assert book.standing().allows(number)
    with closing(sqlite3.connect(book.path)) as file, file:
        file.execute("UPDATE claims SET expires_s = ?", (time.time() - 1.0,))
    file.close()
    assert book.standing().holder is None
    another = book.claim("from here")
    assert book.renew(number) is None  # too late: it does not come back to life
    assert book.standing().allows(another)


@pytest.mark.parametrize("step_s", [61.0, 3600.0 * 24 * 365, -61.0, -3600.0 * 24 * 365])
def test_a_step_of_the_wall_clock_ends_no_claim_of_this_machine(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    """NTP finds the controller's clock wrong while one process runs on the bench and another one waits."""
    now = time.time
    with holding(bench, "run", print, heartbeat_s=0.2) as held, holder(bench, "waiter", 60) as waiter:
        until(lambda: len(standing_of(bench).waiting) == 1)
        monkeypatch.setattr(time, "time", lambda: now() + step_s)
        found = standing_of(bench)
        assert found.holder is not None
        assert (found.holder.pid, [claim.pid for claim in found.waiting]) == (os.getpid(), [waiter.pid])
        number = found.holder.number
        for _ in range(5):  # heartbeats on the new time
            assert LeaseBook(bench.state_dir).renew(number) is not None
        monkeypatch.setattr(time, "time", now)  # and back
        assert held.still()
        held.ensure()


def run_out(book: LeaseBook) -> None:
    """As if the processes of all claims had stood still for longer than a lease."""
    with closing(sqlite3.connect(book.path)) as file, file:
        file.execute("UPDATE claims SET expires_s = expires_s - 61.0, until_s = until_s - 61.0")
    file.close()


def test_a_process_that_stood_still_has_lost_a_claim_that_another_wanted(bench: Bench) -> None:
    book = LeaseBook(bench.state_dir)
    number = book.claim("run")
    run_out(book)
    another = book.claim("another run")
    assert book.renew(number) is None
    assert book.standing().allows(another)


def test_a_process_that_stood_still_keeps_the_claim_that_others_only_looked_at(bench: Bench) -> None:
    book = LeaseBook(bench.state_dir)
    number = book.claim("run")
    assert book.standing().allows(number)
    for live_on in (lambda: book.renew(number), lambda: book.turn(number, None)):
        run_out(book)
        assert book.standing().holder is None
        found = live_on()
        assert found is not None
        assert found.allows(number)


def test_an_owner_that_was_stopped_holds_its_lease_when_it_goes_on(bench: Bench) -> None:
    with holder(bench, "stopped") as stopped:
        assert line_of(stopped) == "held"
        stopped.send_signal(signal.SIGSTOP)
        run_out(LeaseBook(bench.state_dir))
        assert standing_of(bench).holder is None
        stopped.send_signal(signal.SIGCONT)
        let_go(stopped)
        assert stopped.returncode == 0  # it looked at the end whether the lease was its own all the time


def test_who_was_started_under_a_lease_that_ran_out_unseen_works_on_under_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = LeaseBook(bench.state_dir)
    with holding(bench, "run", print) as held:
        run_out(book)
        with holding(bench, "child", print) as child:
            assert child.still()
            run_out(book)
            assert child.still()
            assert child.turn(None) == ""
        assert held.still()
        assert len(book.standing().everybody) == 1


def test_renewing_moves_the_expiry(bench: Bench) -> None:
    book = LeaseBook(bench.state_dir)
    number = book.claim("run")
    with closing(sqlite3.connect(book.path)) as file, file:
        file.execute("UPDATE claims SET expires_s = expires_s - 50.0, until_s = until_s - 50.0")
    file.close()
    found = book.renew(number)
    assert found is not None
    assert found.holder is not None
    assert found.holder.expires_s - time.time() > lease_module.LEASE_S - 10.0


def test_a_lease_that_was_taken_away_is_told_at_the_end(bench: Bench) -> None:
    context = holding(bench, "run", print, heartbeat_s=0.02)
    held = context.__enter__()
    now = standing_of(bench).holder
    assert now is not None
    assert LeaseBook(bench.state_dir).drop(now.number)
    until(lambda: held.lost)
    with pytest.raises(FleetError, match="bench36: the lease was lost"):
        context.__exit__(None, None, None)


def test_a_heartbeat_keeps_a_short_lease(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    beats = []
    renew = LeaseBook.renew

    def counted(book: LeaseBook, number: int) -> object:
        beats.append(number)
        return renew(book, number)

    monkeypatch.setattr(LeaseBook, "renew", counted)
    with holding(bench, "run", print, heartbeat_s=0.01) as held:
        until(lambda: len(beats) > 5)
        assert not held.lost
    assert len(set(beats)) == 1


def test_a_process_started_under_a_lease_works_under_it(bench: Bench) -> None:
    with holding(bench, "ab", print):
        inherited = os.environ[LEASE_VARIABLE]
        with holding(bench, "run of ab", print) as held:  # no second claim, and it does not end the first
            assert not held.lost
            assert standing_of(bench).waiting == ()
        now = standing_of(bench).holder
        assert now is not None
        assert now.purpose == "ab"
        assert os.environ[LEASE_VARIABLE] == inherited


def test_a_run_under_an_inherited_lease_notices_that_it_was_lost(bench: Bench) -> None:
    outer, inner = holding(bench, "ab", print), holding(bench, "run of ab", print)
    outer.__enter__()
    inner.__enter__()
    now = standing_of(bench).holder
    assert now is not None
    assert LeaseBook(bench.state_dir).drop(now.number)  # fleet release --force
    for context in (inner, outer):
        with pytest.raises(FleetError, match="bench36: the lease was lost"):
            context.__exit__(None, None, None)


def test_a_lease_that_is_over_is_not_inherited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(bench, "ab", print):
        old = os.environ[LEASE_VARIABLE]
    monkeypatch.setenv(LEASE_VARIABLE, old)
    with holding(bench, "run", print):
        now = standing_of(bench).holder
        assert now is not None
        assert now.purpose == "run"


def test_a_reservation_lets_its_user_run(bench: Bench) -> None:
    book = LeaseBook(bench.state_dir)
    reserve(bench, "my afternoon", 3600.0, 0.0, print)
    reserved = book.standing().everybody[0].number
    with holding(bench, "run", print):
        now = book.standing()
        assert now.holder is not None
        assert now.runner is not None
        assert (now.holder.number, now.runner.purpose) == (reserved, "run")
    with closing(sqlite3.connect(book.path)) as file, file:
        file.execute("UPDATE claims SET user = 'ben@elsewhere'")
    file.close()
    with pytest.raises(FleetError, match=r"ben@elsewhere, who reserved it until .*: my afternoon"):
        holding(bench, "run", print).__enter__()


def test_a_run_outlives_its_reservation_although_somebody_has_waited_longer(bench: Bench) -> None:
    book = LeaseBook(bench.state_dir)
    reserve(bench, "my afternoon", 3600.0, 0.0, print)
    reserved = book.standing().everybody[0].number
    ben = book.claim("run of ben")
    with closing(sqlite3.connect(book.path)) as file, file:
        file.execute("UPDATE claims SET user = 'ben@elsewhere' WHERE number = ?", (ben,))
    file.close()
    with holding(bench, "my last run", print):
        runner = book.standing().runner
        assert runner is not None
        assert runner.purpose == "my last run"
        assert book.drop(reserved)  # its hour is over
        assert book.standing().allows(runner.number)
        assert not book.standing().allows(ben)
    assert book.standing().allows(ben)


def test_people_in_one_account_are_told_apart_by_logname(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ben")
    reserve(bench, "my afternoon", 3600.0, 0.0, print)
    monkeypatch.setenv("LOGNAME", "ann")
    with pytest.raises(FleetError, match=r"ben@.*, who reserved it until .*: my afternoon"):
        holding(bench, "run", print).__enter__()
    monkeypatch.setenv("LOGNAME", "ben")
    with holding(bench, "run", print):
        pass


def test_many_processes_at_once_never_hold_it_together(bench: Bench) -> None:
    script = _HOLDER.replace("sys.stdin.read()", "pass")
    environment = {key: value for key, value in os.environ.items() if key != LEASE_VARIABLE}
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(bench.state_dir), str(n), "60"],
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        for n in range(5)
    ]
    for process in crowd:
        with process:
            assert process.wait(60) == 0
    lines = (bench.state_dir / "order.txt").read_text().split("\n")[:-1]
    assert len(lines) == 10
    for first, second in zip(lines[::2], lines[1::2], strict=True):
        assert second == f"end of {first}"


def test_a_lease_that_cannot_be_kept_says_which_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "lease.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(FleetError, match=r"lease\.sqlite: the bench's lease cannot be used"):
        LeaseBook(state).standing()


def test_a_shared_folder_makes_a_shared_lease(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    LeaseBook(tmp_path).standing()
    assert (tmp_path / "lease.sqlite").stat().st_mode & 0o777 == 0o660


def test_a_process_that_was_killed_and_not_yet_waited_for_is_dead() -> None:
    with subprocess.Popen(["sleep", "60"]) as killed:
        killed.kill()
        found = LeaseRequest(1, "a@b", machine(), killed.pid, "", 0.0, 1.0)
        until(lambda: lease_module._has_died(found, machine()))


def test_a_process_that_only_shares_a_number_is_not_taken_for_dead() -> None:
    alive = LeaseRequest(1, "a@b", machine(), os.getpid(), "", 0.0, 1.0)
    assert not lease_module._has_died(alive, machine())
    assert not lease_module._has_died(LeaseRequest(1, "a@b", "elsewhere", 4194305, "", 0.0, 1.0), machine())


def test_a_process_of_an_earlier_boot_of_this_machine_is_dead() -> None:
    """Whatever has its number now. That of another machine, and a person's reservation, run out."""
    host, identity, _, namespace = machine().split()
    for there, died in (
        (f"{host} {identity} another-boot {namespace}", True),
        (f"{host} another-machine another-boot {namespace}", False),
        (f"{host} - another-boot {namespace}", False),
        (f"{host} {identity} - {namespace}", False),
        (f"{host} another-boot {namespace}", False),  # a machine that does not name itself
    ):
        claim = LeaseRequest(1, "a@b", there, os.getpid(), "", 0.0, 1.0)
        assert lease_module._has_died(claim, machine()) == died, there
    reservation = LeaseRequest(
        1, "a@b", f"{host} {identity} another-boot {namespace}", NO_PROCESS, "", 0.0, 1.0
    )
    assert not lease_module._has_died(reservation, machine())
