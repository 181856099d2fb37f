"""Sums of ledger rows against a simulation of what is wrong with meters and boards.

The simulation is written from what docs/energy.md and `LedgerRow` say of errors, not from how they are added
up: it draws the gain of each meter, the idle power of each board and so on, spoils every row, and adds them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, product

import numpy as np
import numpy.typing as npt
import pytest

from roambench.api.energy_sums import energy_sums
from roambench.contract.errors import ConfigError
from roambench.contract.phases import Outcome, Phase
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import Ledger, LedgerRow

DRAWS = 200_000
BOARDS = ("pi-01", "pi-02", "pi-03")
PHASES = (Phase.TRAIN, Phase.UPLOAD, Phase.WAIT)
Draws = npt.NDArray[np.float64]


def quiet_row(device: str, step: int, phase: Phase, outcome: Outcome | None) -> LedgerRow:
    training = f"{device}-{step}" if outcome else ""
    return LedgerRow(device, step, phase, outcome, training, 10.0, 10.0, 50.0, 20.0, 0.0, 50.0)


class World:
    """Three boards, of which two meters were calibrated against one reference."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        outcomes = {Phase.TRAIN: Outcome.AGGREGATED, Phase.UPLOAD: Outcome.WASTED, Phase.WAIT: None}
        self.rows = [
            replace(
                quiet_row(device, step, phase, outcomes[phase]),
                covered_s=covered,
                duration_s=covered + 0.5,
                gross_j=watts * covered,
                net_j=(watts - 2.0) * covered,
                u_gain=0.011,
                u_reference=0.008 if device != "pi-03" else 0.0,
                reference="LMG671" if device != "pi-03" else "",
                u_offset_w=0.01,
                u_own_j=0.05 + 0.2 * self.draw.random(),
                u_idle_j=0.02 * covered,
                u_idle_gross_j=0.005 * covered,
                u_level_j=0.01 * covered if phase is not Phase.WAIT else 0.0,
            )
            for device, step in product(BOARDS, range(4))
            for phase, covered, watts in (
                (Phase.TRAIN, 20.0 + step, 4.8),
                (Phase.UPLOAD, 0.8 + 0.1 * step, 3.1),
                (Phase.WAIT, 30.0, 2.0),
            )
        ]

    def normal(self) -> Draws:
        return self.draw.standard_normal(DRAWS)

    def spoiled(self, kind: str) -> Draws:
        """The error of each row in each draw, J: shape (rows, draws)."""
        gross = kind == "gross"
        gain = {name: self.normal() for name in BOARDS}
        idle = {name: self.normal() for name in BOARDS}
        offset = {name: self.normal() for name in BOARDS}
        level = {phase: self.normal() for phase in PHASES}  # all boards are wrong by it together
        reference = self.normal()
        found = []
        for row in self.rows:
            joules = row.gross_j if gross else row.net_j
            error = row.u_own_j * self.normal()
            error += joules * math.sqrt(row.u_gain**2 - row.u_reference**2) * gain[row.device]
            error += joules * row.u_reference * reference
            error += row.u_level_j * level[row.phase]
            error += (row.u_idle_gross_j if gross else row.u_idle_j) * idle[row.device]
            if gross:  # what is wrong with all readings alike is in no difference of them
                error += row.u_offset_w * row.covered_s * offset[row.device]
            found.append(error)
        return np.array(found)


@pytest.fixture(scope="module")
def world() -> World:
    return World(20260101)


@pytest.fixture(scope="module")
def errors(world: World) -> dict[str, Draws]:
    return {"gross": world.spoiled("gross"), "net": world.spoiled("net")}


@pytest.mark.parametrize("kind", ["gross", "net"])
@pytest.mark.parametrize("by", [(), ("device",), ("phase",), ("outcome", "step"), ("device", "phase")])
def test_sums_scatter_as_their_uncertainty_says(world, errors, by, kind):
    sums = energy_sums(Ledger.of(world.rows), by, kind)
    groups = [
        [
            number
            for number, row in enumerate(world.rows)
            if all(
                (None if getattr(row, key) is None else getattr(row, key)) == value
                for key, value in zip(by, group.values, strict=True)
            )
        ]
        for group in sums.groups
    ]
    assert sorted(chain.from_iterable(groups)) == list(range(len(world.rows)))
    drawn = np.array([errors[kind][rows].sum(axis=0) for rows in groups])
    covariance = np.atleast_2d(drawn @ drawn.T / DRAWS)
    u2 = np.diag(covariance)
    # What DRAWS draws know a covariance to (k = 4.5, for some hundred entries).
    allowed = 4.5 * np.sqrt((np.outer(u2, u2) + covariance**2) / DRAWS)
    assert (np.abs(sums.covariance_j2 - covariance) <= allowed).all()
    assert [group.energy.u_joules for group in sums.groups] == pytest.approx(
        np.sqrt(np.diag(sums.covariance_j2)).tolist()
    )
    own = [world.rows[number] for number in range(len(world.rows))]
    assert sums.total.joules == pytest.approx(
        sum(row.gross_j if kind == "gross" else row.net_j for row in own)
    )
    assert sums.total.u_joules == pytest.approx(drawn.sum(axis=0).std(), rel=0.01)
    assert [group.rows for group in sums.groups] == list(map(len, groups))


def test_both_ways_of_adding_by_hand_are_wrong(world, errors):
    """The trap: in quadrature one board's trainings are too sure, linearly several boards too unsure."""
    u_j = np.sqrt(np.mean(errors["gross"] ** 2, axis=1))
    ledger = Ledger.of(world.rows)
    own = {"device": "pi-01", "phase": "train"}
    trainings = [row.device == "pi-01" and row.phase is Phase.TRAIN for row in world.rows]
    assert math.hypot(*u_j[trainings]) < 0.6 * energy_sums(ledger, where=own).total.u_joules
    assert u_j.sum() > 1.5 * energy_sums(ledger).total.u_joules


def test_rows_are_taken_by_value_and_groups_come_as_they_first_appear(world, errors):
    ledger = Ledger.of(world.rows)
    radio = energy_sums(ledger, ["phase", "device"], where={"phase": ["upload", "wait"], "device": "pi-02"})
    assert [group.values for group in radio.groups] == [("upload", "pi-02"), ("wait", "pi-02")]
    background = energy_sums(ledger, ["outcome"], where={"outcome": None})
    assert [(group.values, group.rows) for group in background.groups] == [((None,), 12)]
    assert [group.values for group in energy_sums(ledger, ["step"], where={"step": (3, 1)}).groups] == [
        (1,),
        (3,),
    ]
    nothing = energy_sums(ledger, ["phase"], where={"step": 99})
    assert nothing.groups == ()
    assert nothing.total == Energy()
    assert energy_sums(Ledger.of([]), ["device"]).groups == ()
    (empty,) = energy_sums(Ledger.of([])).groups
    assert (empty.energy, empty.rows) == (Energy(), 0)


@pytest.mark.parametrize(
    ("by", "where", "told"),
    [
        (["fate"], {}, "'fate': expected different ones of device, step, phase, outcome"),
        (["device", "device"], {}, "expected different ones of"),
        ([], {"phase": "uplaod"}, "phase 'uplaod': expected one of absent, decode, download"),
        ([], {"device": ["pi-01", "pi-99"]}, "device 'pi-99': expected one of pi-01, pi-02, pi-03"),
    ],
)
def test_what_there_is_not_is_a_mistake(world, errors, by, where, told):
    with pytest.raises(ConfigError, match=told):
        energy_sums(Ledger.of(world.rows), by, where=where)
