"""The generator of boards and meters in benchmarks/fidelity/benches, against its pieces one by one."""

import numpy as np
import pytest
from fidelity.benches.board import GRID_S, KINDS
from fidelity.benches.meters import METERS, PRINTED_W, REGISTER_W
from fidelity.benches.run import WORLDS, simulate

pytestmark = pytest.mark.lengthy


def watts_at(board, t):
    """Metered and idle power at the instants `t`, from the rectangles alone."""
    power = {kind: np.zeros(t.size) for kind in KINDS}
    for kind, rectangles in board.rectangles.items():
        start, end, watts = np.hstack([np.empty((3, 0)), *rectangles])
        for edge, sign in ((start, 1), (end, -1)):
            order = np.argsort(edge)
            passed = np.concatenate([[0.0], np.cumsum(watts[order])])
            power[kind] += sign * passed[np.searchsorted(edge[order], t, "right")]
    cell = ((t - board.first) / GRID_S).astype(int)
    idle = board.idle_watts + board.slow[cell] + power["idle"] + power["background"]
    gross = idle + power["train"] * board.train_factor[cell] + power["other"]
    gross += power["transfer"] * board.transfer_factor[cell]
    gross -= board.lost_to_training * power["background"] * np.minimum(power["contention"], 1.0)
    return [board.at_terminals(part) if board.at_terminals else part for part in (gross, idle)]


@pytest.mark.parametrize("world", ["epoch_eval_checkpoint", "cable_undervoltage", "second_process"])
def test_true_joules_are_the_fine_numerical_integral_of_power(world):
    board = WORLDS[world].board(np.random.default_rng(1))
    gross, idle = board.signals()
    for border in zip(board.borders[1:6], board.borders[2:7], strict=True):  # a round
        edges = np.linspace(*border, 100_001)
        for signal, watts in zip((gross, idle), watts_at(board, (edges[1:] + edges[:-1]) / 2), strict=True):
            joules = np.diff(signal.joules(np.array(border)))[0]
            assert joules == pytest.approx(watts.mean() * np.diff(border)[0], abs=2e-3)


@pytest.mark.parametrize("world", WORLDS)
def test_every_world_makes_a_whole_run(world):
    runs = [simulate(world, meter, 1) for meter in METERS]
    for run in runs:
        assert np.all(np.diff(run.ns) > 0)
        assert run.ns.size == run.watts.size
        assert [(a.end_ns, a.end_ns > a.start_ns) for a in run.spans[:-1]] == [
            (b.start_ns, True) for b in run.spans[1:]
        ]
        edges_s = (run.border_ns - run.start_ns) * 1e-9
        whole_j = np.diff(run.signal.joules(edges_s[[0, -1]]))[0]
        assert run.true_gross_j.sum() == pytest.approx(whole_j, abs=1e-6)
        assert len(run.transfers) == sum(span.phase in ("download", "upload") for span in run.spans)
        for transfer in run.transfers:
            span = run.spans[transfer.span]
            assert span.start_ns <= transfer.first_byte_ns <= transfer.last_byte_ns <= span.end_ns
    # Both meters look at one board.
    assert np.array_equal(runs[0].true_net_j, runs[1].true_net_j)
    assert runs[0].spans == runs[1].spans


@pytest.mark.parametrize(("meter", "gain"), [("sp2-1hz", PRINTED_W / REGISTER_W), ("sp3-100ms", 1.0)])
def test_in_a_fair_world_a_meter_shows_the_mean_of_what_was_drawn(meter, gain):
    off = []
    for world, seed in (
        (world, seed) for world in WORLDS if WORLDS[world].kind == "fair" for seed in range(8)
    ):
        run = simulate(world, meter, seed)
        at_s = (run.ns - run.start_ns) * 1e-9
        inside = (at_s > 2.0) & (at_s < 59.0)  # of the opening baseline
        true_w = np.diff(run.signal.joules(np.array([2.0, 59.0])))[0] / 57.0
        off.append(run.watts[inside].mean() / true_w / gain - 1)
    assert np.mean(off) == pytest.approx(0.0, abs=5e-4)


def test_a_transfer_that_stalls_says_where_no_byte_moved():
    stalled = []
    for seed in range(6):
        run = simulate("stalls_rate_adapt", "sp2-1hz", seed)
        for transfer in run.transfers:
            for begin, end in transfer.stalls_ns:
                assert transfer.first_byte_ns < begin < end <= transfer.last_byte_ns
                assert 0.1 <= (end - begin) * 1e-9 <= 0.81
                around = np.array([run.spans[0].start_ns, run.spans[0].end_ns, begin + 5e6, end - 5e6])
                joules = run.signal.joules((around - run.start_ns) * 1e-9)
                idle_w, stalled_w = np.diff(joules)[[0, 2]] / np.diff(around)[[0, 2]] * 1e9
                stalled.append(stalled_w - idle_w)
    assert len(stalled) > 20
    assert np.median(stalled) == pytest.approx(0.06, abs=0.05)  # W; moving draws 0.3 to 1.5
    assert not any(t.stalls_ns for t in simulate("fair_constant", "sp2-1hz", 1).transfers)


def test_seed_world_and_meter_fix_every_draw():
    one, again, other = (simulate("busy_agent", "sp3-100ms", seed) for seed in (1, 1, 2))
    for name in ("ns", "watts", "device_ms", "border_ns", "true_gross_j", "true_net_j"):
        assert np.array_equal(getattr(one, name), getattr(again, name))
    assert (one.spans, one.transfers) == (again.spans, again.transfers)
    assert not np.array_equal(one.true_gross_j, other.true_gross_j)
