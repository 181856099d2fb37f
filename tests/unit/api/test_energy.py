"""Sums of a run's joules are those of its report."""

from __future__ import annotations

import json
import math

import pyarrow.parquet as pq
import pytest

import roambench as rb
from roambench.contract.errors import ConfigError, RunError
from roambench.report.report import report

pytestmark = pytest.mark.lengthy


def phases_of_the_report(path):
    (found,) = json.loads(report([path]).json())["runs"]
    return found


def test_a_measured_run_adds_up_to_its_report(runs):
    run = rb.load(runs / "measured")
    told = phases_of_the_report(runs / "measured")["energy"]
    for kind in ("gross", "net"):
        found = {row["phase"]: row for row in run.energy(by=["phase"], kind=kind)}
        assert found.keys() == told["phases"].keys() == {"idle", "train", "lost"}
        for phase, row in found.items():
            reported = told["phases"][phase]
            told_j, told_u_j = (reported[kind][name] for name in ("joules", "u_joules"))
            assert (row["energy_j"], row["u_energy_j"]) == (told_j, told_u_j)
            assert row["rows"] == reported["spans"]
            assert row["covered_s"] + row["gap_s"] == pytest.approx(reported["duration_s"])
    # Of pi-02 nothing is known: its minute is a gap of the net energy, as of the gross one.
    net = run.energy(kind="net").total
    assert (net.joules, net.gap_s) == (told["whole_run_net"]["joules"], pytest.approx(60.0))
    table10 = told["table10"]["gross"]["cumulative_consumed"]
    consumed = run.energy(where={"phase": ["download", "train", "upload", "exchange"]}).total
    assert (consumed.joules, consumed.u_joules) == (table10["joules"], table10["u_joules"])
    assert run.energy().basis == "measured"
    # 30 s at 2 W, known to a Smart Power 2's 1.1 % and 10 mW at least.
    (train,) = run.energy(by="phase", where={"phase": "train"})
    assert train["energy_j"] == pytest.approx(60.0, rel=0.01)
    assert train["u_energy_j"] >= 0.99 * math.hypot(0.011 * 60.0, 0.0098 * 30.0)


def test_a_modelled_run_adds_up_to_its_report_and_its_parquet_file(runs):
    run = rb.load(runs / "demo-hierfavg")
    told = phases_of_the_report(run.path)["energy_modelled"]
    found = {row["phase"]: row["energy_j"] for row in run.energy(by=["phase"], kind="net")}
    assert found == {phase: told["phases"][phase]["net"]["modelled_j"] for phase in found}
    assert len(found) == 3
    column = pq.read_table(run.path / "ledger_modelled.parquet")["modelled_gross_j"].to_pylist()
    assert run.energy().total.joules == pytest.approx(math.fsum(column))
    assert run.energy().basis == "modelled"
    by_device = run.energy(by=["device", "outcome"])
    assert math.fsum(by_device["energy_j"].to_pylist()) == pytest.approx(math.fsum(column))


def test_runs_are_never_added(runs):
    both = rb.load(runs / "demo-mohawk", runs / "demo-hierfavg")
    table = both.energy(by=["phase"])
    assert table.names[:4] == ("run", "system", "seed", "phase")
    assert {row["run"] for row in table} == {"demo-mohawk", "demo-hierfavg"}
    assert not hasattr(table, "total")


def test_what_has_no_energy_says_so(runs, tmp_path):
    rb.run(
        {"name": "dry", "trace": {"steps": 3}}, fleet="rehearsal", set={"fleet.agents": 2}, runs_dir=tmp_path
    )
    dry = rb.load(tmp_path)
    with pytest.raises(RunError, match="no energy"):
        dry[0].energy()
    with pytest.raises(ConfigError, match="expected different ones of device, step, phase, outcome"):
        rb.load(runs / "measured").energy(by=["board"])
    mixed = rb.load(runs / "measured", runs / "demo-mohawk")
    with pytest.raises(RunError, match="measured and modelled"):
        _ = mixed.ledger
