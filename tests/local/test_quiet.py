"""A quiet agent's control connection, watched by a proxy: not a byte while something is measured."""

from __future__ import annotations

import json

import pytest

from forked_commands import Command
from roambench.contract.device_time import DeviceClock
from roambench.contract.phases import Phase
from roambench.runs.folder import RunFolder

from .conftest import QUIET_DRIVE

EXPERIMENT = """
name = "quiet"
seed = 11
systems = ["mohawk"]
trace.generator = "city"
trace.window = "first"
trace.steps = 4
trace.parameters = { presence = "always", devices = 1, steps = 6, places = 200, aps = 20 }
fleet = { agents = 1, aps = 5 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 200 }
rounds = { rest_s = 1.5 }
local = { time_scale = 4.0, sgd_step_s = 0.3 }
energy = { idle_baseline_s = 8.0, quiet = true }
"""


@pytest.mark.timeout(600)
def test_not_a_byte_passes_the_control_connection_in_measured_phases_and_idle_baselines(tmp_path):
    (tmp_path / "quiet.toml").write_text(EXPERIMENT)
    log = tmp_path / "bytes.log"
    words = [str(log), str(tmp_path / "quiet.toml"), str(tmp_path / "runs")]
    with (tmp_path / "log").open("ab") as out:
        driven = Command(words, tmp_path, out.fileno(), tmp_path / "log", script=QUIET_DRIVE)
    assert driven.wait(400) == 0, (tmp_path / "log").read_text()
    path = tmp_path / "runs" / "quiet/latest/mohawk"
    agent = json.loads((path / "agents.json").read_text())["agents"][0]
    clock = DeviceClock(agent["epoch_ns"], agent["time_scale"])
    passed = [
        (clock.from_host_ns(int(ns)), direction, int(size))
        for ns, direction, size in (line.split() for line in log.read_text().splitlines())
    ]

    def between(start_ns: int, end_ns: int) -> list[tuple[str, int]]:
        return [(direction, size) for ns, direction, size in passed if start_ns <= ns < end_ns]

    folder = RunFolder.open(path)
    spans, info = folder.records.spans("pi-01"), folder.info
    folder.close()
    worked = (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD)
    assert sum(span.phase in worked for span in spans) == 9  # the last step only collects
    measured = [span for span in spans if span.phase in (*worked, Phase.REST)]
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
