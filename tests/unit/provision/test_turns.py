"""Who is sent something first, and who waits."""

from __future__ import annotations

import threading

import pytest

from roambench.provision.wheels.turns import Turn, Turns

pytestmark = pytest.mark.lengthy


def order_of(turns: Turns, waiting: dict[str, Turn]) -> list[str]:
    """In which order they come, where all of them wait while another one has its turn."""
    came: list[str] = []

    def take(name: str) -> None:
        with turns.turn(waiting[name]):
            came.append(name)

    threads = [threading.Thread(target=take, args=(name,)) for name in waiting]
    with turns.turn(Turn(1, 1000.0)):
        for thread in threads:
            thread.start()
        while turns.waiting < len(waiting):
            pass
    for thread in threads:
        thread.join()
    return came


def test_who_is_soonest_done_comes_first_and_a_slow_one_last() -> None:
    waiting = {
        "slow": Turn(1_000_000, 100.0),
        "fast": Turn(3_000_000, 1000.0),
        "nearly done": Turn(500_000, 900.0),
        "slow, nearly done": Turn(1000, 100.0),
    }
    assert order_of(Turns(1), waiting) == ["slow, nearly done", "nearly done", "fast", "slow"]


def test_who_was_sent_nothing_yet_is_taken_to_be_as_fast_as_the_fastest() -> None:
    waiting = {"slow": Turn(1_000_000, 100.0), "begun": Turn(2_900_000, 1000.0), "new": Turn(3_000_000)}
    assert order_of(Turns(1), waiting) == ["begun", "new", "slow"]


def test_no_more_than_so_many_at_a_time_and_one_that_fails_gives_its_turn_back() -> None:
    turns = Turns(2)
    now, most = 0, 0
    lock = threading.Lock()

    def fail() -> None:
        nonlocal now, most
        with turns.turn(Turn(1000)):
            with lock:
                now += 1
                most = max(most, now)
            threading.Event().wait(0.005)
            with lock:
                now -= 1
            raise OSError

    def take() -> None:
        with pytest.raises(OSError):
            fail()

    threads = [threading.Thread(target=take) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, turns.waiting) == (2, 0)
