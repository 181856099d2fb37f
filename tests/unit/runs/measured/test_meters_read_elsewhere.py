"""Joules of a board whose meter another host reads: ten hours, clocks hours apart that drift and are booted.

The power is drawn, probed and stamped here by the true time; nothing of the analysis is used for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import Reading, RecordKind, phase_to_bytes
from roambench.experiment.sections import Experiment
from roambench.meters.traits import MeterDescription
from roambench.rounds.records import ClockProbed
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import DeviceEnergy, account_run
from roambench.spool.record_context import RecordContext
from small_runs import a_run

S = 10**9
HOURS = 3600.0
END_S = 10 * HOURS
IDLE_W, TRAIN_W = 2.0, 5.0
TRAIN_S, REST_S = 30.0, 10.0
#: Trainings are at both ends of the run: what drift moves is moved there.
TRAININGS_S = [60.0 + 50.0 * k for k in range(8)] + [END_S - 460.0 + 50.0 * k for k in range(8)]
ENERGY = {"gain": 1.0, "offset_w": 0.0, "u_gain": 0.001, "u_offset_w": 0.001}


@dataclass(frozen=True)
class Boot:
    """A life of a host from the true time `since_s`: its clock was `ahead_s` at 0 s and drifts by `ppm`."""

    name: str
    ahead_s: float
    ppm: float = 0.0
    since_s: float = -1e9
    wall_wrong_s: float = 0.0

    def at(self, true_s: float) -> int:
        return round((true_s + self.ahead_s + self.ppm * 1e-6 * true_s) * S)

    def context(self) -> bytes:
        wall = round((1.7e9 - self.ahead_s + self.wall_wrong_s) * S)
        return RecordContext(self.name, "0/1.0", wall, "smartpower2", "run").to_event(0).to_bytes()


def lived(boots: Sequence[Boot], true_s: float) -> Boot:
    return [boot for boot in boots if boot.since_s <= true_s][-1]


def probes(device: int, boots: Sequence[Boot], rng: np.random.Generator) -> list[ClockProbed]:
    """A burst every ten minutes, wrong by up to its bound of 2 ms."""
    found = []
    for at_s in np.arange(-20.0, END_S + 600.0, 600.0).tolist():
        boot = lived(boots, at_s)
        offset_ns = boot.at(at_s) - at_s * S + rng.uniform(-2e6, 2e6)
        found.append(ClockProbed(-1, device, "during", boot.name, round(at_s * S), offset_ns, 2e6, 8, ()))
    return found


def timeline() -> list[tuple[Phase, float, float]]:
    found, last_s = [], 0.0
    for start_s in TRAININGS_S:
        found.append((Phase.IDLE, last_s, start_s))
        last_s = start_s + TRAIN_S + REST_S
        found += [(Phase.TRAIN, start_s, start_s + TRAIN_S), (Phase.REST, start_s + TRAIN_S, last_s)]
    return [*found, (Phase.IDLE, last_s, END_S)]


def true_j(until_s: np.ndarray) -> np.ndarray:
    """Joules drawn from 0 s on."""
    at_work_s = sum(np.clip(until_s - start_s, 0.0, TRAIN_S) for start_s in TRAININGS_S)
    return IDLE_W * until_s + (TRAIN_W - IDLE_W) * at_work_s


def accounted(
    folder: Path, reader: str, boots: Sequence[Boot], others: Sequence[Boot], *, contexts: bool = True
) -> DeviceEnergy:
    """A run of pi-01, which lives `boots`; `reader` lives `others` and reads pi-01's meter."""
    rng = np.random.default_rng(7)
    log = probes(0, boots, rng) + (probes(1, others, rng) if reader == "pi-02" else [])
    experiment = Experiment.model_validate({"seed": 1, "energy": ENERGY})
    with a_run(folder / "run", "bench", ["pi-01", "pi-02"], experiment) as run:
        own = [(RecordKind.EVENT, boot.context()) for boot in boots if contexts]
        for phase, from_s, to_s in timeline():
            boot = lived(boots, from_s)
            to_ns = boot.at(min(to_s, *(b.since_s for b in boots if b.since_s > from_s), END_S))
            order = (f"t{from_s}",) * 2 if phase is Phase.TRAIN else ()
            span = PhaseSpan("pi-01", boot.name, phase, 0, boot.at(from_s), to_ns, *order)
            own.append((RecordKind.PHASE, phase_to_bytes(span)))
        run.records.insert("pi-01", "own", [(k, *row) for k, row in enumerate(own)])
        meter = MeterDescription("smartpower2-serial", "/dev/x", "smartpower2", remote_reader=reader)
        printed_s = np.arange(-5.0, END_S + 5.0, 1.0) + rng.uniform(0.0, 0.003)
        ended_s = printed_s - rng.uniform(0.0, 0.264, len(printed_s))
        watts = (true_j(ended_s) - true_j(ended_s - 0.264)) / 0.264
        watts += rng.normal(0.0, 0.004, len(watts))
        there, known = [], ""
        for at_s, power_w in zip(printed_s.tolist(), watts.tolist(), strict=True):
            boot = lived(others, at_s)
            if boot.name != known:
                known = boot.name
                there += [(RecordKind.EVENT, boot.context())] if contexts else []
                there.append((RecordKind.EVENT, meter.to_event(boot.at(at_s)).to_bytes()))
            line = Reading(boot.at(at_s + rng.exponential(0.003)), 5.0, power_w / 5.0, power_w)
            there.append((RecordKind.READING, line.to_bytes()))
        run.records.insert("pi-01", "there", [(k, *row) for k, row in enumerate(there)])
        run.update(start_device_ns=0, end_device_ns=round(END_S * S), state=RunState.FINISHED)
        found = account_run(run, log)
    assert found is not None
    return found.devices[0]


