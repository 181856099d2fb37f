"""The calendar of a bench: whose it is when, whatever begins, ends, dies and is booked meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benches import bench_of
from roambench.cli.main import main
from roambench.contract.errors import ConfigError, FleetError
from roambench.provision.bench import Bench
from roambench.provision.leases import lease as lease_module
from roambench.provision.leases.holding import LEASE_VARIABLE, holding, standing_of
from roambench.provision.leases.lease import MOST_BOOKINGS, BookedError, LeaseBook
from roambench.provision.leases.local_time import moment_s, shown
from roambench.provision.leases.queue import LeaseRequest, LeaseStanding
from roambench.provision.leases.reserving import book_ahead, give_back, reserve

HOUR_S = 3600.0


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_of(
        tmp_path,
        '[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nssh_user = "root"\nmeter.driver = "none"\n',
    )


@pytest.fixture
def ben(bench: Bench) -> LeaseRequest:
    """Somebody else's booking in an hour, for two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", "ben")
        return book_ahead(bench, "night", time.time() + HOUR_S, 2 * HOUR_S)


@pytest.fixture(autouse=True)
def ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")


class Wall:
    """The wall clock, which a test sets; processes that it starts have the real one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ahead_s, real = 0.0, time.time
        patch.setattr(time, "time", lambda: real() + self.ahead_s)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return Wall(monkeypatch)


def test_two_bookings_never_overlap_and_the_error_says_whose_and_when(
    bench: Bench, ben: LeaseRequest
) -> None:
    assert ben.from_s is not None
    with pytest.raises(FleetError) as error:
        book_ahead(bench, "mine", ben.from_s + HOUR_S, HOUR_S)
    expected = f"not free at that time: {ben.user}, who booked it from {shown(ben.from_s)} to "
    assert expected + f"{shown(ben.expires_s)}: night (booking {ben.number})" in str(error.value)
    book_ahead(bench, "after", ben.expires_s, HOUR_S)
    assert [claim.purpose for claim in standing_of(bench).bookings] == ["night", "after"]


def test_a_run_that_would_not_end_before_it_is_refused_and_told_until_when(
    bench: Bench, ben: LeaseRequest
) -> None:
    with pytest.raises(FleetError) as error:
        holding(bench, "run", print, expects=lambda: 2 * HOUR_S).__enter__()
    assert "expected to take 2.0 h, and it is booked: ben@" in str(error.value)
    assert f"until {shown(ben.expires_s)}" in str(error.value)
    assert standing_of(bench).everybody == (ben,)  # who was refused does not queue
    with holding(bench, "run", print, expects=lambda: 0.5 * HOUR_S):
        pass
    with holding(bench, "of a length that nobody knows", print):
        pass


def test_how_long_it_takes_is_asked_only_where_somebody_else_booked(bench: Bench) -> None:
    def asked() -> float:
        pytest.fail("a plan takes minutes")

    book_ahead(bench, "mine", time.time() + HOUR_S, HOUR_S)
    with holding(bench, "run", print, expects=asked):
        pass


def test_a_reservation_of_now_ends_before_a_booking_or_is_none(bench: Bench, ben: LeaseRequest) -> None:
    with pytest.raises(FleetError, match=r"expected to take 3\.0 h, and it is booked: ben@"):
        reserve(bench, "afternoon", 3 * HOUR_S, 0.0, print)
    reserve(bench, "a moment", 0.9 * HOUR_S, 0.0, print)
    assert [claim.purpose for claim in standing_of(bench).everybody] == ["a moment", "night"]


def test_what_was_booked_while_a_reservation_waited_its_turn_is_not_taken_away(
    bench: Bench, ben: LeaseRequest
) -> None:
    book = LeaseBook(bench.state_dir)
    number = book.claim("afternoon")
    with pytest.raises(BookedError):
        book.reserve(number, lasts_s=3 * HOUR_S)
    assert book.reserve(number, lasts_s=0.5 * HOUR_S)


def test_a_booking_that_has_come_keeps_others_out_until_it_is_over(
    bench: Bench, ben: LeaseRequest, wall: Wall
) -> None:
    wall.ahead_s = 1.5 * HOUR_S
    with pytest.raises(FleetError, match=r"used by ben@.*, who booked it from .*: night"):
        holding(bench, "run", print).__enter__()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", "ben")
        with holding(bench, "of ben", print):
            now = standing_of(bench)
            assert (now.holder and now.holder.number, now.runner and now.runner.purpose) == (
                ben.number,
                "of ben",
            )
    wall.ahead_s = 3.5 * HOUR_S
    with holding(bench, "run", print):
        assert standing_of(bench).bookings == ()


def test_a_campaign_makes_way_between_its_points_and_goes_on_after(
    bench: Bench, ben: LeaseRequest, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = []
    monkeypatch.setattr(LeaseBook, "renew", renewing(lambda: beats.append(1)))
    with holding(bench, "campaign", print, heartbeat_s=0.2) as lease:
        assert lease.turn(0.5 * HOUR_S) == ""
        late = lease.turn(1.5 * HOUR_S)  # not before ben, in his time neither
        assert re.search(
            r"waiting for ben@.*, who booked it .*expected to take 1\.5 h\); goes on .* at the earliest", late
        )
        assert lease.gave_way
        assert standing_of(bench).holder is None
        assert lease.turn(0.5 * HOUR_S) == ""  # a shorter one still fits
        wall.ahead_s = 1.5 * HOUR_S
        assert "waiting for ben@" in lease.turn(None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOGNAME", "ben")
            patch.delenv(LEASE_VARIABLE)
            with holding(bench, "of ben", print):
                before = len(beats)
                until(lambda: lease.lost or len(beats) > before + 1)  # heartbeats of the campaign
                assert lease.still()
        wall.ahead_s = 3.5 * HOUR_S
        told: list[str] = []
        lease.make_way(100 * HOUR_S, told.append)
        assert (told, lease.gave_way) == ([], False)
        now = standing_of(bench).holder
        assert now is not None
        assert now.purpose == "campaign"


def test_a_campaign_that_goes_on_while_a_heartbeat_is_under_way_keeps_its_lease(
    bench: Bench, ben: LeaseRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat finds the bench another's, and comes to judge that when it is the campaign's again."""
    found, judges, beats = threading.Event(), threading.Event(), []

    def held_up() -> None:
        beats.append(1)
        if not found.is_set() and lease.gave_way:
            found.set()
            assert judges.wait(60.0)

    monkeypatch.setattr(LeaseBook, "renew", renewing(held_up))
    with holding(bench, "campaign", print, heartbeat_s=0.2) as lease:
        until(lambda: bool(beats))
        assert lease.turn(1.5 * HOUR_S)
        assert found.wait(60.0)
        assert lease.turn(0.5 * HOUR_S) == ""
        before = len(beats)
        judges.set()
        until(lambda: lease.lost or len(beats) > before)
        assert not lease.lost


