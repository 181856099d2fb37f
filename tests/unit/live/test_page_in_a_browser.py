"""The live page in a real Chromium, wide and narrow, light and dark: all of it is drawn, nothing is fetched
from elsewhere, and text of boards is shown, not obeyed."""

from __future__ import annotations

import inspect
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browser_tab import Browser, chromium
from roambench.contract.errors import RoambenchError
from roambench.contract.events import EventKind
from roambench.contract.phases import Outcome
from roambench.rounds.records import (
    BatteriesSeen,
    FleetEvent,
    MetricsScored,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    RoundRecord,
    StepClosed,
    StepOpened,
)
from roambench.runner.agents.watch import SILENT_STEPS, Answering
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from small_runs import folder_of, measured, swept
from watching import watching

pytestmark = pytest.mark.lengthy

FORMS = [(width, scheme) for width in (1400, 360) for scheme in ("light", "dark")]
EVIL = '<img src=x onerror="window.owned=1"><script>window.owned=1</script>'


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


def until(browser: Browser, expression: str, what: str) -> Any:
    deadline_s = time.monotonic() + 60
    while not (value := browser.value(expression)):
        assert time.monotonic() < deadline_s, (
            f"{what}: {browser.value('document.body.innerText')} {browser.faults}"
        )
        time.sleep(0.1)
    return value


def form(browser: Browser, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    wanted = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=wanted)


def opened(browser: Browser, address: str) -> None:
    browser.call("Page.navigate", url="about:blank")  # a page that was left open asks its dead server again
    browser.value("1")
    browser.requested.clear()
    browser.faults.clear()
    browser.call("Page.navigate", url=address)
    until(browser, "document.body && document.body.dataset.drawn", "the page draws nothing")


def text(browser: Browser, element: str) -> str:
    return str(browser.value(f"document.getElementById({element!r}).innerText"))


#: Of each canvas: whether anything is on it.
_PAINTED = """
JSON.stringify(Object.fromEntries([...document.querySelectorAll("canvas")].filter(c => c.clientWidth).map(
  c => [c.id, c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(v => v)])))
"""
_NAMELESS = 'document.querySelectorAll("canvas:not([aria-label]):not([hidden])").length'
_SOMEBODY_TRAINS = 'document.getElementById("boards").innerText.includes("training")'
#: What is there once the page is drawn, live or the list; what reaches beyond the paper's width.
_SHOWN = '!!(document.body.dataset.drawn || document.querySelector("#runs a"))'
_BEYOND = """
JSON.stringify([...document.querySelectorAll("main *")].filter(one => !one.closest(".unseen")
  && one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
  .map(one => one.outerHTML.slice(0, 120)))
"""
_WIDER = "document.documentElement.scrollWidth - window.innerWidth"
#: Pixels between the choice of a board and the chart, whose first words are what its axis shows.
_CLEAR = """
document.getElementById("power").getBoundingClientRect().top
  - document.getElementById("power-board").getBoundingClientRect().bottom
"""


@pytest.mark.timeout(600)
def test_all_of_it_is_drawn_in_each_form_and_nothing_is_fetched_elsewhere(
    browser: Browser, tmp_path: Path
) -> None:
    measured(tmp_path / "runs/mohawk")
    with watching(tmp_path / "runs") as server:
        backgrounds = set()
        for width, scheme in FORMS:
            form(browser, width, scheme)
            opened(browser, server.address)
            painted = json.loads(browser.value(_PAINTED))
            assert painted == dict.fromkeys(
                ("accuracy-steps", "accuracy-joules", "power", "outcomes", "map"), True
            )
            assert browser.value(_WIDER) <= 0, (width, scheme)
            assert browser.value(_CLEAR) >= 6, (width, scheme)
            assert "124 J" in text(browser, "tiles").replace("\n", " ")
            assert "provisional" in text(browser, "tiles")
            backgrounds.add(browser.value("getComputedStyle(document.body).backgroundColor"))
            assert browser.value(_NAMELESS) == 0
            assert all(url.startswith((server.address, "data:")) for url in browser.requested)
            assert browser.faults == []
        assert len(backgrounds) == 2
        opened_runs = server.address + "runs"
        browser.call("Page.navigate", url=opened_runs)
        until(browser, 'document.querySelector("#runs a") !== null', "no run is listed")
        assert "mohawk" in text(browser, "runs")
        assert "50.0 %" in text(browser, "runs")
        for width, scheme in FORMS:
            form(browser, width, scheme)
            assert browser.value(_WIDER) <= 0, (width, scheme)
        for address in (server.address, opened_runs):  # on A4, between margins of 14 mm
            form(browser, 688, "light")
            browser.call("Page.navigate", url=address)
            until(browser, _SHOWN, "nothing is shown")
            browser.call("Emulation.setEmulatedMedia", media="print")
            assert json.loads(browser.value(_BEYOND)) == [], address
            browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.timeout(600)
