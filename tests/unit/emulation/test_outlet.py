"""What a board gets whose meter switches it off and on, and whose work is told late."""

import pytest

from roambench.emulation.outlet import Outlet

SECOND = 1_000_000_000


def at(outlet: Outlet, *seconds: float) -> list[float]:
    return [outlet.signal.watts_at(round(s * SECOND)) for s in seconds]


def test_without_power_there_is_no_draw_and_then_the_work_of_the_moment():
    outlet = Outlet(0, 1.9)
    outlet.off(10 * SECOND)
    outlet.want(12 * SECOND, 5.1)
    assert at(outlet, 9.9, 10, 12, 100) == [1.9, 0.0, 0.0, 0.0]
    outlet.on(15 * SECOND)
    assert at(outlet, 12, 14.9, 15, 100) == [0.0, 0.0, 5.1, 5.1]
    # 10 s of 1.9 W, 5 s of nothing, 5 s of 5.1 W
    assert outlet.signal.energy_j(0, 20 * SECOND) == pytest.approx(19.0 + 25.5, abs=1e-12)


def test_a_board_boots_before_it_works_again():
    outlet = Outlet(0, 1.9, boot_s=20.0, boot_w=2.7)
    outlet.off(10 * SECOND)
    outlet.on(15 * SECOND)
    outlet.want(16 * SECOND, 5.1)  # its agent is not there yet
    assert at(outlet, 14, 15, 17, 34.9, 35) == [0.0, 2.7, 2.7, 2.7, 5.1]
    outlet.want(40 * SECOND, 1.9)
    assert at(outlet, 39, 41) == [5.1, 1.9]


def test_work_told_ahead_is_masked_and_comes_back():
    outlet = Outlet(0, 1.9)
    for second, watts in ((12, 3.0), (20, 4.0)):
        outlet.want(second * SECOND, watts)
    outlet.off(10 * SECOND)
    assert at(outlet, 12, 20, 30) == [0.0, 0.0, 0.0]
    outlet.on(15 * SECOND)
    assert at(outlet, 14, 15, 19, 20) == [0.0, 3.0, 3.0, 4.0]


def test_work_told_late_holds_where_there_was_power_and_from_when_it_was_back():
    outlet = Outlet(0, 1.9)
    outlet.off(10 * SECOND)
    outlet.on(15 * SECOND)
    outlet.want(8 * SECOND, 3.0)
    assert at(outlet, 7, 9, 12, 16) == [1.9, 3.0, 0.0, 3.0]
    outlet.want(12 * SECOND, 4.0)
    assert at(outlet, 9, 12, 16) == [3.0, 0.0, 4.0]
    outlet.want(16 * SECOND, 5.0)
    outlet.want(13 * SECOND, 2.0)
    assert at(outlet, 12, 15.5, 17) == [0.0, 2.0, 5.0]


def test_power_lost_while_booting_is_one_outage():
    outlet = Outlet(0, 1.9, boot_s=20.0, boot_w=2.7)
    outlet.off(10 * SECOND)
    outlet.on(15 * SECOND)
    outlet.off(18 * SECOND)
    assert at(outlet, 16, 18, 40) == [2.7, 0.0, 0.0]
    outlet.on(50 * SECOND)
    assert at(outlet, 49, 60, 70) == [0.0, 2.7, 1.9]
    assert at(outlet, 16) == [2.7]


def test_switching_twice_changes_nothing():
    outlet = Outlet(0, 1.9)
    outlet.on(SECOND)
    outlet.off(2 * SECOND)
    outlet.off(3 * SECOND)
    assert outlet.take_changes() == [(2 * SECOND, 0.0)]


def test_the_news_alone_rebuild_the_truth():
    outlet = Outlet(0, 1.9, boot_s=3.0, boot_w=2.7)
    copy = Outlet(0, 1.9).signal
    outlet.want(12 * SECOND, 3.0)
    outlet.off(10 * SECOND)
    outlet.want(11 * SECOND, 4.0)
    outlet.on(14 * SECOND)
    outlet.want(9 * SECOND, 5.0)
    outlet.off(30 * SECOND)
    for ns, watts in outlet.take_changes():
        copy.change(ns, watts)
    assert outlet.take_changes() == []
    for second in range(40):
        assert copy.watts_at(second * SECOND) == outlet.signal.watts_at(second * SECOND)


def test_the_news_alone_rebuild_the_truth_of_a_board_that_loses_its_power_while_it_boots():
    """The end of a boot that never was is in the news already when the next boot begins before it."""
    outlet = Outlet(0, 1.9, boot_s=20.0, boot_w=2.7)
    copy = Outlet(0, 1.9).signal
    for second, switch in ((10, outlet.off), (15, outlet.on), (18, outlet.off), (20, outlet.on)):
        switch(second * SECOND)
    outlet.off(22 * SECOND)
    outlet.on(24 * SECOND)
    for ns, watts in outlet.take_changes():
        copy.change(ns, watts)
    seconds = (16, 19, 21, 23, 30, 36, 41, 50)
    assert at(outlet, *seconds) == [2.7, 0.0, 2.7, 0.0, 2.7, 2.7, 2.7, 1.9]
    assert [copy.watts_at(second * SECOND) for second in seconds] == at(outlet, *seconds)
