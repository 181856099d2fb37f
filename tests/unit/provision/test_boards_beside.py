"""A command that keeps some boards: who needs none of them has the bench meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benches import bench_of
from roambench.cli.fleet.bench_in_hand import in_hand
from roambench.cli.main import app
from roambench.contract.errors import FleetError
from roambench.provision.bench import Bench
from roambench.provision.leases.holding import LEASE_VARIABLE, holding, standing_of
from roambench.provision.leases.lease import LeaseBook
from roambench.provision.leases.queue import LeaseRequest, standing
from roambench.provision.leases.reserving import give_back, reserve

_HOSTS = "".join(
    f'[[hosts]]\nname = "pi-{number}"\naddress = "10.36.0.{number}"\nmeter.driver = "none"\n'
    for number in (1, 2, 3)
)


def claim(number: int, *boards: str, aside: bool = False, begun: bool = False, pid: int = 1) -> LeaseRequest:
    return LeaseRequest(
        number, f"user{number}@srv", "srv", pid, "work", 0.0, 100.0, begun=begun, boards=boards, aside=aside
    )


def test_who_needs_none_of_the_kept_boards_has_the_bench() -> None:
    kept = claim(1, "pi-3", aside=True, begun=True)
    others, all_boards, that_one = claim(4, "pi-1", "pi-2"), claim(2), claim(3, "pi-3", "pi-1")
    found = standing([kept, all_boards, that_one, others], 0.0)
    assert (found.holder, found.beside) == (others, (kept,))
    assert found.waiting == (all_boards, that_one)
    assert [found.allows(number) for number in (1, 2, 3, 4)] == [True, False, False, True]
    assert [ahead.number for ahead in found.before(2)] == [4, 1]
    assert found.everybody == (others, kept, all_boards, that_one)


def test_who_has_begun_goes_on_and_keeps_everybody_waiting() -> None:
    running = claim(1, "pi-1", begun=True)
    found = standing([running, claim(2, "pi-2")], 0.0)
    assert (found.holder, found.beside) == (running, ())
    assert [ahead.number for ahead in found.before(2)] == [1]


def test_several_keep_boards_side_by_side_and_the_first_who_waited_comes_first() -> None:
    one, two = claim(1, "pi-1", aside=True), claim(2, "pi-2", aside=True)
    first, second = claim(3), claim(4, "pi-2")
    found = standing([one, two, first, second], 0.0)
    assert found.holder is None
    assert [ahead.number for ahead in found.before(4)] == [2]
    assert [ahead.number for ahead in found.before(3)] == [1, 2]
    assert standing([first, second], 0.0).holder == first


def test_a_reservation_waits_for_no_board_and_runs_under_it_do() -> None:
    kept, reservation = claim(1, "pi-3", aside=True), claim(2, pid=0)
    own = LeaseRequest(3, "user2@srv", "srv", 5, "run", 0.0, 100.0)
    found = standing([kept, reservation, own], 0.0)
    assert (found.holder, found.runner, found.waiting) == (reservation, None, (own,))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.delenv(LEASE_VARIABLE, raising=False)
    return bench_of(tmp_path, _HOSTS)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is started here inherits nothing, as in another shell."""
    monkeypatch.setattr("roambench.provision.leases.holding._inherited", lambda book: None)
    return


@pytest.mark.usefixtures("elsewhere")
def test_boards_that_are_done_are_given_back_one_by_one(bench: Bench) -> None:
    one, two, three = bench.hosts
    with in_hand(bench, "provision", 0.0, hosts=bench.hosts, during_run=False) as kept:
        holder = standing_of(bench).holder
        assert holder is not None
        assert holder.purpose == "fleet provision"
        with pytest.raises(FleetError, match="used by"), holding(bench, "run", print, boards=["pi-1"]):
            pass
        kept.done(two)
        kept.done(one)
        kept.done(one)
        with holding(bench, "run", print, boards=["pi-1", "pi-2"]) as held:
            assert "fleet provision" in held.beside[0]
            assert held.beside[0].endswith(", keeps pi-3")
            held.ensure()
        refused = pytest.raises(FleetError, match=r"keeps pi-3; wait .* do without those boards \(--only\)")
        with refused, holding(bench, "run", print, boards=["pi-3"]):
            pass
        with pytest.raises(FleetError, match=r"keeps pi-3; wait for it \(--wait SECONDS\), or ask its owner"):
            reserve(bench, "an afternoon", 60.0, 0.0, print)
        kept.done(three)  # in a moment it is over: until then they are its
        assert [claim.boards for claim in standing_of(bench).beside] == [("pi-3",)]
    assert standing_of(bench).everybody == ()


@pytest.mark.usefixtures("elsewhere")
def test_a_command_for_some_boards_leaves_the_others_from_its_beginning(bench: Bench) -> None:
    with (
        in_hand(bench, "reboot", 0.0, hosts=bench.hosts[:1], during_run=False),
        in_hand(bench, "reboot", 0.0, hosts=bench.hosts[1:], during_run=False),
    ):
        assert [claim.boards for claim in standing_of(bench).beside] == [("pi-1",), ("pi-2", "pi-3")]
        with pytest.raises(FleetError, match="keeps pi-1"), holding(bench, "run", print):
            pass


@pytest.mark.usefixtures("elsewhere")
def test_everything_that_shows_holders_tells_of_kept_boards(bench: Bench) -> None:
    with in_hand(bench, "provision", 0.0, hosts=bench.hosts[2:], during_run=False):
        told = CliRunner().invoke(app, ["fleet", "who", str(bench.file)])
        assert "is free but for the boards that are kept" in told.output
        assert "keeps pi-3" in told.output
        document = json.loads(CliRunner().invoke(app, ["fleet", "who", str(bench.file), "--json"]).output)
        assert document["holder"] is None
        assert document["beside"][0]["boards"] == ["pi-3"]


def test_force_ends_who_keeps_boards(bench: Bench) -> None:
    book = LeaseBook(bench.state_dir)
    book.step_aside(book.claim("fleet provision"), ["pi-3"])
    assert "keeps pi-3" in give_back(bench, force=True)[0]
    assert standing_of(bench).everybody == ()
