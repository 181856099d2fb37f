from __future__ import annotations

import pytest

from roambench.mobility.candidates import id_order


def ordered(ids, draw="pcg64"):
    return [ids[at] for at in id_order(ids, draw)]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["10", "9", "100", "2"], ["2", "9", "10", "100"]),
        (["7", "0", "007", "6", "00"], ["0", "00", "6", "007", "7"]),  # of one value: as text
        (["9" * 5000, "1" + "0" * 5000, "3"], ["3", "9" * 5000, "1" + "0" * 5000]),
        (["10", "9", "a"], ["10", "9", "a"]),  # not all numbers: as text
        (["10", "9", ""], ["", "10", "9"]),
        (["-1", "10", "9"], ["-1", "10", "9"]),
        (["\u0661", "10", "9"], ["10", "9", "\u0661"]),  # an Arabic one is no digit of an id
        ([], []),
    ],
)
def test_ids_go_by_value_where_all_are_numbers_and_as_text_where_not(ids, expected):
    assert ordered(ids) == expected
    assert ordered(ids[::-1]) == expected


def test_the_order_of_earlier_versions_can_be_asked_for():
    assert ordered(["10", "9", "100", "2"], "pcg64_text") == ["10", "100", "2", "9"]
    assert ordered(["10", "9", "100", "2"], "mohawk") == ["2", "9", "10", "100"]
