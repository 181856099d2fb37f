"""Virtual devices on batteries: who goes off, what it does to the models, over a kill and over a replay."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from foreign_packages import install
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.run import summarise
from roambench.report.tables.report import detail_tables
from roambench.rounds.records import BatteriesSeen, OrderGiven, StepOpened
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.event_log import EventLog
from roambench.runs.folder import RunFolder
from roambench.runs.models import load_model

from .resumed import command, ended, killed_when, rows, story

pytestmark = pytest.mark.timeout(600)

ROUNDS = """
name = "cells"
seed = 5
systems = ["mohawk"]
rounds.cloud_every_steps = 2
trace = { generator = "city", steps = 12, parameters = { presence = "always", devices = 6, step_s = 60 } }
fleet = { agents = 6, aps = 3 }
learning = { dataset = "digits", model = "mlp", images_per_device = 100, test_images = 50, local_epochs = 5 }
simulated = { workers = 2 }
"""
#: MOHAWK on the same trace without the fixes of devices that are told to be absent, by step.
TOLD = """
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from roambench.systems.mohawk import mohawk


def told(options):
    \"\"\"MOHAWK with more absences.\"\"\"
    system = mohawk(options)

    def association(trace, seed):
        absent = json.loads(Path(os.environ["ABSENCES"]).read_text())
        there = np.array([d not in absent[s] for s, d in zip(trace.step.tolist(), trace.device.tolist())])
        columns = {name: getattr(trace, name)[there] for name in ("step", "device", "x_m", "y_m")}
        return system.association(replace(trace, **columns), seed)

    return replace(system, name="told", association=association)
"""
BATTERY = """
[battery]
capacity_wh = 0.2
start = 0.5
start_spread = 0.6
cut_off = 0.1
back_at = 0.3
charging = "at_access_point"
charge_w = 1.5
"""


def played(base: Path, name: str, text: str, system: str = "mohawk") -> Path:
    """The folder of the finished run of an experiment."""
    file = base / f"{name}.toml"
    file.write_text(text)
    with command(base, "run", str(file), "--fleet", "simulated", "--runs-dir", str(base / name)) as process:
        ended(base, process)
    return base / name / "cells/latest" / system


def log_of(run: Path) -> EventLog:
    with RunFolder.open(run) as folder:
        return folder.read_log()


def trained(run: Path) -> list[tuple[int, int]]:
    return [(one.step, one.device) for one in log_of(run).only(OrderGiven) if one.kind == "train"]


def models_are_equal(one: Path, other: Path) -> bool:
    return bool((load_model(one / GLOBAL_MODEL) == load_model(other / GLOBAL_MODEL)).all())


def test_devices_without_charge_are_absent_until_they_are_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(tmp_path, "batteries", ROUNDS + BATTERY)
    seen = list(log_of(run).only(BatteriesSeen))
    came_back = {device for before, now in pairwise(seen) for device in set(before.off) - set(now.off)}
    assert len(came_back) >= 3
    assert all(
        set(opened.devices) == set(range(6)) - set(one.off)
        for opened, one in zip(log_of(run).only(StepOpened), seen, strict=True)
    )
    # The charges again, from the ledger of the finished run and the section's numbers.
    (found,) = read_runs([run])
    assert found.modelled is not None
    ledger, at = found.modelled.ledger, found.modelled.ledger.work.at_step
    charge = np.array(seen[0].charges)
    assert len(set(charge)) == 6
    assert ((charge >= 0.5 * 0.4) & (charge <= 0.5 * 1.6)).all()
    off: set[int] = set()
    for one in seen:
        assert one.charges == pytest.approx(charge.tolist(), abs=1e-9)
        off = {
            device for device in range(6) if charge[device] <= 0.1 or (device in off and charge[device] < 0.3)
        }
        assert set(one.off) == off
        for device in range(6):
            its = (at == one.step) & (ledger.device == device)
            drawn_j = float(ledger.gross_j[its].sum())
            if device in off:
                assert not its.any()
            else:
                idle_s = max(0.0, 60.0 - float(ledger.duration_s[its].sum()))
                drawn_j += found.modelled.power.of(device).idle_w * idle_s
            charge[device] = min(1.0, max(0.0, charge[device] + (1.5 * 60.0 - drawn_j) / 720.0))
    # A run whose trace has exactly these absences leaves the same model.
    points = {"roambench.systems": {"told": "pocket_bench.told:told"}}
    site = install(tmp_path, {"pocket_bench/told.py": TOLD}, points)
    monkeypatch.setenv("PYTHONPATH", str(site))
    (tmp_path / "absences.json").write_text(json.dumps([one.off for one in seen]))
    monkeypatch.setenv("ABSENCES", str(tmp_path / "absences.json"))
    absences = played(tmp_path, "absences", ROUNDS.replace('"mohawk"', '"told"'), "told")
    assert trained(absences) == trained(run)
    assert models_are_equal(absences, run)
    # The report has all of it.
    summary = summarise(found)
    assert summary.batteries is not None
    assert {death.back_step for death in summary.batteries.deaths} - {None}
    assert summary.batteries.lowest_charge == min(min(one.charges) for one in seen)
    keys = {table.key for table in detail_tables([summary])}
    assert {f"charge-{found.label}", f"deaths-{found.label}"} <= keys
    # A replay has the same devices off, and needs no batteries.
    orders = f'rounds.cloud_every_steps = 2\nrounds.orders = "replay:{run}"'
    again = played(tmp_path, "again", ROUNDS.replace("rounds.cloud_every_steps = 2", orders))
    assert list(log_of(again).only(BatteriesSeen)) == seen
    assert models_are_equal(again, run)


def test_a_killed_run_goes_on_with_the_charges_that_it_had(tmp_path: Path) -> None:
    whole = played(tmp_path, "whole", ROUNDS + BATTERY)
    begin = (
        "run",
        str(tmp_path / "whole.toml"),
        "--fleet",
        "simulated",
        "--runs-dir",
        str(tmp_path / "killed"),
    )
    run = tmp_path / "killed/cells/latest/mohawk"
    with command(tmp_path, *begin) as process:
        begun = lambda: rows(run, "BatteriesSeen") > 4 and (run / "checkpoint.json").is_file()  # noqa: E731
        killed_when(tmp_path, process, begun)
    with command(tmp_path, "resume", str(run)) as process:
        ended(tmp_path, process)
    assert rows(run, "RunResumed") == 1
    assert story(run) == story(whole)
    assert models_are_equal(run, whole)
