"""The controller's machine is booted, or loses its power, in mid-run; a printed unit goes on with the run."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from hosts.lab.bench_run import BenchRun
from hosts.lab.needed import need_tools
from hosts.lab.server import Server
from hosts.test_resumed_on_hosts import ROUNDS, decided, is_as, unfaulted
from living_agents import LivingBench
from roambench.contract.events import EventKind
from roambench.rounds.records import ClockProbed, RunResumed
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.checkpoint_file import read_checkpoint, write_checkpoint
from roambench.runs.doubts import BY_THE_WALL_CLOCK
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import outages_of
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
)
#: By the fleet. Each step lasts for seconds.
MORE = {
    "simulated": ("learning.local_epochs=100",),
    "local": (
        'rounds.step_close="clock:30"',
        "local.time_scale=10.0",
        "local.sgd_step_s=1.0",
        "energy.idle_baseline_s=2.0",
    ),
}


def reached(run: Path, step: int) -> None:
    """Until the run would go on at the step or a later one."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while (found := read_checkpoint(run)) is None or found.next_step < step:
        assert time.monotonic() < deadline_s, f"{run}: step {step} was not reached"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fleet", list(MORE))
def test_a_run_goes_on_by_itself_after_a_reboot_and_after_a_power_cut(tmp_path: Path, fleet: str) -> None:
    """Local agents and their meters are booted with it."""
    need_tools()
    chosen = (*SETTINGS, *MORE[fleet])
    server = Server(tmp_path / "server")
    command = f"{sys.executable} -m roambench.cli.main"
    experiment = f"{_CHECKOUT}/experiments/demo_full.toml --fleet {fleet}"
    settings = " ".join(f"--set '{setting}'" for setting in chosen)
    server.on()
    try:
        run = server.root / "srv/runs/demo-full/latest/mohawk"
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
        whole = unfaulted(tmp_path / "whole", chosen)
        with RunFolder.open(run) as folder:
            assert folder.read_log().count(RunResumed) == 2
            if fleet == "local":
                is_as(folder, whole, cut=True)
                assert BY_THE_WALL_CLOCK in folder.info.doubts
        assert decided(run) == decided(whole)
        assert np.array_equal(*(load_model(path / GLOBAL_MODEL) for path in (run, whole)))
        time.sleep(1.0)
        assert "success" in server.inside("systemctl show -P Result roambench-resume")
    finally:
        server.cut()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_on_a_bench_the_clocks_of_its_boards_carry_the_run_over_the_boot(tmp_path: Path) -> None:
    """Of agents that live on. The wall clock comes up an hour fast once, then an hour slow."""
    need_tools()
    with tempfile.TemporaryDirectory(prefix="rb-") as folder:
        bench = LivingBench(Path(folder))
        bench.start()
        run = BenchRun(bench.file, tmp_path, *ROUNDS)
        try:
            for step, wrong_s in enumerate((3600, -3600), 1):
                run.wait_for(EventKind.TRAIN_STARTED, "board-a", f"%/{step:05}/00000/train")
                run.stop()
                checkpoint = read_checkpoint(run.folder)
                assert checkpoint is not None
                checkpoint.fleet["unix_ns"] -= wrong_s * 10**9
                write_checkpoint(run.folder, checkpoint)
                run.begin_again("resume", booted=True)
            whole = unfaulted(tmp_path / "whole", ROUNDS)
            with run.finished() as ended:
                records = ended.read_log()
                assert records.count(RunResumed) == 2
                is_as(ended, whole)
                assert BY_THE_WALL_CLOCK not in ended.info.doubts
                assert all(until_ns - from_ns < 1800e9 for from_ns, until_ns in outages_of(records))
                for device, name in enumerate(bench.names):
                    probes = [probe for probe in records.only(ClockProbed) if probe.device == device]
                    # All of it is one machine, whose clock is ahead of itself by nothing.
                    assert all(abs(probe.offset_ns) < probe.bound_ns + 2e8 for probe in probes), probes
                    assert np.diff(ended.records.readings(name).ns).max() < 5e9
        finally:
            run.stop()
            bench.stop()
