"""The readers on real files, where they lie beside the project."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from roambench.mobility.files import content_hash
from roambench.mobility.importing import import_trace
from roambench.mobility.projection import PlaneBox
from roambench.mobility.readers.opening import SourceOptions
from roambench.mobility.recipe import Recipe

pytestmark = pytest.mark.lengthy


@pytest.fixture
def real(data_folder: Path):
    def find(name: str) -> Path:
        path = data_folder / "traces" / name
        assert path.exists(), f"the data folder has no {name}"
        return path

    return find


def test_the_ones_snapshots_and_its_setdest_tell_the_same_movement(real):
    recipe = Recipe(box=PlaneBox(0, 0, 4500, 3500), steps=70, step_s=600, aps=5, devices=None)
    snapshots = import_trace(
        "one-snapshot", [real("one_default_12h_LocationSnapshotReport_60s.txt.xz")], recipe
    ).trace
    setdest = import_trace("ns2", [real("one_default_12h_MovementNs2Report.txt.xz")], recipe).trace
    assert len(snapshots.device_names) == len(setdest.device_names) == 126
    assert setdest.step.tolist() == sorted([*range(70)] * 126)  # present always
    assert len(snapshots.step) == 126 * 69 + 126  # the first snapshot is that of second 60

    def by_host(trace):  # p0, c3, t125 and 0, 3, 125 are the same hosts
        hosts = np.array([int(name.lstrip("pcwt")) for name in trace.device_names])[trace.device]
        order = np.lexsort((hosts, trace.step))
        late = trace.step[order] > 0
        return np.column_stack((trace.x_m, trace.y_m))[order][late]

    apart_m = np.hypot(*(by_host(snapshots) - by_host(setdest)).T)
    # A host that arrives within a simulated second walks on in it; the report's orders wait for the next.
    assert np.median(apart_m) < 2.0
    assert np.quantile(apart_m, 0.99) < 30.0


def test_the_ones_contacts_are_meetings_within_radio_range(real):
    recipe = Recipe(steps=None, step_s=600)
    path = real("one_default_12h_ConnectivityONEReport.txt.xz")
    options = SourceOptions(ap_hosts=tuple(str(host) for host in range(10)))
    found = import_trace("one-contacts", [path], recipe, options)
    trace = found.trace
    assert (found.rows, found.malformed) == (120_139, 0)
    assert (trace.steps, trace.ap_names) == (72, tuple(str(host) for host in range(10)))
    assert len(trace.device_names) == 116
    assert trace.provenance["coordinates"] == "synthetic"


def test_bonnmotions_example_is_the_same_in_its_three_forms(real, tmp_path):
    movements = real("bonnmotion/rwp_10.movements.gz")
    recipe = Recipe(box=PlaneBox(0, 0, 500, 500), steps=10, step_s=60, aps=2, devices=None)
    own = import_trace("bonnmotion", [movements], recipe).trace
    shifted_box = Recipe(box=PlaneBox(10, 10, 500, 500), steps=10, step_s=60, aps=2, devices=None)
    shifted = import_trace("ns2", [real("bonnmotion/rwp_10.ns_movements")], shifted_box).trace
    assert (len(own.step), own.device_names) == (100, shifted.device_names)
    assert np.allclose(own.x_m, shifted.x_m, atol=1e-6)
    assert np.allclose(own.y_m, shifted.y_m, atol=1e-6)
    # The third form, .one, is made here from the first as its tool does: positions at whole seconds.
    lines = ["0.0 600.0 0.0 500.0 0.0 500.0"]
    text = gzip.decompress(movements.read_bytes()).decode()
    waypoints = [np.array(line.split(), float).reshape(-1, 3) for line in text.splitlines()]
    for t_s in range(0, 601):
        for node, table in enumerate(waypoints):
            x, y = (np.interp(t_s, table[:, 0], table[:, axis]) for axis in (1, 2))
            lines.append(f"{t_s:.1f} {node} {x:.9f} {y:.9f}")
    (tmp_path / "rwp_10.one").write_text("\n".join(lines) + "\n")
    one = import_trace("one-movement", [tmp_path / "rwp_10.one"], recipe).trace
    assert np.allclose(own.x_m, one.x_m, atol=1e-6)
    assert np.allclose(own.y_m, one.y_m, atol=1e-6)


def test_sumos_vehicles_are_present_as_long_as_they_are_listed(real):
    found = import_trace("sumo-fcd", [real("sumo_grid_2h_fcd.xml.xz")], Recipe(steps=None, step_s=10, aps=4))
    trace = found.trace
    assert (len(trace.device_names), found.malformed) == (360, 0)
    assert len(trace.step) == found.rows == 11_190  # one fix per vehicle and timestep of 10 s
    per_step = np.bincount(trace.step, minlength=trace.steps)
    assert (per_step[0], trace.steps) == (1, 720)


def test_getnexts_files_are_read_by_their_header(real):
    paths = [real(f"fsq_tsmc2014_nyc_getnext_{part}.csv.xz") for part in ("val", "test")]
    found = import_trace("csv", paths, Recipe(aps=10))
    assert (found.rows, found.malformed) == (20_713, 0)
    again = import_trace("csv", paths[::-1], Recipe(aps=10))
    assert content_hash(found.trace) == content_hash(again.trace)
