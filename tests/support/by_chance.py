"""Measured values beside their truth, where a test draws each error once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import scipy

from roambench.runs.measured.accounts import DeviceEnergy

#: A right program fails one of so many tests.
ONE_IN: Final = 10_000


def assert_by_chance(off_u: Mapping[str, float]) -> None:
    """Fail if errors, each in its own standard uncertainty, are larger together than chance makes them (their
    squares against chi-squared).

    One error in twenty is beyond 2 u where all is right: a test that asks for 2 u of the one draw that it has
    fails by chance. That 2 u hold 95 of 100 times is tested over hundreds of draws: `test_short_runs`,
    `test_integrate`, `test_lost_time` and `test_worlds` in tests/unit/energy, `energy_fidelity.py --worlds`.
    """
    assert off_u
    limit = float(scipy.special.chdtri(len(off_u), 1.0 / ONE_IN))
    assert sum(error**2 for error in off_u.values()) < limit, dict(off_u)


def whole_runs_off_u(boards: Iterable[DeviceEnergy]) -> dict[str, float]:
    """By board, how many standard uncertainties the energy of its whole run is off its emulator's truth."""
    off_u = {}
    for board in boards:
        assert board.truth is not None, board.device
        off_u[board.device] = (board.whole_run.joules - board.truth.whole_j) / board.whole_run.u_joules
    print(f"errors of whole runs in their standard uncertainties: {off_u}")
    return off_u
