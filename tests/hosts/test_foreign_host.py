"""What a Raspberry Pi 3B+ will install, without a Pi: an aarch64 Debian on an emulated Cortex-A53."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hosts.card_walk import ROOT
from hosts.lab.bench_hosts import BenchHosts, running_hosts
from hosts.lab.bench_run import ONE_BOARD, BenchRun
from hosts.lab.cli import roambench
from hosts.lab.needed import need_tools
from roambench.contract.phases import Outcome
from roambench.provision.platforms import Platform
from roambench.provision.wheels.wheelhouse import LOCK, read_lock
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    OrderAnswered,
    OutcomeDecided,
    RoundRecord,
)
from roambench.runs.folder import RunFolder

# A root of emulated programs takes 5 minutes to make, wheels 3 to install; both twice that on a busy machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

_PYTHON = "/opt/roambench/current/bin/python"
_ABOUT = "import platform, torch; print(platform.machine(), torch.__version__)"
#: ldadd w1, w0, [x0]; ret: an atomic instruction of ARMv8.1, which compilers like. A Cortex-A53 is 8.0.
_ATOMIC = """\
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write((0xB8210000).to_bytes(4, "little") + (0xD65F03C0).to_bytes(4, "little"))
cell = ctypes.c_uint32(5)
add = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
print(add(ctypes.addressof(ctypes.c_char.from_buffer(code)))(ctypes.addressof(cell), 37), cell.value)
"""


@pytest.fixture(scope="module")
def board() -> Iterator[BenchHosts]:
    """One fresh host pi1, provisioned by the command that provisions boards, with no way to the internet."""
    need_tools("arm64")
    with running_hosts(["pi1"], architecture="arm64") as hosts:
        said = roambench("fleet", "provision", hosts.bench, timeout_s=2400)
        assert said.code == 0, said
        assert said.rows()["pi1"]["state"].startswith("changed: "), said
        yield hosts


def test_a_cortex_a53_has_torch_of_the_pinned_wheel_and_an_agent_that_trains_a_step(board: BenchHosts):
    said = roambench("fleet", "exec", board.bench, "--", f"{_PYTHON} -c '{_ABOUT}'")
    assert (said.code, said.out) == (0, f"pi1: aarch64 {_pinned('torch')}+cpu\n"), said
    environment = board.inside("pi1", "tr '\\0' '\\n' </proc/$(pgrep -o -u roambench)/environ")
    assert "QEMU_CPU=cortex-a53" in environment.splitlines()
    checks = _preflight(board)
    assert checks["OS image"] == ("pass", "debian 12, Python 3.11.2, aarch64, 64 bit")
    verdict, found = checks["torch"]
    assert verdict == "pass"
    assert found.startswith(f"torch {_pinned('torch')}+cpu, loss ")
    assert [checks[name][0] for name in ("agent", "wheels", "certificate", "meter")] == ["pass"] * 4


def test_what_a_cortex_a53_cannot_execute_ends_there(board: BenchHosts):
    """So what was installed and trained needs nothing that a Raspberry Pi 3B+ does not have."""
    said = roambench("fleet", "exec", board.bench, "--", f"python3 -c '{_ATOMIC}'")
    assert (said.code, said.out) == (1, ""), said
    assert "pi1: exit code 132" in said.err.splitlines(), said  # SIGILL
    said = roambench("fleet", "exec", board.bench, "--", f"QEMU_CPU=max python3 -c '{_ATOMIC}'")
    assert (said.code, said.out) == (0, "pi1: 5 42\n"), said


def test_provisioning_it_again_changes_nothing(board: BenchHosts):
    said = roambench("fleet", "provision", board.bench)
    assert (said.code, said.rows()["pi1"]["state"].partition(" (")[0]) == (0, "unchanged"), said


def test_the_models_it_trains_are_uploaded_and_aggregated_and_are_those_of_this_machine(
    board: BenchHosts, tmp_path: Path
):
    run = BenchRun(board.bench, tmp_path, *ONE_BOARD)
    try:
        with run.finished(patience_s=1800.0) as folder:
            records = list(folder.read_log())
            trainings = [s for s in folder.records.spans("pi1") if s.phase.value == "train"]
            ns = folder.records.readings("pi1").ns
    finally:
        run.stop()
    answers = [record for record in records if isinstance(record, OrderAnswered)]
    assert {answer.status for answer in answers} == {"done"}
    trained, uploaded = _of(answers, "train"), _of(answers, "upload")
    assert [(answer.step, answer.samples) for answer in trained] == [(0, 16), (1, 16), (2, 16)]
    assert [answer.step for answer in uploaded] == [1, 2, 3]
    models = [answer.order_id for answer in trained]
    edges = [record for record in records if isinstance(record, EdgeAggregated)]
    assert [(edge.step, edge.devices, edge.train_order_ids) for edge in edges] == [
        (step + 1, (0,), (model,)) for step, model in enumerate(models)
    ]
    (cloud,) = [record for record in records if isinstance(record, CloudAggregated)]
    assert (cloud.step, cloud.weights, cloud.digest) == (2, (1.0,), edges[1].digest)
    outcomes = [record for record in records if isinstance(record, OutcomeDecided)]
    assert [(outcome.train_order_id, outcome.outcome) for outcome in outcomes] == [
        (model, Outcome.AGGREGATED) for model in models
    ]
    for span in trainings:
        assert ((ns > span.start_ns) & (ns < span.end_ns)).any()  # its meter was read all along
    here = _of([r for r in _simulated(tmp_path) if isinstance(r, OrderAnswered)], "train")
    losses = [answer.mean_loss for answer in trained]
    assert losses == pytest.approx([answer.mean_loss for answer in here], rel=1e-4)


def _simulated(folder: Path) -> Sequence[RoundRecord]:
    """The journal of the same experiment on a virtual device: by this machine's processor and its torch."""
    settings = (*ONE_BOARD, 'simulated.train="always"', "simulated.workers=1")
    words = [word for setting in settings for word in ("--set", setting)]
    runs = folder / "simulated"
    said = roambench(
        *("run", "experiments/demo_full.toml", "--fleet", "simulated", "--runs-dir", runs, *words), cwd=ROOT
    )
    assert said.code == 0, said
    (run,) = (path for path in runs.glob("*/latest/*") if path.is_dir())
    with RunFolder.open(run) as opened:
        return list(opened.read_log())


def _of(answers: Sequence[OrderAnswered], kind: str) -> list[OrderAnswered]:
    return [answer for answer in answers if answer.order_id.endswith(f"/{kind}")]


def _preflight(board: BenchHosts) -> dict[str, tuple[str, str]]:
    """Check -> verdict and what was found. How quiet and quick the host is depends on what else runs here."""
    said = roambench("fleet", "preflight", board.bench, "--json")
    (host,) = json.loads(said.out)["hosts"]
    return {check["name"]: (check["verdict"], check["found"]) for check in host["checks"]}


def _pinned(name: str) -> str:
    """The version that every board installs."""
    return read_lock(ROOT / LOCK, Platform("aarch64", "3.11").markers)[name].split()[0].partition("==")[2]