def test_names_of_a_sweeps_runs_can_be_read_and_no_figure_leaves_its_tile(
    browser: Browser, tmp_path: Path
) -> None:
    swept(tmp_path / "a-sweep-of-a-long-name")
    orders = [OrderGiven(0, 0, f"t{number}", "train", 0) for number in range(20_000)]
    wasted = [OutcomeDecided(0, 0, order.order_id, Outcome.WASTED, "absent") for order in orders]
    big = folder_of(tmp_path / "big", "rehearsal", [StepOpened(0, (0,), (0,), (9.0,))])
    big.journal.extend([*orders, *wasted, StepClosed(0, 0, (), (), 0.5, 1.0, 1.0)])
    big.close(RunState.FINISHED)
    with watching(tmp_path) as server:
        for width, scheme in FORMS:
            form(browser, width, scheme)
            browser.call("Page.navigate", url=server.address + "runs")
            until(browser, "document.querySelectorAll('#runs tr').length === 5", "no runs are listed")
            narrowest = "Math.min(...[...document.querySelectorAll('#runs th')].map(it => it.clientWidth))"
            assert browser.value(narrowest) >= 200
            opened(browser, server.address + "?run=big")
            tiles = "[...document.querySelectorAll('.tile')].filter(it => it.scrollWidth > it.clientWidth)"
            assert browser.value(f"{tiles}.map(it => it.innerText).join()") == ""


