"""A whole run behind emulated Smart Power 3s: another firmware, another driver, ten lines a second."""

from __future__ import annotations

import pytest

from roambench.contract.phases import Phase
from roambench.runs.folder import RunFolder

pytestmark = pytest.mark.timeout(600)

SMARTPOWER3 = (
    "fleet.agents=2",
    "trace.steps=4",
    "local.sgd_step_s=1.0",
    "local.upload_mbit_s=0.03",
    "local.download_mbit_s=0.04",
    "energy.idle_baseline_s=8",
    'local.meter_profile="smartpower3-2.2"',
    "local.meter_interval_ms=100",
    'local.power_shape="steady"',  # trainings are compared with 2.7 W below
)


def test_a_run_behind_smartpower3s_measures_the_truth_within_its_uncertainty(launch):
    run = launch(*SMARTPOWER3).finish()
    energy = run.energy()
    with RunFolder.open(run.folder()) as folder:
        start_ns, end_ns = folder.info.start_device_ns, folder.info.end_device_ns
    assert len(energy.devices) == 2
    for device in energy.devices:
        measured = device.whole_run
        assert measured.coverage == pytest.approx(1.0, abs=0.01)
        assert device.truth is not None
        assert abs(measured.joules - device.truth.whole_j) <= 2.0 * measured.u_joules
        # The meter cuts its figures off: 0.15 % at 1.9 W, which no uncertainty of some percent may hide.
        assert measured.joules / device.truth.whole_j == pytest.approx(0.9985, abs=0.0035)
        # Ten lines a second, each with the meter's own milliseconds.
        ns = device.samples.ns
        inside = (ns >= start_ns) & (ns <= end_ns)  # an agent reads before its run begins, too
        assert inside.sum() == pytest.approx(10 * measured.covered_s, rel=0.05)
        assert device.meter.traits.name == "smartpower3-100ms"
        assert device.readings.meter_ms.min() >= 0
    train = [row for row in energy.rows if row.phase is Phase.TRAIN]
    assert sum(row.gross_j for row in train) == pytest.approx(
        sum(2.7 * row.duration_s for row in train), rel=0.01
    )
