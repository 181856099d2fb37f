from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from roambench.contract.draws import generator
from roambench.contract.errors import TraceError
from roambench.mobility.slots import Stay, most_played, on_boards


@pytest.fixture
def draw(make_trace):
    """A trace from rows of text, one per device: "x" where it is present."""

    def drawn(*rows):
        fixes = [
            (step, device, float(step), float(device))
            for step in range(len(rows[0]))
            for device, row in enumerate(rows)
            if row[step] == "x"
        ]
        return make_trace(fixes, [(0.0, 0.0)], devices=len(rows), steps=len(rows[0]))

    return drawn


def picture(trace):
    """Per board which device it plays at every step."""
    return [
        "".join(
            str(int(trace.y_m[rows][trace.device[rows] == board][0])) if board in trace.device[rows] else "-"
            for rows in map(trace.rows, range(trace.steps))
        )
        for board in range(len(trace.device_names))
    ]


def test_top_plays_the_busiest_each_on_its_own_board(draw):
    trace = draw("x-----", "xxx---", "---x-x", "x----x")
    assert picture(on_boards(trace, 2, "top", 0)) == ["111---", "3----3"]  # 2 has as many, but came later


def test_waves_let_a_board_play_one_device_after_the_other(draw):
    trace = draw("x----x", "xxx---", "---x-x", "----x-")
    assert picture(on_boards(trace, 1, "waves", 0)) == ["1112-2"]
    two = on_boards(trace, 2, "waves", 0)
    assert picture(two) == ["0----0", "1112-2"]
    assert two.device_names == ("dev-0", "dev-1+1")
    assert two.provenance["derived"] == [
        {"on_boards": {"mapping": "waves", "played": [["dev-0"], ["dev-1", "dev-2"]]}}
    ]
    assert len(two.step) == 7
    assert len(on_boards(trace, 2, "top", 0).step) == 5


def test_waves_play_two_short_stays_rather_than_the_longest_between_them(draw):
    trace = draw("xx-----", "-xxx---", "---xx--")
    assert picture(on_boards(trace, 1, "waves", 0)) == ["00-22--"]


def test_a_stay_lasts_while_its_device_is_away_for_a_moment(draw):
    assert picture(on_boards(draw("x--x", "-xx-"), 1, "waves", 0)) in (["0--0"], ["-11-"])


def test_no_board_is_left_without_a_device(draw):
    trace = draw("x---", "-x--", "--x-", "----")
    assert picture(on_boards(trace, 3, "waves", 0)) == ["0---", "-1--", "--2-"]
    all_four = on_boards(trace, 4, "waves", 0)
    assert sorted(all_four.device_names) == ["dev-0", "dev-1", "dev-2", "dev-3"]
    assert len(all_four.step) == 3


def test_waves_are_as_full_as_any_choice_can_be():
    for case in range(60):
        rng = generator(7, "stays", case)
        stays = []
        for _ in range(7):
            first = int(rng.integers(0, 8))
            length = int(rng.integers(1, 6))
            stays.append(Stay(first, first + length, int(rng.integers(1, length + 1))))
        for boards in (1, 2, 3):
            best = 0
            for taken in product((0, 1), repeat=len(stays)):
                depth = np.zeros(16, int)
                for stay, is_taken in zip(stays, taken, strict=True):
                    depth[stay.first : stay.end] += is_taken
                if depth.max() <= boards:
                    best = max(best, sum(s.present for s, t in zip(stays, taken, strict=True) if t))
            found = most_played(stays, boards)
            depth = np.zeros(16, int)
            for index in found:
                depth[stays[index].first : stays[index].end] += 1
            assert depth.max() <= boards
            assert sum(stays[index].present for index in found) == best


def test_random_draws_by_the_seed_from_those_that_come(draw):
    trace = draw(*(["x-"] * 3 + ["--"] * 2 + ["-x"] * 5))
    drawn = {on_boards(trace, 4, "random", seed).device_names for seed in range(8)}
    assert len(drawn) > 3
    assert not {"dev-3", "dev-4"} & {name for names in drawn for name in names}
    assert on_boards(trace, 4, "random", 5).device_names == on_boards(trace, 4, "random", 5).device_names
    assert on_boards(trace, 9, "random", 5).device_names == tuple(f"dev-{at}" for at in range(10) if at != 4)


@pytest.mark.parametrize("boards", [0, 3])
def test_more_boards_than_devices_are_refused(draw, boards):
    with pytest.raises(TraceError, match=f"devices of 2 on {boards} boards"):
        on_boards(draw("x", "x"), boards, "waves", 0)
