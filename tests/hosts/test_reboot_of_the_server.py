"""The controller's machine is booted, or loses its power, in mid-run; a printed unit goes on with the run."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hosts.lab.needed import need_tools
from hosts.lab.server import Server
from hosts.test_resumed_on_hosts import decided, unfaulted
from roambench.controller.kept import GLOBAL_MODEL
from roambench.rounds.records import RunResumed
from roambench.runs.checkpoint_file import read_checkpoint
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.models import load_model

_PATIENCE_S = 300.0
_CHECKOUT = Path(__file__).resolve().parents[2]
SETTINGS = (
    'systems=["mohawk"]',
    "trace.steps=8",
    "fleet.agents=4",
    'learning.model="mlp"',
    "learning.images_per_device=40",
    "learning.test_images=50",
    "learning.local_epochs=100",
)


def reached(run: Path, step: int) -> None:
    """Until the run would go on at the step or a later one."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while (found := read_checkpoint(run)) is None or found.next_step < step:
        assert time.monotonic() < deadline_s, f"{run}: step {step} was not reached"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_goes_on_by_itself_after_a_reboot_and_after_a_power_cut(tmp_path: Path) -> None:
    need_tools()
    server = Server(tmp_path / "server")
    command = f"{sys.executable} -m roambench.controller.cli"
    experiment = f"{_CHECKOUT}/experiments/demo.toml --fleet simulated"
    settings = " ".join(f"--set '{setting}'" for setting in SETTINGS)
    server.on()
    try:
        run = server.root / "srv/runs/demo-mohawk"
        unit = "/etc/systemd/system/roambench-resume.service"
        server.inside(
            f"cd /srv; {command} resume runs --unit > {unit}; systemctl enable -q roambench-resume; "
            f"systemd-run -q --working-directory=/srv {command} run {experiment} {settings}"
        )
        reached(run, 2)
        server.reboot()
        reached(run, 4)
        server.cut()
        server.on()
        deadline_s = time.monotonic() + _PATIENCE_S
        while RunFolder.open(run).info.state is not RunState.FINISHED:
            assert time.monotonic() < deadline_s, server.inside("journalctl -u roambench-resume")
            time.sleep(0.5)
        whole = unfaulted(tmp_path / "whole", SETTINGS)
        assert decided(run) == decided(whole)
        assert np.array_equal(*(load_model(path / GLOBAL_MODEL) for path in (run, whole)))
        with RunFolder.open(run) as folder:
            assert folder.read_log().count(RunResumed) == 2
        time.sleep(1.0)
        assert "success" in server.inside("systemctl show -P Result roambench-resume")
    finally:
        server.cut()