def renewing(then: Callable[[], None]) -> Callable[[LeaseBook, int], LeaseStanding | None]:
    """`LeaseBook.renew`; after it, a heartbeat does something else, too."""
    renew, main_thread = LeaseBook.renew, threading.current_thread()

    def renewed(book: LeaseBook, number: int) -> LeaseStanding | None:
        standing = renew(book, number)
        if threading.current_thread() is not main_thread:
            then()
        return standing

    return renewed


def until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60.0
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_campaign_whose_lease_was_released_by_force_hears_of_it(bench: Bench, ben: LeaseRequest) -> None:
    context = holding(bench, "campaign", print)
    lease = context.__enter__()
    assert lease.turn(2 * HOUR_S)
    now = standing_of(bench)
    assert LeaseBook(bench.state_dir).drop(now.waiting[0].number)
    with pytest.raises(FleetError, match="the lease was lost"):
        lease.turn(2 * HOUR_S)
    with pytest.raises(FleetError, match="the lease was lost"):
        context.__exit__(None, None, None)


_RUNS = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from roambench.provision.leases.holding import holding

@dataclass
class Bench:
    name: str
    state_dir: Path

state, name, expects_s, takes_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
say = lambda line: print(line, flush=True)
with holding(Bench("bench", state), name, say, 60.0, expects=lambda: expects_s):
    with (state / "order.txt").open("a") as order:
        order.write(name + "\\n")
    time.sleep(takes_s)