def assert_true(device: DeviceEnergy) -> None:
    """The trainings at either end and the whole run are the true ones within what is said of them."""
    assert not device.doubt
    assert device.whole_run.coverage > 0.999
    truth_j = float(true_j(np.array(END_S)))
    assert device.whole_run.joules == pytest.approx(truth_j, abs=2.0 * device.whole_run.u_joules)
    rows = [row for row in device.rows if row.phase is Phase.TRAIN]
    assert len(rows) == len(TRAININGS_S)
    for chosen in (rows[:8], rows[8:]):
        net_j, u_j = sum(row.net_j for row in chosen), 2.0 * sum(row.u_net_j for row in chosen)
        caused_j = len(chosen) * TRAIN_S * (TRAIN_W - IDLE_W)
        assert u_j < 0.025 * caused_j
        assert net_j == pytest.approx(caused_j, abs=u_j)
        assert net_j == pytest.approx(caused_j, rel=0.006)


CONTROLLER = (Boot("ctl", 0.0, wall_wrong_s=20.0),)


@pytest.mark.parametrize(
    ("reader", "boots", "others"),
    [
        ("controller", [Boot("b", 3725.0, 50.0)], CONTROLLER),
        ("controller", [Boot("b", -437.0, -50.0)], CONTROLLER),
        ("pi-02", [Boot("b", 20.0, 50.0)], [Boot("r", 20.0, -50.0, wall_wrong_s=20.0)]),
        ("pi-02", [Boot("b", 3725.0)], [Boot("r", -437.0, 50.0, wall_wrong_s=-3600.0)]),
    ],
)
def test_joules_are_true_however_far_apart_the_clocks_are_and_drift(
    tmp_path: Path, reader: str, boots: Sequence[Boot], others: Sequence[Boot]
) -> None:
    assert_true(accounted(tmp_path, reader, boots, others))


def test_joules_are_true_where_the_reader_is_booted_in_mid_run(tmp_path: Path) -> None:
    since_s = 5 * HOURS + 13.0
    others = [Boot("r1", 9000.0, 50.0), Boot("r2", -since_s, 50.0, since_s, wall_wrong_s=30.0)]
    assert_true(accounted(tmp_path, "pi-02", [Boot("b", 400.0, -20.0)], others))


def test_joules_are_true_where_the_board_is_booted_in_mid_run(tmp_path: Path) -> None:
    since_s = 5 * HOURS + 13.0
    boots = [Boot("b1", 9000.0, 50.0), Boot("b2", -since_s, 50.0, since_s, wall_wrong_s=30.0)]
    assert_true(accounted(tmp_path, "controller", boots, CONTROLLER))


def test_a_readers_records_without_contexts_are_of_the_one_boot_that_was_probed(tmp_path: Path) -> None:
    others = [Boot("r", -437.0, -50.0)]
    assert_true(accounted(tmp_path, "pi-02", [Boot("b", 3725.0, 50.0)], others, contexts=False))


@pytest.mark.parametrize("contexts", [True, False])
def test_readings_of_a_readers_boot_that_was_not_probed_are_a_gap(tmp_path: Path, contexts: bool) -> None:
    """It boots twice between two bursts of probes; its wall clock is 20 s wrong in between. Without record
    contexts it is not known which of its lines are of which boot."""
    since_s, again_s = END_S - 480.0, END_S - 100.0
    others = [
        Boot("r1", 9000.0, 50.0),
        Boot("r2", -since_s, 50.0, since_s, wall_wrong_s=20.0),
        Boot("r3", -again_s, 50.0, again_s),
    ]
    device = accounted(tmp_path, "pi-02", [Boot("b", 400.0, 50.0)], others, contexts=contexts)
    whole = device.whole_run
    assert whole.gap_s == pytest.approx(again_s - since_s if contexts else END_S, abs=3.0)
    rows = [row for row in device.rows if row.phase is Phase.TRAIN]
    seen = [row for row in rows if row.covered_s > 0.999 * row.duration_s]
    assert len(seen) == (8 if contexts else 0)
    caused_j = len(seen) * TRAIN_S * (TRAIN_W - IDLE_W)
    assert sum(row.net_j for row in seen) == pytest.approx(caused_j, rel=0.006)
    assert all(row.gross_j == 0.0 for row in rows if not row.covered_s)


def test_a_boards_own_boot_that_was_not_probed_has_no_readings_of_another_host_and_says_why(
    tmp_path: Path,
) -> None:
    """Its wall clock is 20 s wrong in between: a training would have another one's joules."""
    since_s, again_s = END_S - 480.0, END_S - 100.0
    boots = [
        Boot("b1", 9000.0, 50.0),
        Boot("b2", -since_s, 50.0, since_s, wall_wrong_s=20.0),
        Boot("b3", -again_s, 50.0, again_s),
    ]
    device = accounted(tmp_path, "controller", boots, CONTROLLER)
    assert device.clock.unprobed == ("b2",)
    assert "pi-01: the clock of 1 boot was never probed" in device.clock.misplaced
    assert device.clock.misplaced.endswith("or probe more often (clock.period_s)")
    rows = [row for row in device.rows if row.phase is Phase.TRAIN and row.duration_s > 1.0]
    seen = [row for row in rows if row.covered_s > 0.5 * row.duration_s]
    assert len(seen) == 8
    assert sum(row.net_j for row in seen) == pytest.approx(8 * TRAIN_S * (TRAIN_W - IDLE_W), rel=0.006)
    assert sum(row.gross_j for row in rows if row not in seen) < 0.1 * TRAIN_S * TRAIN_W  # at its ends
