"""The true energy of emulated boards over the spans of a ledger, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from roambench.contract.phases import Phase, PhaseSpan
from roambench.energy.integrate import power_curve
from roambench.energy.readings.samples import PowerSamples
from roambench.runs.measured.truth import board_truth

S = 10**9
#: 2 W, from 10 to 20 s 5 W.
TRUTH = f"ns,watts,idle_watts\n{-10 * S},2.0\n{10 * S},5.0\n{20 * S},2.0\n{60 * S},\n"


def spans() -> list[PhaseSpan]:
    rows = ((Phase.IDLE, 0, 10), (Phase.TRAIN, 10, 18), (Phase.UPLOAD, 18, 22), (Phase.IDLE, 22, 40))
    return [PhaseSpan("pi", "boot", phase, 0, a * S, b * S) for phase, a, b in rows]


def curve(*missing: int):
    at = [second for second in range(-2, 43) if second not in missing]
    return power_curve(PowerSamples.of(np.array(at) * S, [2.0] * len(at)), 0, 40 * S, delay_s=0.0)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "truth").mkdir()
    (tmp_path / "truth" / "pi.csv").write_text(TRUTH)
    return tmp_path


def test_every_span_has_its_true_joules_and_those_above_idling(folder):
    found = board_truth(folder, "pi", curve(), spans(), 0.0)
    assert found is not None
    assert found.whole_j == pytest.approx(40 * 2.0 + 10 * 3.0)
    assert found.gross_j == pytest.approx([20.0, 40.0, 2 * 5.0 + 2 * 2.0, 36.0])
    assert found.net_j == pytest.approx([0.0, 24.0, 6.0, 0.0])


def test_net_is_above_what_idling_would_have_drawn_at_the_same_moment(folder):
    """Warmer by 0.5 W from 15 s on, as the file says; baselines at 2 W before and after do not matter."""
    idle = f"{-10 * S},,2.0\n{15 * S},,2.5\n"
    (folder / "truth" / "pi.csv").write_text(TRUTH + idle)
    found = board_truth(folder, "pi", curve(), spans(), 0.0)
    assert found is not None
    assert found.gross_j == pytest.approx([20.0, 40.0, 14.0, 36.0])
    assert found.net_j == pytest.approx([0.0, 40.0 - 5 * 2.0 - 3 * 2.5, 14.0 - 4 * 2.5, 36.0 - 18 * 2.5])
    covered = board_truth(folder, "pi", curve(12, 13, 14, 15), spans(), 0.0)  # nothing from 11 to 16 s
    assert covered is not None
    assert covered.net_j[1] == pytest.approx(3 * 5.0 - 1 * 2.0 - 2 * 2.5)


def test_what_a_phase_left_behind_in_its_guard_is_the_phases(folder):
    """A radio that draws 0.5 W for 2 s after the upload: 1 J of it lies in the guard of 3 s, none behind."""
    tail = (
        f"ns,watts,idle_watts\n{-10 * S},2.0,2.0\n{10 * S},5.0,\n{22 * S},2.5,\n{24 * S},2.0,\n{60 * S},,\n"
    )
    (folder / "truth" / "pi.csv").write_text(tail)
    inside, caused = (board_truth(folder, "pi", curve(), spans(), guard_s) for guard_s in (0.0, 3.0))
    assert inside is not None
    assert caused is not None
    assert inside.net_j == pytest.approx([0.0, 24.0, 12.0, 1.0])
    assert caused.net_j == pytest.approx([0.0, 24.0, 13.0, 0.0])
    assert caused.gross_j - inside.gross_j == pytest.approx([0.0, 0.0, 1.0, -1.0])
    assert caused.whole_j == inside.whole_j


def test_only_the_time_that_the_meter_covered_counts(folder):
    """No line at 12 .. 15 s: from 11 to 16 s nothing is known of the board, truth or not."""
    found = board_truth(folder, "pi", curve(12, 13, 14, 15), spans(), 0.0)
    assert found is not None
    assert found.gross_j == pytest.approx([20.0, 15.0, 14.0, 36.0])
    assert found.net_j == pytest.approx([0.0, 9.0, 6.0, 0.0])
    assert found.whole_j == pytest.approx(110.0 - 25.0)


def test_a_truth_that_ends_before_the_run_is_none(folder):
    (folder / "truth" / "pi.csv").write_text(f"ns,watts,idle_watts\n{-10 * S},2.0\n{30 * S},nan\n")
    assert board_truth(folder, "pi", curve(), spans(), 0.0) is None


def test_no_truth_is_read_outside_the_folder(folder):
    (folder / "pi.csv").write_text(TRUTH)
    assert board_truth(folder, "../pi", curve(), spans(), 0.0) is None
    assert board_truth(folder, "other", curve(), spans(), 0.0) is None


def test_without_baselines_there_is_no_true_net_energy(folder):
    work = [span for span in spans() if span.phase is not Phase.IDLE]
    found = board_truth(folder, "pi", curve(), work, 0.0)
    assert found is not None
    assert np.isnan(found.net_j).all()
    assert found.gross_j == pytest.approx([40.0, 14.0])
