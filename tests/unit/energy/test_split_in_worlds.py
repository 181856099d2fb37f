"""The split in worlds of `benchmarks/fidelity` that share nothing with it, some runs of each.

The whole table: `benchmarks/energy_fidelity.py --worlds`.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from roambench.energy.ledger import Ledger

pytestmark = pytest.mark.lengthy

RUNS = 12
NET = ("download net", "train net", "upload net")
#: What an estimator breaks on that takes everything but active phases for idling, or idling for constant.
RIGHT = ("clean-2s", "wait-above-idle", "idle-warming", "self-heating", "absent-searching", "autosuspend")


def row(worlds: ModuleType, world: str):
    return worlds.row_of(world, [worlds.measure(world, "sp2-1hz", seed) for seed in range(RUNS)])


def figures(worlds: ModuleType, values: tuple[float, ...]) -> dict[str, float]:
    return {f"{what} {kind}": value for (what, kind), value in zip(worlds.FIGURES, values, strict=True)}


@pytest.mark.parametrize("world", RIGHT)
def test_net_energy_is_right_whatever_the_board_does_beside_its_work(worlds, world):
    found = row(worlds, world)
    bias, held, two_u = (figures(worlds, values) for values in (found.bias, found.held, found.median_2u))
    for name in NET:
        assert abs(bias[name]) < 0.01, name
        assert held[name] >= 10 / RUNS, name
    # Not because the uncertainty is boundless: in the world of constant power it was 1.3 and 0.9 %.
    assert two_u["download net"] < 0.045
    assert two_u["upload net"] < 0.03


def test_a_transfer_that_is_dead_at_its_ends_is_not_charged_for_it(worlds):
    """20-60 ms at the start, 10-30 ms at the end of 1 s: +6 % if power is taken for constant throughout."""
    found = row(worlds, "dead-1s")
    bias, held = (figures(worlds, values) for values in (found.bias, found.held))
    for name in ("download net", "upload net"):
        assert abs(bias[name]) < 0.04, name
        assert held[name] >= 10 / RUNS, name


def test_a_transfer_that_stalls_is_not_charged_for_it(worlds):
    """Two in five transfers stop for 0.2 to 1.4 s: 2 u was 11 % of the net energy of downloads, and 80 % of
    the runs were flagged, while the stalls were taken for transfer."""
    found = row(worlds, "retransmissions")
    bias, held, two_u = (figures(worlds, values) for values in (found.bias, found.held, found.median_2u))
    for name in ("download net", "upload net"):
        assert abs(bias[name]) < 0.01, name
        assert held[name] >= 10 / RUNS, name
        assert two_u[name] < 0.04
    assert found.flagged <= 1 / RUNS


def test_what_a_board_does_after_the_last_byte_is_not_taken_for_what_moving_draws(worlds):
    """Hashing and writing at two to three times the power for a quarter of a second: downloads were off by
    -16 %, uploads by -10 %, and nothing was flagged."""
    found = row(worlds, "end-burst-1s")
    bias, held = (figures(worlds, values) for values in (found.bias, found.held))
    for name in ("download net", "upload net"):
        assert abs(bias[name]) < 0.05, name
        assert held[name] >= 10 / RUNS, name


@pytest.mark.parametrize("world", ["radio-tail", "radio-awake"])
def test_what_a_radio_draws_after_a_transfer_is_in_the_wait_behind_it(worlds, world):
    """0.2 to 1 s of a quarter to a third of a watt: waits were 0.6 to 0.8 % too cheap, and hardly a run held
    the truth; downloads were off by -10 %."""
    found = row(worlds, world)
    bias, held = (figures(worlds, values) for values in (found.bias, found.held))
    assert abs(bias["wait gross"]) < 0.003
    assert abs(bias["download net"]) < 0.06
    for name in ("wait gross", *NET):
        assert held[name] >= 10 / RUNS, name


def test_a_clock_that_is_raised_late_is_seen_where_trainings_begin(worlds):
    """Half the power for 50-200 ms: downloads were off by -13 %, flagged; trainings by 0.5 %, 2.5 x 2 u."""
    found = row(worlds, "train-late-clock")
    bias, held = (figures(worlds, values) for values in (found.bias, found.held))
    assert abs(bias["download net"]) < 0.03
    assert abs(bias["train net"]) < 0.003
    assert min(held[name] for name in NET) >= 9 / RUNS


def test_lines_of_5_ms_that_repeat_each_other_count_once(worlds):
    """What boards draw beside their work holds for 66 ms: all clean runs were flagged, two of three held."""
    runs = [worlds.measure("clean-1s", "sp3-5ms", seed) for seed in range(3)]
    assert not any(run.flagged for run in runs)
    z = [(np.array(run.joules) - run.true_joules) / run.u_joules for run in runs]
    assert np.mean(np.abs(z) <= 2.0) >= 0.9


def test_how_trainings_begin_stays_uncertain_where_no_clock_tells_it(worlds):
    """A clock raised late and lowered late: 2 u of trainings held the truth in 2 of these 8 runs."""
    runs = [worlds.measure("stepped-clock", "sp2-1hz", seed) for seed in range(27, 35)]
    train = worlds.FIGURES.index(("train", "net"))
    off = [abs(run.joules[train] - run.true_joules[train]) / run.u_joules[train] for run in runs]
    assert np.sum(np.array(off) <= 2.0) >= 7


@pytest.mark.parametrize("world", ["train-ramp", "lte", "fan", "locked", "locked-burst"])
def test_a_split_whose_assumptions_fail_is_flagged(worlds, world):
    assert row(worlds, world).flagged >= 11 / RUNS


def test_clean_runs_are_not_flagged(worlds):
    flagged = [worlds.measure("clean-1s", "sp2-1hz", seed).flagged for seed in range(3 * RUNS)]
    assert np.sum(flagged) <= 1


@pytest.mark.parametrize("world", ["clean-1s", "dead-1s"])
def test_lines_that_show_a_value_again_are_told_before_idle_power_is_taken_off(worlds, world):
    """Ten lines a second, a new value every 264 ms: counted one by one they contradicted every split."""
    runs = [worlds.measure(world, "sp2-100ms", seed) for seed in range(4)]
    held = [
        abs(joules - true_j) <= 2.0 * u_j
        for run in runs
        for joules, u_j, true_j in zip(run.joules, run.u_joules, run.true_joules, strict=True)
    ]
    assert np.mean(held) >= 0.9
    assert not any(run.flagged for run in runs)


@pytest.mark.parametrize("world", ["fair_constant", "epoch_eval_checkpoint", "power_duration_correlated"])
def test_the_second_generator_finds_the_split_as_uncertain_as_it_says(worlds, world):
    runs = [worlds.measure(world, "sp2-1hz", seed) for seed in range(1, 7)]
    assert min(worlds.row_of(world, runs).held) >= 5 / 6
    if world in worlds.CLEAN:
        assert not any(run.flagged for run in runs)


def test_a_flag_excuses_no_clean_world(worlds):
    rare = {"bias": (0.0,) * 9, "held": (0.5, *(1.0,) * 8), "median_2u": (0.01,) * 9, "flagged": 1.0}
    assert worlds.WorldRow("fan", 10, **rare).verdict == "flagged"
    for world in ("clean-1s", "fair_constant"):
        assert worlds.WorldRow(world, 10, **rare).verdict == "NOT MET: whole gross, false alarms"


def test_transfers_at_many_rates_that_no_clock_bears_out_have_the_estimate_without_a_model(worlds):
    """Loaders that begin before their stamps: 2 u of transfers by the split held the truth in 53 and 60 %."""
    held = []
    for seed in range(1, RUNS + 1):
        run, account = worlds.accounted("train_tail_prefetch", "sp2-1hz", seed)
        if account.attribution.borne_out or account.attribution.locked:
            continue
        rows = [i for i, row in enumerate(account.rows) if row.phase.value in ("download", "upload")]
        assert all(account.rows[i].design_based for i in rows)
        for phase in ("download", "upload"):
            chosen = [i for i in rows if account.rows[i].phase.value == phase]
            found = Ledger.of(account.rows[i] for i in chosen).total("net")
            held.append(abs(found.joules - run.true_net_j[chosen].sum()) <= 2.0 * found.u_joules)
    assert len(held) >= RUNS
    assert sum(held) >= 0.8 * len(held)


def test_a_split_that_does_not_add_up_to_the_whole_run_says_so(worlds):
    """Rounds locked to the meter's second: the split and the trapezoid weigh the same lines differently."""
    _, account = worlds.accounted("locked", "sp2-1hz", 2)
    assert not account.closed
    assert account.contradicted
    excess_j = sum(row.gross_j for row in account.rows) - account.whole_run.joules
    assert excess_j > 3.0 * account.whole_run.u_joules
    assert all(worlds.accounted("clean-1s", "sp2-1hz", seed)[1].closed for seed in range(4))
