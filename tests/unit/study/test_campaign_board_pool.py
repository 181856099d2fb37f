"""The boards of a campaign: what is done, in which order, and that it always ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benches import a_host
from roambench.contract.errors import FleetError
from roambench.provision.bench import Host
from roambench.runner.bench_options import BenchOptions
from roambench.study.campaign import board_pool as board_pool_module
from roambench.study.campaign.board_pool import BoardPool
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignLog, read_campaign
from roambench.study.campaign.cooling import Clock
from roambench.study.campaign.maintenance import Maintenance


@dataclass
class FakeHands:
    """A bench of boards that are healthy or `sick` (why). Kinder than a real one: all happens at once, and
    nothing breaks in mid-treatment. `mends`: whether a power cycle heals."""

    boards: list[Host]
    sick: dict[str, str] = field(default_factory=dict)
    mends: bool = True
    refuses: dict[str, str] = field(default_factory=dict)
    treatments: list[str] = field(default_factory=list)

    def hosts(self) -> Sequence[Host]:
        return self.boards

    def trouble(self, boards: Sequence[str]) -> dict[str, str]:
        return {name: why for name, why in self.sick.items() if name in boards}

    def temperatures(self, boards: Sequence[str]) -> Mapping[str, float]:
        return dict.fromkeys(boards, 40.0)

    def power_cycle(self, boards: Sequence[str]) -> dict[str, str]:
        self.treatments.append(f"cycle {' '.join(boards)}")
        if self.mends:
            for name in boards:
                self.sick.pop(name, None)
        return {name: why for name, why in self.refuses.items() if name in boards}

    def replace(self, board: str, spare: str) -> str:
        self.treatments.append(f"{spare} for {board}")
        if spare not in self.refuses:
            self.sick.pop(board, None)
            self.boards = [host for host in self.boards if host.name != spare]
        return self.refuses.get(spare, "")


@dataclass
class Bench:
    board_pool: BoardPool
    actions: FakeHands
    folder: Path
    passed_s: float = 0.0

    def events(self) -> list[tuple[str, str, bool]]:
        return [(row.event.value, row.board, row.done) for row in read_campaign(self.folder)]


def bench(
    folder: Path, *hosts: Host, failures: int = 2, least: int | None = None, **actions: object
) -> Bench:
    made = FakeHands(list(hosts), **actions)  # type: ignore[arg-type]
    log = CampaignLog(folder, lambda row: None)
    found: list[Bench] = []

    def sleep(seconds: float) -> None:
        found[0].passed_s += seconds

    options = BenchOptions(spares_wait=True)
    clock = Clock(lambda: found[0].passed_s, sleep)
    board_pool = BoardPool(made, options, least, log, lambda line: None, Maintenance(failures), clock)
    found.append(Bench(board_pool, made, folder))
    return found[0]


def boards(*numbers: int, wifi_hop: str = "10.0.0.9") -> list[Host]:
    return [a_host(number, wifi_hop=wifi_hop) for number in numbers]


def spare(number: int) -> Host:
    return a_host(number, tags=("spare",))


def test_spares_take_no_part_until_they_are_needed(tmp_path: Path) -> None:
    made = bench(tmp_path, *boards(1, 2), spare(3))
    assert made.board_pool.boards() == ["pi-01", "pi-02"]
    assert made.board_pool.spares() == ["pi-03"]
    assert set(made.board_pool.temperatures()) == {"pi-01", "pi-02"}


def test_a_board_that_fails_twice_is_power_cycled_and_the_point_is_worth_another_start(
    tmp_path: Path,
) -> None:
    made = bench(tmp_path, *boards(1, 2, 3))
    assert not made.board_pool.after(["pi-02"], "coverage", ())
    assert made.actions.treatments == []
    assert made.board_pool.after(["pi-02"], "no power", ())
    assert made.actions.treatments == ["cycle pi-02"]
    assert made.events() == [
        ("board_failed", "pi-02", True), ("board_failed", "pi-02", True), ("power_cycled", "pi-02", True)
    ]  # fmt: skip
    assert made.board_pool.at_start() == ()


def test_a_board_that_stays_dead_is_replaced_and_without_a_spare_left_out(tmp_path: Path) -> None:
    made = bench(
        tmp_path,
        *boards(1, 2, 3, 4),
        spare(9),
        mends=False,
        sick={"pi-02": "SSH: no answer", "pi-03": "dead"},
    )
    for name in ("pi-02", "pi-03"):
        for _ in range(2):
            acted = made.board_pool.after([name], "no answer", ())
        assert acted
    assert made.actions.treatments == ["cycle pi-02", "pi-09 for pi-02", "cycle pi-03"]
    assert made.events()[-2:] == [("power_cycled", "pi-03", False), ("left_out", "pi-03", True)]
    assert made.passed_s < 3 * board_pool_module.BACK_S
    assert made.board_pool.at_start() == ("pi-03",)
    del made.actions.sick["pi-03"]
    assert made.board_pool.at_start() == ()
    assert made.events()[-1] == ("came_back", "pi-03", True)


def test_a_spare_that_refuses_is_followed_by_the_next(tmp_path: Path) -> None:
    made = bench(
        tmp_path, *boards(1, 2, 3, wifi_hop=""), spare(8), spare(9), failures=1, refuses={"pi-08": "no disk"}
    )
    assert made.board_pool.after(["pi-01"], "silent", ())
    assert made.actions.treatments == ["pi-08 for pi-01", "pi-09 for pi-01"]
    assert [row.reason for row in read_campaign(tmp_path)][1:] == ["no disk", "silent"]


def test_too_few_boards_end_the_campaign_with_its_reason(tmp_path: Path) -> None:
    made = bench(tmp_path, *boards(1, 2, 3, wifi_hop=""), failures=1)
    assert made.board_pool.after(["pi-01"], "silent", ())
    made.actions.sick = {"pi-01": "silent"}
    with pytest.raises(FleetError, match="1 board left, at least 2 are to take part"):
        made.board_pool.after(["pi-02"], "no answer", ("pi-01",))


def test_most_boards_at_once_are_waited_for_and_none_is_touched(tmp_path: Path) -> None:
    made = bench(tmp_path, *boards(1, 2, 3), failures=1, sick={"pi-01": "x", "pi-02": "x"})
    with pytest.raises(FleetError, match="2 of 3 boards fail at once"):
        made.board_pool.after(["pi-01", "pi-02"], "no answer", ())
    assert made.actions.treatments == []
    assert made.passed_s >= board_pool_module.COMMON_S
    made.actions.sick = {}
    assert not made.board_pool.after(["pi-01", "pi-02"], "no answer", ())
    assert [row.event for row in read_campaign(tmp_path)] == [CampaignEvent.WAITED] * 3


def test_a_start_that_failed_by_a_common_cause_that_is_over_is_worth_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(tmp_path, *boards(1, 2, 3), failures=1)
    looks = iter([{"pi-01": "no route", "pi-02": "no route"}, {"pi-02": "no route"}])
    monkeypatch.setattr(made.actions, "trouble", lambda boards: next(looks))
    assert made.board_pool.after(["pi-01", "pi-02"], "no answer", (), failed=True)
    assert made.actions.treatments == []


def test_a_board_known_to_be_ill_and_the_bad_minute_of_another_are_no_common_cause(tmp_path: Path) -> None:
    """Of three boards these are most."""
    made = bench(tmp_path, *boards(1, 2, 3), spare(9))
    for _ in range(2):
        made.board_pool.after(["pi-01"], "its agent was away", ())
    made.actions.sick = {"pi-01": "no answer", "pi-03": "its disk is full"}
    assert made.board_pool.after(["pi-01", "pi-03"], "no answer", ())
    assert made.actions.treatments == ["cycle pi-01", "pi-09 for pi-01"]
    assert made.events()[-1] == ("replaced", "pi-01", True)


def test_a_start_that_failed_by_what_is_over_within_a_minute_is_forgiven_once(tmp_path: Path) -> None:
    made = bench(tmp_path, *boards(1, 2, 3), failures=1)
    assert made.board_pool.after(["pi-02"], "its agent is away", (), failed=True)  # worth another start
    assert made.actions.treatments == []
    assert made.board_pool.after(["pi-02"], "its agent is away again", (), failed=True)
    assert made.actions.treatments == ["cycle pi-02"]
    made = bench(tmp_path / "sick", *boards(1, 2, 3), failures=1, sick={"pi-02": "no answer"})
    assert made.board_pool.after(["pi-02"], "no answer", (), failed=True)
    assert made.actions.treatments == ["cycle pi-02"]
    rows = read_campaign(tmp_path)
    assert [row.failures for row in rows if row.event is CampaignEvent.BOARD_FAILED] == [0, 1]
    assert Maintenance(1, rows[:1]).of("pi-02").forgiven  # also of the campaign that goes on


def test_a_board_that_is_no_part_of_the_campaign_is_nobodys_care(tmp_path: Path) -> None:
    made = bench(tmp_path, *boards(1, 2), failures=1)
    assert not made.board_pool.after(["pi-77"], "?", ())
    assert made.actions.treatments == []
