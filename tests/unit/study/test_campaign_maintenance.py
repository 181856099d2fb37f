"""What is done about a board that fails: decided from the campaign's log alone, whoever reads it again."""

from __future__ import annotations

import pytest

from roambench.study.campaign.campaign_log import CampaignEvent, CampaignRow, End
from roambench.study.campaign.maintenance import Maintenance, Treatment, TreatmentKind, common_cause

POWER_CYCLE, REPLACE, LEAVE_OUT = TreatmentKind.POWER_CYCLE, TreatmentKind.REPLACE, TreatmentKind.LEAVE_OUT


def failed(board: str, failures: int) -> CampaignRow:
    return CampaignRow(CampaignEvent.BOARD_FAILED, "silent", board=board, failures=failures)


def cycled(board: str, *, done: bool = True) -> CampaignRow:
    return CampaignRow(CampaignEvent.POWER_CYCLED, board=board, done=done)


def ended(end: End, *without: str) -> CampaignRow:
    return CampaignRow(CampaignEvent.POINT_ENDED, end=end, without=without)


def left_out(board: str) -> CampaignRow:
    return CampaignRow(CampaignEvent.LEFT_OUT, board=board)


CAME_BACK = CampaignRow(CampaignEvent.CAME_BACK, board="pi1")


@pytest.mark.parametrize(
    ("rows", "switched", "spares", "treatment"),
    [
        ([failed("pi1", 1)], {"pi1"}, ["s1"], None),
        ([failed("pi1", 2)], {"pi1"}, ["s1"], (POWER_CYCLE, "")),
        ([failed("pi1", 2)], set(), ["s1"], (REPLACE, "s1")),
        ([failed("pi1", 2)], set(), [], (LEAVE_OUT, "")),
        ([failed("pi1", 2), cycled("pi1")], {"pi1"}, ["s1"], None),
        ([failed("pi1", 2), cycled("pi1"), failed("pi1", 1)], {"pi1"}, ["s1"], (REPLACE, "s1")),
        ([failed("pi1", 2), cycled("pi1"), ended(End.FINISHED)], {"pi1"}, ["s1"], None),
        ([failed("pi1", 2), cycled("pi1", done=False)], {"pi1"}, ["s1"], (REPLACE, "s1")),
        ([failed("pi1", 2), cycled("pi1", done=False)], {"pi1"}, [], (LEAVE_OUT, "")),
        ([failed("pi1", 1), ended(End.FINISHED), failed("pi1", 1)], {"pi1"}, [], None),
        ([failed("pi1", 2), ended(End.UNFIT)], {"pi1"}, [], (POWER_CYCLE, "")),
        ([failed("pi1", 2), left_out("pi1")], {"pi1"}, ["s1"], None),
        # Back from being left out, it has no second chance until a point finished with it.
        ([failed("pi1", 2), left_out("pi1"), CAME_BACK, failed("pi1", 1)], {"pi1"}, [], (LEAVE_OUT, "")),
        (
            [failed("pi1", 2), left_out("pi1"), CAME_BACK, ended(End.FINISHED), failed("pi1", 1)],
            {"pi1"},
            [],
            None,
        ),
    ],
)
def test_the_next_treatment_of_one_board(
    rows: list[CampaignRow],
    switched: set[str],
    spares: list[str],
    treatment: tuple[TreatmentKind, str] | None,
) -> None:
    found = [(one.kind, one.spare) for one in Maintenance(2, rows).treatments(switched, spares)]
    assert found == ([treatment] if treatment else [])


def test_cycled_and_healthy_a_board_is_left_alone_until_it_fails_once_more() -> None:
    maintenance = Maintenance(2, [failed("pi1", 2), cycled("pi1"), ended(End.FINISHED, "pi1")])
    maintenance.hear(failed("pi1", 1))
    assert [treatment.kind for treatment in maintenance.treatments({"pi1"}, [])] == [LEAVE_OUT]


def test_two_boards_get_two_spares_and_a_spare_is_tried_once() -> None:
    maintenance = Maintenance(1, [failed("pi1", 1), failed("pi2", 1)])
    assert [(treatment.board, treatment.spare) for treatment in maintenance.treatments((), ["s1", "s2"])] == [
        ("pi1", "s1"),
        ("pi2", "s2"),
    ]
    maintenance.hear(CampaignRow(CampaignEvent.REPLACED, board="pi1", spare="s1", done=False))
    maintenance.hear(CampaignRow(CampaignEvent.REPLACED, board="pi2", spare="s2"))
    assert maintenance.treatments((), ["s1", "s2"]) == [Treatment(LEAVE_OUT, "pi1", "silent")]


def test_a_board_that_fails_as_soon_as_it_is_back_is_looked_at_ever_more_seldom() -> None:
    maintenance = Maintenance(2, [failed("pi1", 2), left_out("pi1")])
    waited = []
    for _ in range(3):
        points = 0
        while not maintenance.of("pi1").is_looked_at:
            maintenance.hear(ended(End.FINISHED, "pi1"))
            points += 1
        waited.append(points)
        for row in (CAME_BACK, failed("pi1", 1), left_out("pi1")):
            maintenance.hear(row)
    assert waited == [0, 1, 3]


def test_a_session_that_goes_on_decides_as_the_one_that_was_killed() -> None:
    rows = [failed("pi1", 1), ended(End.UNFIT), failed("pi1", 2), cycled("pi1", done=False), left_out("pi3")]
    live = Maintenance(2)
    for row in rows:
        live.hear(row)
    resumed = Maintenance(2, rows)
    assert live.treatments({"pi1"}, ["s1"]) == resumed.treatments({"pi1"}, ["s1"])
    assert live.left_out == resumed.left_out == ("pi3",)


@pytest.mark.parametrize(
    ("failing", "of", "common"),
    [(1, 1, False), (1, 2, False), (2, 2, True), (2, 3, True), (2, 4, False), (3, 4, True)],
)
def test_most_boards_at_once_are_not_their_own_fault(failing: int, of: int, common: bool) -> None:
    assert common_cause([f"pi{n}" for n in range(failing)], of) is common