def test_a_run_grows_on_the_page_and_can_be_looked_back_at(browser: Browser, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", "local", [])
    form(browser, 1400, "light")
    with watching(tmp_path / "run") as server:
        opened(browser, server.address)
        assert "getting ready" in text(browser, "lead")
        for step, accuracy in enumerate((0.25, 0.5, 0.75)):
            present = (0, 1)[: step + 1]
            folder.journal.append(StepOpened(step, present, (0, 0)[: step + 1], (5.0, 5.0)[: step + 1]))
            folder.journal.append(OrderGiven(step, 0, f"t{step}", "train", 0))
            until(browser, _SOMEBODY_TRAINS, "nobody trains")
            folder.journal.append(OrderAnswered(step, 0, f"t{step}", "done"))
            folder.journal.append(StepClosed(step, 0, (), (), accuracy, 1.0, 1.0))
            shown = f"{100 * accuracy:.1f}"
            until(browser, f'document.getElementById("tiles").innerText.includes("{shown}")', shown)
        browser.call(
            "Runtime.evaluate",
            expression="""
            const slider = document.getElementById("slider");
            slider.value = 0; slider.dispatchEvent(new Event("input"));
        """,
        )
        assert "25.0" in text(browser, "tiles")
        assert "replayed" in text(browser, "lead")
        assert "trained" in text(browser, "boards")
        browser.call("Runtime.evaluate", expression='document.getElementById("live").click()')
        assert "75.0" in text(browser, "tiles")
        folder.close(RunState.FINISHED)
        until(browser, 'document.getElementById("state").innerText === "finished"', "the end is not told")


@pytest.mark.timeout(600)
def test_a_run_on_batteries_shows_charges_and_who_is_off(browser: Browser, tmp_path: Path) -> None:
    steps = [((0.5, 0.9), ()), ((0.04, 0.8), (0,)), ((0.3, 0.7), ())]
    records: list[RoundRecord] = []
    for step, (charges, off) in enumerate(steps):
        there = tuple(device for device in (0, 1) if device not in off)
        records.append(StepOpened(step, there, (0,) * len(there), (5.0,) * len(there)))
        records.append(BatteriesSeen(step, charges, (0.0, 0.0), (0.0, 0.0), (), off))
        records.append(StepClosed(step, 0, (0,) if step == 0 else (), (), 0.5, 1.0, 1.0))
    folder = folder_of(tmp_path / "run", "local", records)
    with watching(tmp_path / "run") as server:
        for width, scheme in FORMS:
            form(browser, width, scheme)
            opened(browser, server.address)
            until(browser, 'document.getElementById("charge").clientWidth', "no panel")
            assert json.loads(browser.value(_PAINTED))["charge"]
            assert browser.value(_WIDER) <= 0, (width, scheme)
        assert "50 %" in text(browser, "tiles").replace("\u00a0", " ")
        assert "charge 30 %" in text(browser, "boards").replace("\u00a0", " ")
        shown = text(browser, "events")
        assert "off at 4%, with a model that no access point has" in shown
        assert "back at 30%" in shown
        assert text(browser, "charge-caption").endswith("so far: 1 times; models lost with it: 0.")
        look_back = (
            'const s = document.getElementById("slider"); s.value = 1; s.dispatchEvent(new Event("input"))'
        )
        browser.call("Runtime.evaluate", expression=look_back)
        until(
            browser,
            'document.getElementById("boards").innerText.includes("off: no charge")',
            "none is off",
        )
        assert "charge 4 %" in text(browser, "boards").replace("\u00a0", " ")
        assert browser.faults == []
    folder.close(RunState.FINISHED)


@pytest.mark.timeout(600)
def test_the_metric_of_a_task_without_classes_stands_in_accuracys_place(
    browser: Browser, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path / "run", "local", [])
    form(browser, 1400, "light")
    with watching(tmp_path / "run") as server:
        opened(browser, server.address)
        for step, rmse in enumerate((61.25, -58.5)):
            folder.journal.append(StepOpened(step, (0,), (0,), (5.0,)))
            folder.journal.append(MetricsScored(step, ("rmse", "R2"), (rmse, 0.5), ("lower", "higher")))
            folder.journal.append(StepClosed(step, 0, (), (), None, 1.0, 1.0))
            until(browser, f'document.getElementById("tiles").innerText.includes("{rmse:g}")', "no rmse")
        assert "lower is better" in text(browser, "tiles")
        assert text(browser, "score-steps") == "Rmse over steps"
        assert "accuracy" not in str(browser.value("document.body.innerText")).lower()
        label = browser.value('document.getElementById("accuracy-steps").getAttribute("aria-label")')
        assert label == "Rmse over steps, 2 points, the last -58.5"
        assert browser.faults == []
        folder.close(RunState.FINISHED)


@pytest.mark.timeout(600)
def test_text_of_boards_is_shown_as_it_is(browser: Browser, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", "local", [StepOpened(0, (0,), (0,), (5.0,))])
    folder.journal.append(OrderGiven(0, 0, "t", "train", 0))
    folder.journal.append(OrderAnswered(0, 0, "t", "failed", EVIL))
    folder.journal.append(FleetEvent(0, -1, EVIL, EventKind.SESSION_REFUSED, EVIL))
    folder.update(device_names=(EVIL, "pi-02"), system=EVIL, doubts=(EVIL,), run_id=EVIL)
    with watching(tmp_path / "run") as server:
        opened(browser, server.address)
        for element in ("run", "lead", "doubts", "boards", "grave", "events", "accuracy-key", "footer"):
            assert "<img src=x" in text(browser, element), element
        browser.call("Page.navigate", url=server.address + "runs")
        until(browser, 'document.querySelector("#runs a") !== null', "no run is listed")
        assert "<img src=x" in text(browser, "runs")
        assert browser.value("window.owned === undefined")
        assert browser.value('document.querySelectorAll("main img, main script").length') == 0
    folder.close(RunState.FINISHED)


@pytest.mark.timeout(600)
def test_a_board_in_a_quiet_run_is_quiet_not_lost(browser: Browser, tmp_path: Path) -> None:
    measured(tmp_path / "run")
    with RunFolder.open(tmp_path / "run", write=True) as folder:
        experiment = json.loads((tmp_path / "run/experiment.json").read_text())
        experiment["energy"]["quiet"] = True
        (tmp_path / "run/experiment.json").write_text(json.dumps(experiment))
        folder.update(state=RunState.RUNNING)
        folder.journal.append(StepOpened(1, (0,), (0,), (5.0,)))
        folder.journal.append(OrderGiven(1, 0, "t1", "train", 0))
        with watching(tmp_path / "run") as server:
            opened(browser, server.address)
            board = text(browser, "boards").lower()
            assert "training" in board
            assert "quiet: last reading" in board
            assert "lost" not in board
            assert "sends nothing while it rests, downloads" in text(browser, "boards-caption")


#: A process that writes a run and holds its lock, until it is killed.
_WRITER = """
import sys, time
from pathlib import Path
from small_runs import folder_of
from roambench.rounds.records import StepOpened
folder = folder_of(Path(sys.argv[1]), "local", [StepOpened(0, (0,), (0,), (5.0,))])
print("written", flush=True)
time.sleep(600)
"""


@pytest.mark.timeout(600)
def test_a_run_that_is_killed_is_interrupted_within_seconds(browser: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITER, str(tmp_path / "run")]
    support = {**os.environ, "PYTHONPATH": str(Path(inspect.getfile(Browser)).parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=support) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        with watching(tmp_path / "run") as server:
            opened(browser, server.address)
            assert text(browser, "state") == "running"
            writer.kill()
            writer.wait()
            until(browser, 'document.getElementById("state").innerText === "interrupted"', "its end")
            assert "the process that ran it is gone" in text(browser, "lead")
            assert "roambench resume" in text(browser, "lead")
            assert "run is over" in text(browser, "boards")


def error_of_the_run(folder: RunFolder) -> None:
    raise ValueError("the learning rate is not a number")


def full_disk(folder: RunFolder) -> None:
    """SQLite's own answer where no page more fits; a disk that is full also keeps run.json as it was."""
    connection = folder.journal._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    for order in range(10_000):
        folder.journal.append(OrderGiven(0, 0, f"t{order}", "train", 0))


def lost_agents(folder: RunFolder) -> None:
    fleet = Answering()
    for step in range(SILENT_STEPS):
        records: list[RoundRecord] = [
            FleetEvent(step, 0, "pi-01", EventKind.SESSION_LOST, "no word for 10 s")
        ]
        records += [OrderGiven(step, 0, f"t{step}", "train", 0), OrderAnswered(step, 0, f"t{step}", "lost")]
        for record in [*records, StepClosed(step, 0, (), (), None, math.nan, 1.0)]:
            folder.journal.append(record)
            fleet.follow(record)


WAYS: list[tuple[Callable[[RunFolder], None], str]] = [
    (error_of_the_run, "the learning rate is not a number"),
    (full_disk, "events.sqlite: the disk is full; free some space"),
    (lost_agents, "the fleet is gone: no agent answered in 3 steps in a row, from step 1 on"),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("end", "reason"), WAYS, ids=lambda of: getattr(of, "__name__", ""))
def test_a_run_that_fails_says_why_on_the_page(
    end: Callable[[RunFolder], None], reason: str, browser: Browser, tmp_path: Path
) -> None:
    form(browser, 1400, "light")
    folder = folder_of(tmp_path / "run", "local", [StepOpened(0, (0,), (0,), (5.0,))])
    with watching(tmp_path / "run") as server:
        opened(browser, server.address)
        assert text(browser, "state") == "running"
        with pytest.raises((ValueError, RoambenchError)), folder:
            end(folder)
        until(browser, 'document.getElementById("state").innerText === "failed"', "its end")
        assert reason in text(browser, "lead")
        assert reason in text(browser, "grave")
        assert reason in text(browser, "events")
        if end is lost_agents:
            assert "no word for 10 s" in text(browser, "events")
        browser.call("Page.navigate", url=server.address + "runs")
        until(browser, 'document.querySelector("#runs a") !== null', "no run is listed")
        assert "failed" in text(browser, "runs")


@pytest.mark.timeout(600)
def test_when_nobody_serves_it_any_more_the_page_says_so_and_keeps_what_it_has(
    browser: Browser, tmp_path: Path
) -> None:
    measured(tmp_path / "run")
    with watching(tmp_path / "run") as server:
        opened(browser, server.address)
    until(browser, 'document.getElementById("link").innerText.includes("no connection")', "no connection")
    assert "124 J" in text(browser, "tiles")
