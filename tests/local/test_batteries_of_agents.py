"""Local agents on batteries: boards that are really off, and back with the models that they held."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from foreign_packages import install
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.energy.readings.timeline import partition_check
from roambench.report.summaries.evidence import read_runs
from roambench.report.summaries.notes import board_notes
from roambench.report.summaries.run import summarise
from roambench.rounds.records import (
    BatteriesSeen,
    BoardSwitched,
    EdgeAggregated,
    FleetEvent,
    OrderAnswered,
    OrderGiven,
    StepOpened,
)
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import account_run

from .resumed import command, ended, killed_when, rows
from .test_batteries import TOLD, log_of, models_are_equal, trained

pytestmark = pytest.mark.timeout(600)

ROUNDS = """
name = "cells"
seed = 5
systems = ["mohawk"]
rounds = { cloud_every_steps = 6, step_close = "trace:1", rest_s = 0.0 }
trace = { generator = "city", steps = 13, parameters = { presence = "always", devices = 6, step_s = 20 } }
fleet = { agents = 6, aps = 3 }
learning = { dataset = "digits", model = "mlp", images_per_device = 60, test_images = 50, local_epochs = 2 }
local = { time_scale = 5.0 }
energy = { idle_baseline_s = 2.0 }
"""
#: 180 J. A board that is on loses some 25 J in a step, one that is off gains 20 J.
BATTERY = """
[battery]
capacity_wh = 0.05
start = 0.55
start_spread = 0.4
cut_off = 0.3
back_at = 0.45
charging = "always"
charge_w = 1.0
"""


def file_of(base: Path, name: str, text: str) -> Path:
    file = base / f"{name}.toml"
    file.write_text(text)
    return file


def played(base: Path, name: str, text: str, fleet: str, system: str = "mohawk") -> Path:
    """The folder of the finished run of an experiment."""
    file = file_of(base, name, text)
    with command(base, "run", str(file), "--fleet", fleet, "--runs-dir", str(base / name)) as process:
        ended(base, process)
    return base / name / "cells/latest" / system


def told(base: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run on virtual devices without batteries, which was told who is absent."""
    points = {"roambench.systems": {"told": "pocket_bench.told:told"}}
    site = install(base, {"pocket_bench/told.py": TOLD}, points)
    monkeypatch.setenv("PYTHONPATH", str(site))
    (base / "absences.json").write_text(json.dumps([one.off for one in log_of(run).only(BatteriesSeen)]))
    monkeypatch.setenv("ABSENCES", str(base / "absences.json"))
    return played(base, "told", ROUNDS.replace('"mohawk"', '"told"'), "simulated", "told")


def test_boards_without_charge_are_off_and_come_back_with_their_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = played(tmp_path, "cells", ROUNDS + BATTERY, "local")
    log = log_of(run)
    seen = list(log.only(BatteriesSeen))
    back = [(now.step, d) for before, now in pairwise(seen) for d in set(before.off) - set(now.off)]
    assert len({device for _, device in back}) >= 3, [one.off for one in seen]
    # A device that was off had no order but to be absent; all were answered: no deadline was waited for.
    off = {(one.step, device) for one in seen for device in one.off}
    work = {o.order_id: o for o in log.only(OrderGiven) if o.kind not in ("idle", "discard")}
    assert not {(order.step, order.device) for order in work.values()} & off
    assert all(a.status == "done" for a in log.only(OrderAnswered)), list(log.only(OrderAnswered))
    assert not [event for event in log.only(FleetEvent) if event.kind == EventKind.SESSION_LOST]
    # Its process was another one afterwards, and its model was there still: it was uploaded and used.
    used = {order for one in log.only(EdgeAggregated) for order in one.train_order_ids}
    kept = [
        order
        for order in work.values()
        if order.kind == "upload"
        and order.train_order_id in used
        and any((step, order.device) in off for step in range(work[order.train_order_id].step, order.step))
    ]
    assert kept
    # The meter saw no load, and the ledger has the time: no joules, and no gap.
    with RunFolder.open(run) as folder:
        energy = account_run(folder, log)
    assert energy is not None
    dark_s = dict.fromkeys(range(6), 0.0)
    cut: dict[int, int] = {}
    for switch in log.only(BoardSwitched):
        if switch.on:
            dark_s[switch.device] += (switch.at_ns - cut.pop(switch.device)) * 1e-9
        else:
            cut[switch.device] = switch.at_ns
    assert not cut
    for index, device in enumerate(energy.devices):
        assert partition_check(device.spans, energy.start_ns, energy.end_ns) == []
        # That it started again is no note of the report.
        assert EventKind.AGENT_STARTED not in {note.kind for note in board_notes(device, energy.start_ns)}
        rows_off = [row for row in device.rows if row.phase is Phase.OFF]
        assert sum(row.duration_s for row in rows_off) == pytest.approx(dark_s[index], abs=1e-3)
        assert all(row.gross_j == 0.0 and row.covered_s == row.duration_s for row in rows_off)
        if dark_s[index]:
            lost_s = sum(span.duration_s for span in device.spans if span.phase is Phase.LOST)
            # Three seconds of a busy machine are fifteen of its boards.
            assert device.whole_run.gap_s <= lost_s + 15.0
            assert device.truth is not None
            assert device.whole_run.joules == pytest.approx(device.truth.whole_j, rel=0.05)
    # What left the batteries is what the meters saw.
    for before, now in pairwise(seen):
        for device in range(6):
            drawn_j = now.spent_j[device] - before.spent_j[device]
            gained_j = now.at_s - before.at_s if device in before.charging else 0.0
            charge = min(1.0, max(0.0, before.charges[device] + (gained_j - drawn_j) / 180.0))
            assert now.charges[device] == pytest.approx(charge, abs=1e-9)
    # A run that is told who is absent ends with the same model; so does a replay, whose boards are off, too.
    assert trained(told_run := told(tmp_path, run, monkeypatch)) == trained(run)
    assert models_are_equal(told_run, run)
    rounds = ROUNDS.replace("rest_s = 0.0", f'rest_s = 0.0, orders = "replay:{run}"')
    again = played(tmp_path, "again", rounds + BATTERY, "local")
    assert list(log_of(again).only(BatteriesSeen)) == seen
    switches = [(one.step, one.device, one.on) for one in log.only(BoardSwitched)]
    assert [(one.step, one.device, one.on) for one in log_of(again).only(BoardSwitched)] == switches
    assert models_are_equal(again, run)
    # The report has all of it.
    (found,) = read_runs([run])
    summary = summarise(found).batteries
    assert summary is not None
    assert len(summary.deaths) >= 3


def test_a_run_that_was_killed_while_boards_were_off_goes_on_with_their_charges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, "cells", ROUNDS + BATTERY)
    begin = ("run", str(file), "--fleet", "local", "--runs-dir", str(tmp_path / "cells"))
    run = tmp_path / "cells/cells/latest/mohawk"

    def begun() -> bool:
        return rows(run, "BoardSwitched") > 1 and (run / "checkpoint.json").is_file()

    with command(tmp_path, *begin) as process:
        killed_when(tmp_path, process, begun)
    before = list(log_of(run).only(BatteriesSeen))
    with command(tmp_path, "resume", str(run)) as process:
        ended(tmp_path, process)
    log = log_of(run)
    seen = list(log.only(BatteriesSeen))
    assert seen[: len(before) - 1] == before[:-1]
    assert [one.step for one in seen] == [one.step for one in log.only(StepOpened)]
    assert models_are_equal(told(tmp_path, run, monkeypatch), run)