"""


def started(bench: Bench, user: str, name: str, expects_s: float, takes_s: float) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if key != LEASE_VARIABLE}
    words = [sys.executable, "-c", _RUNS, str(bench.state_dir), name, str(expects_s), str(takes_s)]
    return subprocess.Popen(
        words, env={**environment, "LOGNAME": user}, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.lengthy
def test_processes_of_three_people_keep_to_a_booking_also_after_a_kill(bench: Bench) -> None:
    """Real processes, one file. Its hours are moved in the file, so that nobody has to be quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", "ben")
        booked = book_ahead(bench, "night", time.time() + HOUR_S, HOUR_S)

    def move(from_s: float, until_s: float) -> None:
        with closing(sqlite3.connect(bench.state_dir / "lease.sqlite", timeout=10)) as file:
            change = "UPDATE claims SET from_s = ?, expires_s = ? WHERE number = ?"
            file.execute(change, (from_s, until_s, booked.number))
            file.commit()

    def order() -> list[str]:
        path = bench.state_dir / "order.txt"
        return path.read_text().splitlines() if path.exists() else []

    def until(true: Callable[[], bool]) -> None:
        while not true():
            time.sleep(0.05)

    def in_queue(purpose: str) -> Callable[[], bool]:
        return lambda: purpose in [claim.purpose for claim in standing_of(bench).waiting]

    crowd = {"long": started(bench, "ann", "long", 2 * HOUR_S, 0.2)}
    until(in_queue("long"))
    crowd["later"] = started(bench, "ann", "later", 2 * HOUR_S, 0.2)
    until(in_queue("later"))
    crowd["short"] = started(bench, "cid", "short", 60.0, 0.2)
    until(lambda: order() == ["short"])
    move(time.time(), time.time() + HOUR_S)
    killed = started(bench, "ben", "killed", 0.0, 600.0)
    until(lambda: order() == ["short", "killed"])
    os.kill(killed.pid, signal.SIGKILL)
    crowd["in the night"] = started(bench, "cid", "in the night", 0.0, 0.2)
    until(in_queue("in the night"))
    crowd["bens"] = started(bench, "ben", "bens", 0.0, 0.2)
    until(lambda: order() == ["short", "killed", "bens"])
    move(time.time() - HOUR_S, time.time())
    said = {}
    for name, member in [*crowd.items(), ("killed", killed)]:
        with member:
            said[name], _ = member.communicate(timeout=300)
    assert order() == ["short", "killed", "bens", "long", "later", "in the night"]
    assert [member.returncode for member in crowd.values()] == [0] * 5
    assert "waiting for ben@" in said["long"]
    assert "(what is to begin here is expected to take 2.0 h); goes on " in said["long"]
    assert said["short"] == ""


