"""Where a transfer stalled, told from when its chunks ended."""

from __future__ import annotations

from itertools import accumulate

import pytest

from roambench.agent.session import transfer_stamps
from roambench.agent.session.transfer_stamps import TransferStamps, stalls_of
from roambench.contract.device_time import DeviceClock
from roambench.contract.phases import MOST_STALLS, Moved

MS = 10**6
LEAST_NS = 100 * MS


def stalls_ms(*gaps_ms: float, least_ns: int = LEAST_NS) -> list[tuple[float, float]]:
    """After the end of the first chunk, at 1 s."""
    ends_ns = list(accumulate((round(gap * MS) for gap in gaps_ms), initial=1000 * MS))
    return [(begin / MS - 1000, end / MS - 1000) for begin, end in stalls_of(ends_ns, least_ns)]


def test_a_stall_lies_in_the_middle_of_its_gap_and_is_what_the_gap_lost():
    assert stalls_ms(*(20,) * 15, 420, *(20,) * 15) == [(310, 710)]


@pytest.mark.parametrize(
    "gaps_ms",
    [
        (),
        (5000,),
        (250,) * 20,  # paced
        (3300,) * 6,  # a slow link, 4 MiB each
        (20,) * 10 + (40,) * 10,  # a radio that goes on at half its rate
        (20,) * 4 + (160,) * 10,  # or at an eighth
        (5, 6, 5, 5, 5, 200, 210, 190),  # an upload that fills a buffer before the link has a say
        (10, 300, 10, 10, 300, 10, 10, 300, 10),  # one that is taken in bunches
        (180, 180, 180, 600, 5, 5, 180, 180, 180),  # late, and made up at once
        (*(20,) * 10, 110, 20, 20),  # 90 ms
        (100, 100, 280, 100, 100),  # not far from what chunks take
        (20, 20, 420, 20, 20),  # longer than all else: nobody knows the pace
    ],
)
def test_a_pace_is_no_stall(gaps_ms):
    assert stalls_ms(*gaps_ms) == []


def test_what_is_made_up_in_part_was_lost_in_part():
    assert stalls_ms(*(100,) * 8, 800, 10, 10, *(100,) * 8) == [(940, 1460)]


def test_the_longest_are_kept_in_order_of_time():
    lengths_ms = [200, 500, 210, 510, 220, 520, 230, 530, 240, 540]
    gaps_ms = [gap for length in lengths_ms for gap in [20] * 25 + [length]]
    found = stalls_ms(*gaps_ms)
    assert len(found) == MOST_STALLS
    assert found == sorted(found)
    assert [round(end - begin) + 20 for begin, end in found] == [
        length for length in lengths_ms if length not in (200, 210)
    ]


def noted(monkeypatch: pytest.MonkeyPatch, clock: DeviceClock, *host_ms: int) -> Moved:
    stamps = TransferStamps(clock)
    for ms in host_ms:
        monkeypatch.setattr("roambench.contract.device_time.time.monotonic_ns", lambda ms=ms: ms * MS)
        stamps.note()
    return stamps.moved(7)


def test_first_and_last_byte_are_the_first_and_last_note(monkeypatch):
    moved = noted(monkeypatch, DeviceClock(), 10, 400, 500, 600, 700, 1200, 1300, 1400)
    assert moved == Moved(7, 10 * MS, 1400 * MS, ((750 * MS, 1150 * MS),))
    assert noted(monkeypatch, DeviceClock()) == Moved(7)
    assert noted(monkeypatch, DeviceClock(), 3) == Moved(7, 3 * MS, 3 * MS)


def test_a_machine_that_is_late_in_faster_device_time_has_no_stall(monkeypatch):
    clock = DeviceClock(time_scale=20.0)
    assert noted(monkeypatch, clock, 0, 10, 11, 12, 13, 53, 54, 55).stalls_ns == ()
    late = noted(monkeypatch, clock, 0, 10, *range(11, 400), 600, 601, 602)
    assert [round((end - begin) / MS) for begin, end in late.stalls_ns] == [200 * 20]
    assert transfer_stamps.LEAST_STALL_S == 0.1
