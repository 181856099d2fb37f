"""What is sent of a run: changes add up to the whole, and the sums are those of the report."""

from __future__ import annotations

import itertools
import json
import math
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.contract.records import Reading, RecordKind, phase_to_bytes
from roambench.live.folders import WatchedFolder
from roambench.live.ghost import ghost_of
from roambench.live.messages import RunMessages, encoded
from roambench.live.view import RunView
from roambench.meters.traits import MeterDescription
from roambench.mobility.files import write_trace
from roambench.mobility.walks import GENERATORS
from roambench.rounds.records import (
    ClockProbed,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RunResumed,
    StepClosed,
    StepOpened,
)
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.modelled.accounts import modelled_account
from roambench.spool.record_context import RecordContext
from small_runs import S, folder_of, measured, simulated


def updates_of(message: dict[str, Any]) -> dict[int, list[Any]]:
    """By number: device, step, outcome, steps until it was decided, why, joules."""
    sent = message.get("updates")
    if not sent:
        return {}
    columns = [list(itertools.accumulate(sent[name])) for name in ("device", "step")]
    columns += [sent["outcome"], sent["after"], [sent["reasons"][why] for why in sent["why"]], sent["joules"]]
    rows = zip(*columns, strict=True)
    return {number: list(row) for number, row in zip(itertools.accumulate(sent["number"]), rows, strict=True)}