def test_bookings_live_on_over_a_boot_and_a_wrong_clock_that_is_set_right(
    bench: Bench, ben: LeaseRequest, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another boot id, an uptime that begins anew, and a clock that stood a day back."""
    host, identity, _, namespace = lease_module.machine().split()
    monkeypatch.setattr(lease_module, "machine", lambda: f"{host} {identity} another-boot {namespace}")
    monkeypatch.setattr(lease_module, "_uptime_s", lambda: 3.0)
    wall.ahead_s = -24 * HOUR_S
    assert standing_of(bench).bookings == (ben,)
    wall.ahead_s = 1.5 * HOUR_S
    assert standing_of(bench).holder == ben
    wall.ahead_s = 0.0
    assert standing_of(bench).bookings == (ben,)


def test_a_calendar_is_bounded(bench: Bench) -> None:
    now_s = time.time()
    book = LeaseBook(bench.state_dir)
    for number in range(1, MOST_BOOKINGS + 1):
        book.book("one of many", now_s + number * 100.0, now_s + number * 100.0 + 100.0)
    with pytest.raises(FleetError, match=f"has {MOST_BOOKINGS} bookings, and takes no more"):
        book.book("one too many", now_s + 1e6, now_s + 1e6 + 1.0)
    for from_s in (now_s - 1.0, now_s + 400 * 24 * HOUR_S):
        with pytest.raises(ConfigError, match="expected a time from now on, within 366 days"):
            book_ahead(bench, "never", from_s, HOUR_S)
    with pytest.raises(ConfigError, match="--purpose: 201 letters: expected at most 200"):
        book_ahead(bench, "x" * 201, now_s + HOUR_S, HOUR_S)


def test_only_ones_own_booking_is_taken_back(bench: Bench, ben: LeaseRequest) -> None:
    with pytest.raises(FleetError, match=rf"booking {ben.number} is not yours: ben@"):
        give_back(bench, booking=ben.number)
    with pytest.raises(FleetError, match=rf"there is no booking 99: its bookings are {ben.number} "):
        give_back(bench, booking=99)
    mine = book_ahead(bench, "mine", ben.expires_s, HOUR_S)
    with pytest.raises(FleetError, match=rf"you hold nothing now; .* --booking {mine.number}"):
        give_back(bench)
    (line,) = give_back(bench, booking=mine.number)
    assert line.startswith("ended: ann@")
    give_back(bench, booking=ben.number, force=True)
    assert standing_of(bench).everybody == ()


# Times as people write them


@pytest.fixture
def berlin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def test_a_time_is_local_and_named_with_its_zone(berlin: None) -> None:
    moment = moment_s("2026-12-01 20:00", "--from")
    assert moment == 1796151600.0
    assert shown(moment) == "Tue 2026-12-01 20:00 CET"
    assert shown(moment_s("2026-07-01T20:00", "--from")) == "Wed 2026-07-01 20:00 CEST"
    assert moment_s("2026-12-01T19:00+00:00", "--from") == moment


def test_a_time_that_does_not_exist_or_comes_twice_is_refused(berlin: None) -> None:
    with pytest.raises(ConfigError, match="clocks are set forward then, there is no such time"):
        moment_s("2027-03-28 02:30", "--from")
    with pytest.raises(
        ConfigError, match=r"it comes twice: write 2026-10-25T02:30\+02:00 or 2026-10-25T02:30\+01:00"
    ):
        moment_s("2026-10-25 02:30", "--from")
    assert moment_s("2026-10-25T02:30+01:00", "--from") - moment_s("2026-10-25T02:30+02:00", "--from") == 3600


def test_a_night_over_the_end_of_summer_time_lasts_as_long_as_it_was_booked_for(
    berlin: None, bench: Bench, wall: Wall
) -> None:
    begins_s = moment_s("2026-10-24 20:00", "--from")
    wall.ahead_s = begins_s - time.time() - HOUR_S
    booked = book_ahead(bench, "night", begins_s, 10 * HOUR_S)
    assert (shown(begins_s), shown(booked.expires_s)) == (
        "Sat 2026-10-24 20:00 CEST",
        "Sun 2026-10-25 05:00 CET",
    )


@pytest.mark.parametrize(
    "text", ["", "tonight", "20:00", "2026-12-01", "2026-13-01 20:00", "99999-01-01 20:00"]
)
def test_what_is_no_time_is_told_with_what_was_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=r'--from: .*: expected "YYYY-MM-DD HH:MM" in local time'):
        moment_s(text, "--from")


# As a user calls it


def call(*words: object) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def test_the_commands_book_show_and_take_back(
    bench: Bench, ben: LeaseRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    from_text = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + 12 * HOUR_S))
    assert call("fleet", "lease", bench.file, "--from", from_text, "--hours", 10, "--purpose", "week 3") == 0
    said = capsys.readouterr().out
    number = re.search(r"--booking (\d+) takes it back", said)
    assert number is not None
    assert call("fleet", "lease", bench.file, "--from", from_text, "--hours", 1) == 1
    assert "not free at that time: ann@" in capsys.readouterr().err
    assert call("fleet", "who", bench.file) == 0
    first, *later = capsys.readouterr().out.splitlines()
    assert first == "bench is free"
    assert [line.split("@")[0] for line in later] == ["  later: ben", "  later: ann"]
    assert later[1].endswith(f": week 3 (booking {number[1]})")
    assert call("fleet", "who", bench.file, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    bookings = document["bookings"]
    assert [entry["purpose"] for entry in bookings] == ["night", "week 3"]
    assert bookings[1]["from"].startswith(from_text.replace(" ", "T"))
    assert call("fleet", "lease", bench.file, "--from", "soon") == 2
    assert call("fleet", "lease", bench.file, "--from", from_text, "--wait", 5) == 2
    assert call("fleet", "release", bench.file, "--booking", number[1]) == 0
    assert capsys.readouterr().out.startswith("ended: ann@")
