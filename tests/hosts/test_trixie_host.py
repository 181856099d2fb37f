"""A board with Debian 13 (Trixie) and Python 3.13, under a controller with another Python.

Tests need no index that has torch without CUDA for x86-64 and 3.13 (for aarch64, which boards are, the lock
has it): the wheel that the host gets in its place loads Debian's own torch.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from hosts.card_walk import ROOT
from hosts.lab.bench_hosts import running_hosts
from hosts.lab.bench_run import ONE_BOARD, BenchRun
from hosts.lab.cli import roambench
from hosts.lab.needed import need_tools
from roambench.provision.platforms import Platform
from roambench.provision.wheels.wheelhouse import LOCK, read_lock
from roambench.rounds.records import OrderAnswered

# A root with Debian's torch takes minutes to make.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def write_torch(folder: Path) -> None:
    """The wheel of torch that the wheelhouse asks for; Debian's packages come after those of the agent."""
    lock = read_lock(ROOT / LOCK, Platform("x86_64", "3.13").markers)
    version = lock["torch"].split()[0].partition("==")[2] + "+cpu"
    about = f"torch-{version}.dist-info"
    with zipfile.ZipFile(folder / f"torch-{version}-cp313-cp313-linux_x86_64.whl", "w") as wheel:
        wheel.writestr("debian_torch.pth", "/usr/lib/python3/dist-packages\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp313-cp313-linux_x86_64\n"
        )
        wheel.writestr(f"{about}/RECORD", "")


def test_a_trixie_host_is_provisioned_passes_preflight_and_trains_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    need_tools()
    write_torch(tmp_path)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with running_hosts(["pi1:trixie"]) as hosts:
        said = roambench("fleet", "provision", hosts.bench, timeout_s=580)
        assert said.code == 0, said
        assert said.rows()["pi1"]["state"].startswith("changed: "), said
        (host,) = json.loads(roambench("fleet", "preflight", hosts.bench, "--json").out)["hosts"]
        checks = {check["name"]: (check["verdict"], check["found"]) for check in host["checks"]}
        assert checks["OS image"][0] == "pass"
        assert checks["OS image"][1].startswith("debian 13, Python 3.13.")
        assert [checks[name][0] for name in ("agent", "wheels", "certificate", "torch")] == ["pass"] * 4
        again = roambench("fleet", "provision", hosts.bench)
        assert again.rows()["pi1"]["state"].partition(" (")[0] == "unchanged"
        run = BenchRun(hosts.bench, tmp_path, *ONE_BOARD)
        try:
            with run.finished() as folder:
                answers = [record for record in folder.read_log() if isinstance(record, OrderAnswered)]
        finally:
            run.stop()
    assert {answer.status for answer in answers} == {"done"}
