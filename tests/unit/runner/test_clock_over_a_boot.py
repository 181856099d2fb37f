"""The run's clock goes on where the controller's machine was booted in mid-run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from roambench.rounds.records import ClockProbed
from roambench.runner.agents.agent_checkpoints import behind_boards_ns, boot_id, clock_again, was_booted

S = 10**9


def told(unix_ns: int, boot: str) -> dict[str, Any]:
    """Of a checkpoint, what its clock goes on from: it was at 5,000 s."""
    return {"boot_id": boot, "at_ns": 5000 * S, "unix_ns": unix_ns, "epoch_ns": 7 * S, "ahead_ns": 3 * S}


def probed(device: int, boot: str, ahead_s: float) -> ClockProbed:
    return ClockProbed(-1, device, "hello", boot, 0, ahead_s * 1e9, 1e6, 8, (0, 0, 0, 0), 1.0)


def test_without_a_boot_it_is_the_same_clock(tmp_path: Path) -> None:
    kept = told(0, boot_id())
    assert not was_booted(kept)
    clock = clock_again(kept, 4.0, tmp_path)
    assert (clock.epoch_ns, clock.time_scale, clock.ahead_ns) == (7 * S, 4.0, 3 * S)


@pytest.mark.parametrize("time_scale", [1.0, 4.0])
def test_over_a_boot_it_goes_on_by_the_wall_clock(tmp_path: Path, time_scale: float) -> None:
    unix_ns = time.time_ns() - 100 * S
    kept = told(unix_ns, "another")
    assert was_booted(kept)
    clock = clock_again(kept, time_scale, tmp_path)
    away_s = (clock.from_host_ns(clock.epoch_ns) / S - 5000.0) / time_scale
    assert 100.0 <= away_s <= (time.time_ns() - unix_ns) / S
    assert clock.to_host_ns(clock.from_host_ns(clock.epoch_ns + S)) == clock.epoch_ns + S


def test_where_the_wall_clock_fell_behind_nothing_is_stamped_twice(tmp_path: Path) -> None:
    """A board without a clock of its own boots into the past; its agents' files say when they last wrote."""
    unix_ns = time.time_ns() + 1000 * S
    for name, after_s in (("pi-01", 30), ("pi-02", 20)):
        spool = tmp_path / "agents" / name / "spool.sqlite-wal"
        spool.parent.mkdir(parents=True)
        spool.touch()
        os.utime(spool, ns=(unix_ns, unix_ns + after_s * S))
    clock = clock_again(told(unix_ns, "another"), 10.0, tmp_path)
    assert clock.from_host_ns(clock.epoch_ns) == 5000 * S + 10 * 35 * S  # a power cut takes back 5 s


def test_boards_that_lived_on_say_how_far_it_is_behind() -> None:
    before = [probed(0, "a", 10.0), probed(1, "b", 20.0), probed(2, "c", 30.0), probed(0, "a", 10.5)]
    assert behind_boards_ns(before, []) is None
    assert behind_boards_ns(before, [probed(0, "booted", 900.0)]) is None
    assert behind_boards_ns(before, [probed(0, "a", 70.5)]) == 60 * S
    honest = [probed(0, "a", 70.5), probed(1, "b", 80.0)]
    for lie_s in (-1e8, 30.0, 1e8):  # 30.0: that the wall clock was right
        lying = probed(2, "c", lie_s)
        assert behind_boards_ns(before, [*honest, lying]) == 60 * S
        assert abs(behind_boards_ns(before, [honest[0], lying]) or 0) <= 60 * S
