"""What a quiet agent sends, seen by a proxy: nothing while something is measured, whether watched or not."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from forked_commands import Command
from roambench.contract.device_time import DeviceClock
from roambench.contract.phases import Phase
from roambench.energy.integrate import GAP_PERIODS
from roambench.live.view import RunView
from roambench.rounds.records import EdgeAggregated
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import account_run
from watching import Watching, watching

from .conftest import QUIET_DRIVE, until

EXPERIMENT = """
name = "watched"
seed = 11
systems = ["mohawk"]
trace.generator = "city"
trace.window = "first"
trace.steps = 4
trace.parameters = { presence = "always", devices = 1, steps = 6, places = 200, aps = 20 }
fleet = { agents = 1, aps = 5 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 200 }
rounds = { rest_s = 0.0 }
local = { time_scale = 4.0, sgd_step_s = 0.3 }
energy = { idle_baseline_s = 3.0, quiet = true }
"""
MEASURED = (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD)


class Watched:
    """One run, its control connection led through a proxy that counts."""

    def __init__(self, path: Path, *overrides: str) -> None:
        path.mkdir()
        (path / "watched.toml").write_text(EXPERIMENT)
        self._latest = path.parent / "runs" / "watched/latest"
        self.log = path / "bytes.log"
        self._said = path / "log"
        words = [str(self.log), str(path / "watched.toml"), str(path.parent / "runs"), *overrides]
        with self._said.open("ab") as out:
            self.process = Command(words, path, out.fileno(), self._said, script=QUIET_DRIVE)

    def finish(self) -> None:
        assert self.process.wait(400) == 0, self._said.read_text()
        self.folder = self._latest.resolve() / "mohawk"

    def moved(self) -> list[tuple[str, int, int]]:
        """Return each phase in which a model may move, its step, and the bytes that the agent counted."""
        with RunFolder.open(self.folder) as folder:
            spans = folder.records.spans("pi-01")
        return [
            (s.phase, s.step, s.transferred_bytes) for s in spans if s.phase in (Phase.DOWNLOAD, Phase.UPLOAD)
        ]

    def said(self) -> Iterator[tuple[int, str, int]]:
        """What passed the control connection: device time, direction, bytes."""
        agent = json.loads((self.folder / "agents.json").read_text())["agents"][0]
        clock = DeviceClock(agent["epoch_ns"], agent["time_scale"])
        for line in self.log.read_text().splitlines():
            ns, direction, size = line.split()
            yield clock.from_host_ns(int(ns)), direction, int(size)

    def said_while_measured(self) -> Counter[str]:
        """Bytes on the control connection in measured phases, by direction."""
        with RunFolder.open(self.folder) as folder:
            spans = [span for span in folder.records.spans("pi-01") if span.phase in MEASURED]
        assert len(spans) == 9
        found = Counter[str]()
        for at_ns, direction, size in self.said():
            if any(span.start_ns <= at_ns < span.end_ns for span in spans):
                found[direction] += size
        return found

    def digests(self) -> list[str]:
        with RunFolder.open(self.folder) as folder:
            return [record.digest for record in folder.read_log().only(EdgeAggregated)]


@contextmanager
def pages(folder: Path, got: Sequence[list[dict[str, Any]]]) -> Iterator[Watching]:
    """A page for each of `got`, which gets its messages, open for as long as the body runs."""
    with watching(folder) as server:

        def read(into: list[dict[str, Any]]) -> None:
            with suppress(OSError, HTTPException), server.stream() as messages:
                into.extend(messages)

        readers = [threading.Thread(target=read, args=(into,), daemon=True) for into in got]
        for reader in readers:
            reader.start()
        yield server
    for reader in readers:
        reader.join(60)


def saw_the_end(messages: list[dict[str, Any]]) -> bool:
    """Return true if a page had the run while it went on, and how it ended."""
    states = [message["head"]["state"] for message in messages if "head" in message]
    return "running" in states and states[-1] == "finished"


@pytest.mark.timeout(600)
def test_agents_send_the_same_bytes_whether_anybody_watches_or_not(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    alone = Watched(tmp_path / "alone")
    alone.finish()
    got = [list[dict[str, Any]]() for _ in range(5)]
    # Open before the run begins, on the one before it: on a busy machine pages take long to start.
    with pages(tmp_path / "runs", got) as server:
        until(lambda: all(got), 60, "a first message on all pages")
        watched = Watched(tmp_path / "watched")
        watched.finish()
        until(lambda: all(saw_the_end(messages) for messages in got), 60, "the end of the run on all pages")
        process = psutil.Process(server.process.pid)
        peers = {link.raddr.port for link in process.net_connections("inet") if link.raddr}
        held = [file for file in process.open_files() if file.path.startswith(str(watched.folder))]
        own = {link.laddr.port for link in psutil.Process().net_connections("inet")}
        assert peers <= own  # the pages, which are this test's: no agent, no controller
        assert {Path(file.path).name for file in held} >= {"events.sqlite", "records.sqlite"}
        assert [file.path for file in held if file.path.endswith(".sqlite") and file.mode != "r"] == []
    assert watched.moved() == alone.moved()
    assert len(alone.moved()) == 6
    sent = [size for phase, _, size in alone.moved() if phase == Phase.UPLOAD]
    assert len(sent) == 3
    assert min(sent) > 9_000  # a whole model each
    assert alone.said_while_measured() == watched.said_while_measured() == Counter()
    assert watched.digests() == alone.digests()
    assert alone.digests()
    # What the page calls provisional is the report's trapezoid up to the newest reading. They may differ by
    # how late lines come, which the page does not take off, and by what it leaves out where none came.
    view = RunView(watched.folder)
    request.addfinalizer(view.close)
    while view.look():
        pass
    with RunFolder.open(watched.folder) as folder:
        account = account_run(folder, folder.read_log())
    assert account is not None
    (board,) = account.devices
    curve, readings = board.account.curve, board.readings
    until_ns = min(int(readings.ns[-1]), curve.end_ns)
    reached_j = curve.joules_between(np.array([curve.start_ns]), np.array([until_ns])).item()
    apart_s = np.diff(readings.ns) * 1e-9
    left_out_s = apart_s[apart_s > GAP_PERIODS].sum()
    # Two lines late by a period, one at either end of a phase.
    apart_j = 2.0 * apart_s.max() * np.ptp(readings.watts) + left_out_s * readings.watts.max()
    assert view.joules == pytest.approx(reached_j, abs=apart_j)
    assert view.joules > 20  # no bound is so wide that nothing would do
    by_update = sum(row.naive_j for row in board.account.rows if row.phase in MEASURED)
    provisional = sum(view.update_joules(place) for place in range(len(view.history.updates)))
    assert len(view.history.updates) == 3
    assert provisional == pytest.approx(by_update, abs=3 * apart_j)
    print(view.joules, reached_j, provisional, by_update, apart_j)


@pytest.mark.timeout(600)
def test_not_a_byte_passes_the_control_connection_in_rests_and_idle_baselines(tmp_path: Path) -> None:
    run = Watched(tmp_path / "rested", "rounds.rest_s=1.5", "energy.idle_baseline_s=8.0")
    run.finish()
    passed = list(run.said())

    def between(start_ns: int, end_ns: int) -> list[tuple[str, int]]:
        return [(direction, size) for ns, direction, size in passed if start_ns <= ns < end_ns]

    with RunFolder.open(run.folder) as folder:
        spans, info = folder.records.spans("pi-01"), folder.info
    assert sum(span.phase in MEASURED for span in spans) == 9  # the last step only collects
    measured = [span for span in spans if span.phase in (*MEASURED, Phase.REST)]
    assert sum(span.phase is Phase.REST for span in measured) >= 9
    assert sum(span.end_ns - span.start_ns for span in measured) > 3e9
    assert [(span.phase, between(span.start_ns, span.end_ns)) for span in measured] == [
        (span.phase, []) for span in measured
    ]
    # What was to be said was said in between.
    waits = [between(span.start_ns, span.end_ns) for span in spans if span.phase is Phase.WAIT]
    assert all(any(direction == "up" for direction, _ in said) for said in waits)
    # A baseline begins with the controller's request for it, and no reading leaves the board in it.
    assert info.start_device_ns is not None
    assert info.end_device_ns is not None
    for start_ns in (info.start_device_ns, info.end_device_ns - 8_000_000_000):
        said = between(start_ns + 3_000_000_000, start_ns + 7_900_000_000)
        assert said == []