class Page:
    """What a page knows after the messages that it got, by the same rules as live.js."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def apply(self, message: dict[str, Any]) -> None:
        message = json.loads(json.dumps(message, allow_nan=False))
        if message.get("whole"):
            self.known = {}
        for name in ("steps", "places", "links", "boards"):
            self.known.setdefault(name, {}).update({row[0]: row for row in message.get(name, ())})
        self.known.setdefault("updates", {}).update(updates_of(message))
        self.known.setdefault("cells", {}).update({tuple(row[:2]): row for row in message.get("cells", ())})
        self.known.setdefault("events", []).extend(message.get("events", ()))
        for device, width_s, first, means in message.get("power", ()):
            curve = self.known.setdefault("power", {}).setdefault(device, (width_s, []))
            self.known["power"][device] = (width_s, curve[1][:first] + means)
        if "head" in message:
            self.known["head"] = message["head"]


_OPENED: list[RunView] = []


def opened(path: Path, *clock: Callable[[], float]) -> RunView:
    """A view that is closed at the end of the test."""
    _OPENED.append(RunView(path, *clock))
    return _OPENED[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _OPENED:
        _OPENED.pop().close()


def looked_at(view: RunView) -> RunView:
    while view.look():
        pass
    return view


@pytest.mark.parametrize("seed", range(5))
def test_changes_add_up_to_the_whole(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    folder = folder_of(tmp_path / "run", "local", [])
    folder.update(start_device_ns=0)
    view, page = opened(tmp_path / "run"), Page()
    messages = RunMessages(view)
    page.apply(messages.whole())
    at_s, pending = 0, list[str]()
    for step in range(8):
        folder.journal.append(StepOpened(step, (0, 1), (0, 1), (5.0, 6.0)))
        for device, name in enumerate(folder.info.device_names):
            order = f"{step}/{device}"
            folder.journal.append(OrderGiven(step, device, order, "train", device))
            pending.append(order)
            rows = [
                (RecordKind.READING, Reading((at_s + k) * S, 5.0, 0.4, draw.uniform(1, 4)).to_bytes())
                for k in range(10)
            ]
            span = PhaseSpan(name, "b", Phase.TRAIN, step, at_s * S, (at_s + 10) * S, order, order)
            rows.append((RecordKind.PHASE, phase_to_bytes(span)))
            first = step * len(rows)
            folder.records.insert(name, "s", [(first + k, *row) for k, row in enumerate(rows)])
            if draw.random() < 0.5:
                looked_at(view)
                page.apply(messages.changes())
            folder.journal.append(OrderAnswered(step, device, order, draw.choice(["done", "lost"])))
        for order in [order for order in pending if draw.random() < 0.6]:
            pending.remove(order)
            outcome = draw.choice([Outcome.AGGREGATED, Outcome.WASTED])
            folder.journal.append(OutcomeDecided(step, int(order[-1]), order, outcome, "absent"))
        at_s += 10
        folder.journal.append(StepClosed(step, 1, (), (), draw.random(), math.nan, 2.0))
        if draw.random() < 0.7:
            looked_at(view)
            page.apply(messages.changes())
    folder.close(RunState.FINISHED)
    looked_at(view)
    page.apply(messages.changes())
    fresh = Page()
    later = RunMessages(looked_at(opened(tmp_path / "run")))
    fresh.apply(later.whole())
    assert sorted(fresh.known["places"]) == [6, 7]  # the step that is shown, and the one before
    for step in range(8):
        page.apply(messages.step(step))
        fresh.apply(later.step(step))
    for boards in (page.known["boards"], fresh.known["boards"]):
        for row in boards.values():
            row[2] = row[7] = None  # since when, and the reading's age: by the reader's own clock
    assert page.known == fresh.known
    assert page.known["head"]["state"] == "finished"
    assert len(page.known["updates"]) == 16


def test_the_first_message_of_a_thousand_devices_in_744_steps_is_below_5_mb(tmp_path: Path) -> None:
    """All are present all the time and train in each step; a browser takes it zipped."""
    trace = GENERATORS.load("city").generate(1, {"devices": 1000, "steps": 744, "presence": "always"})
    folder = folder_of(tmp_path / "run", "rehearsal", [])
    write_trace(trace, tmp_path / "run/trace.parquet")
    folder.update(device_names=trace.device_names)
    draw = random.Random(1)
    view = looked_at(opened(tmp_path / "run"))
    for step in range(744):
        devices = trace.device[trace.rows(step)].tolist()
        view.history.add(StepOpened(step, tuple(devices), (step % 20,) * 1000, (0.0,) * 1000))
        for device in devices:
            view.history.add(OrderGiven(step, device, f"{step}/{device}", "train", 0))
        for device in devices if step else ():
            wasted = draw.random() < 0.2
            outcome, reason = (Outcome.WASTED, "absent") if wasted else (Outcome.AGGREGATED, "")
            view.history.add(OutcomeDecided(step, device, f"{step - 1}/{device}", outcome, reason))
    for update in view.history.updates:
        view.boards[update.device].by_update[update.order_id] = draw.uniform(50.0, 150.0)
    messages = RunMessages(view)
    whole = messages.whole()
    assert len(zlib.compress(encoded(whole).encode(), level=1)) < 3_500_000
    assert updates_of(whole)[743_001] == [1, 743, 0, -744, "", pytest.approx(100.0, abs=50.0)]
    assert len(encoded(messages.step(300))) < 100_000
    assert [row[10] for row in whole["steps"]] == [1000] * 744
    [corner, opposite] = whole["head"]["bounds"]
    for _, devices, _, x_m, y_m in messages.step(300)["places"]:
        assert len(devices) == 1000
        assert (min(x_m), min(y_m)) >= (corner[0], corner[1])
        assert max(x_m) <= opposite[0]
        assert max(y_m) <= opposite[1]
    folder.close(RunState.FINISHED)


def test_a_resumed_run_is_read_anew_and_void_steps_are_gone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", "local", [])
    for record in (StepOpened(0, (0,), (0,), (5.0,)), StepClosed(0, 0, (), (), 0.1, 1.0, 1.0)):
        folder.journal.append(record)
    for record in (StepOpened(1, (0, 1), (0, 0), (5.0, 5.0)), OrderGiven(1, 0, "t", "train", 0)):
        folder.journal.append(record)
    view = looked_at(opened(tmp_path / "run"))
    assert sorted(view.history.steps) == [0, 1]
    folder.journal.append(RunResumed(1, 0, 12.0))
    looked_at(view)
    assert view.resets == 1
    assert sorted(view.history.steps) == [0]
    assert view.history.updates == []
    assert [event.kind for event in view.history.happenings] == ["resumed"]
    folder.close(RunState.FINISHED)


def test_measured_joules_are_the_trapezoid_of_the_run(tmp_path: Path) -> None:
    measured(tmp_path / "run")  # 60 s at 2 W
    view = looked_at(opened(tmp_path / "run"))
    assert view.joules == pytest.approx(120.0, abs=5.0)  # readings go on for 2 s
    assert view.joules_by_step() == pytest.approx({-1: 20.0, 0: 100.0})
    assert view.watts == 2.0


def test_modelled_joules_are_those_of_the_ledger(tmp_path: Path) -> None:
    simulated(tmp_path / "run")
    view = looked_at(opened(tmp_path / "run"))
    with RunFolder.open(tmp_path / "run") as folder:
        account = modelled_account(folder, folder.read_log())
    assert account is not None
    assert view.joules == pytest.approx(account.ledger.total("gross").joules)
    done_in = account.ledger.work.at_step
    by_step = {step: account.ledger.gross_j[done_in == step].sum() for step in (0, 1)}
    assert view.joules_by_step() == pytest.approx(by_step)


def test_a_run_whose_process_is_gone_is_said_to_be_interrupted(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", "local", [StepOpened(0, (0,), (0,), (5.0,))])
    now_s = [1000.0]
    view = looked_at(opened(tmp_path / "run", lambda: now_s[0]))
    assert view.info.state is RunState.RUNNING
    folder.close()  # without a word, as a kill does
    looked_at(view)
    assert view.info.state is RunState.RUNNING  # too early to ask
    now_s[0] += 10.0
    looked_at(view)
    assert view.info.state is RunState.INTERRUPTED
    assert RunMessages(view).changes()["head"]["reason"] == "the process that ran it is gone"


def test_reading_a_run_writes_nothing_into_its_folder(tmp_path: Path) -> None:
    measured(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    RunMessages(looked_at(opened(tmp_path / "run"))).whole()
    after = {path for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {path.name for path in after - before.keys()} <= {
        f"{name}.sqlite-{kind}" for name in ("events", "records") for kind in ("wal", "shm")
    }
    assert all(path.read_bytes() == data for path, data in before.items())


def test_the_run_before_is_the_ghost(tmp_path: Path) -> None:
    measured(tmp_path / "a")
    simulated(tmp_path / "b")
    folder = WatchedFolder(tmp_path)
    ghost = ghost_of(folder.run("a"))
    assert ghost["name"] == "a"
    assert ghost["rows"] == [[0, 0.5, 120.0, 0.0, 0]]
    assert ghost_of(None) == {}


def test_readings_of_a_clock_that_nobody_probed_are_in_no_curve(tmp_path: Path) -> None:
    """A board counts from its own boot; its joules count all the same."""
    folder = folder_of(tmp_path / "run", "bench", [])
    folder.update(start_device_ns=1000 * S)
    context = RecordContext("boot", "0/1.0", 0).to_event(0).to_bytes()
    rows = [(RecordKind.EVENT, context)]
    rows += [(RecordKind.READING, Reading((7000 + k) * S, 5.0, 0.4, 2.0).to_bytes()) for k in range(11)]
    folder.records.insert("pi-01", "s", [(number, *row) for number, row in enumerate(rows)])
    view = looked_at(opened(tmp_path / "run"))
    assert view.boards[0].power.means() == []
    assert view.joules == pytest.approx(20.0)
    folder.journal.append(ClockProbed(-1, 0, "hello", "boot", 900 * S, 5990.0 * S, 1e6, 8, ()))
    rows = [Reading((7011 + k) * S, 5.0, 0.4, 3.0).to_bytes() for k in range(4)]
    folder.records.insert("pi-01", "s", [(50 + k, RecordKind.READING, row) for k, row in enumerate(rows)])
    looked_at(view)
    assert view.boards[0].power.means()[-2:] == [3.0, 3.0]  # 21 to 24 s after the begin
    assert len(view.boards[0].power.means()) == 13
    # A clock that is years off would squeeze all that was read into one mean.
    years = Reading(10**9 * S, 5.0, 0.4, 2.0).to_bytes()
    folder.records.insert("pi-01", "s", [(99, RecordKind.READING, years)])
    looked_at(view)
    assert len(view.boards[0].power.means()) == 13
    folder.close(RunState.FINISHED)


@pytest.mark.parametrize("reader", ["pi-02", "controller"])
def test_what_another_host_reads_is_drawn_and_booked_to_the_boards_own_phases(
    tmp_path: Path, reader: str
) -> None:
    """The board's clock is 6000 s ahead of the controller's, that of pi-02 2000 s."""
    folder = folder_of(tmp_path / "run", "bench", [])
    folder.update(start_device_ns=1000 * S)
    there_s = 3000 if reader == "pi-02" else 1000
    context = RecordContext("there", "0/1.0", 0).to_event(0).to_bytes()
    meter = MeterDescription("smartpower2", "x", "smartpower2", 1.0, remote_reader=reader).to_event(0)
    rows = [(RecordKind.EVENT, context), (RecordKind.EVENT, meter.to_bytes())]
    rows += [(RecordKind.READING, Reading((there_s + k) * S, 5.0, 0.4, 2.0).to_bytes()) for k in range(41)]
    spans = [
        PhaseSpan("pi-01", "here", Phase.TRAIN, 0, 7010 * S, 7030 * S, "t", "t"),
        PhaseSpan("pi-01", "here", Phase.IDLE, 0, 7030 * S, 7040 * S),
    ]
    own = [(RecordKind.EVENT, RecordContext("here", "0/1.0", 0).to_event(0).to_bytes())]
    own += [(RecordKind.PHASE, phase_to_bytes(span)) for span in spans]
    view, page = opened(tmp_path / "run"), Page()
    messages = RunMessages(view)
    page.apply(messages.whole())
    folder.journal.append(ClockProbed(-1, 0, "hello", "here", 900 * S, 6000.0 * S, 1e6, 8, ()))
    folder.journal.append(ClockProbed(-1, 1, "hello", "there", 900 * S, 2000.0 * S, 1e6, 8, ()))
    for spool, records in (("own", own), ("read elsewhere", rows)):
        folder.records.insert("pi-01", spool, [(number, *row) for number, row in enumerate(records)])
        looked_at(view)
        page.apply(messages.changes())
    assert page.known["power"][0] == (2.0, [2.0] * 21)
    assert view.joules == pytest.approx(80.0)
    assert view.boards[0].cells[0].joules == pytest.approx(60.0)  # 10 to 40 s after the begin
    assert view.boards[0].by_update == pytest.approx({"t": 40.0})
    assert (0, 0) in page.known["cells"]
    folder.close(RunState.FINISHED)


def test_orders_of_devices_that_the_run_does_not_have_break_nothing(tmp_path: Path) -> None:
    records = [StepOpened(0, (0, 99), (0, 0), (5.0, 5.0)), OrderGiven(0, 99, "t", "train", 0)]
    folder = folder_of(tmp_path / "run", "local", records)
    view = looked_at(opened(tmp_path / "run"))
    assert RunMessages(view).whole()["updates"] == {}
    assert [view.outcome_joules(outcome) for outcome in Outcome] == [0.0] * len(Outcome)
    folder.close(RunState.FINISHED)
