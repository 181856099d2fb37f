"""Every example of the help that needs no bench and no network runs, in a folder with what it names."""

from __future__ import annotations

import shlex
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roambench.cli.main import command, main

pytestmark = pytest.mark.lengthy

ROOT = Path(__file__).resolve().parents[3]
#: Beginnings of examples that are not run here, and why.
NOT_RUN = {
    "demo": "a minute of agents; test_demo.py",
    "run": "agents, or a bench; tests/local, test_demo.py",
    "overhead": "agents and half an hour, or a bench; tests/unit/instrument",
    "calibrate": "agents, or a bench; tests/local",
    "ab a.toml b.toml": "twelve runs of agents; tests/unit/study",
    "pause": "a run that goes on; tests/local",
    "resume-replay": "a run that goes on; tests/local",
    "watch": "serves until it is stopped; tests/unit/live",
    "export mlflow": "a tracker that is not installed here; tests/unit/extras/exports",
    "export wandb": "a tracker that is not installed here; tests/unit/extras/exports",
    "meter emulate": "goes on until it is stopped; test_meter_emulate.py",
    "meter fault": "emulated meters that go on; test_meter_emulate.py",
    "meter read": "a meter",
    "meter record": "a meter",
    "meter calibrate": "a meter",
    "meter power": "a meter",
    "fleet provision": "hosts",
    "fleet flower": "hosts; tests/hosts/test_flower_on_hosts.py",
    "fleet wheelhouse": "a package index",
    "fleet rollback": "hosts",
    "fleet unprovision": "hosts",
    "fleet influx-token": "a database; tests/unit/runs",
    "fleet preflight": "hosts",
    "fleet identify": "hosts",
    "fleet status": "hosts",
    "fleet logs": "hosts",
    "fleet exec": "hosts",
    "fleet reboot": "hosts",
    "fleet power": "hosts",
    "fleet fetch": "hosts",
    "fleet upgrade": "hosts",
    "fleet replace": "hosts",
    "fleet certs rotate": "hosts",
    "fleet certs revoke": "a certificate that provisioning issued; tests/unit/provision",
    "fleet discover": "a network",
    "fleet import ansible": "Ansible; tests/unit/extras/interop",
    "fleet emulate-switches": "goes on for a minute, or until it is stopped",
    "fleet image": "a flashed card",
    "fleet verify": "hosts, and the kit that they fill",
    "flower run": "Flower's environment; tests/unit/extras/flower",
    "reproduce mohawk": "the paper's sweep takes minutes",
}
#: One system, as a comparison wants it; all of it in seconds on virtual devices.
TINY = """
systems = ["mohawk"]
trace = { steps = 4, parameters = { devices = 6 } }
fleet = { agents = 6, aps = 2 }
learning = { model = "mlp", images_per_device = 20, local_epochs = 1 }
"""
GRID = """
experiment = "my.toml"
fleet = "simulated"
metrics = ["final_accuracy"]
[grid]
systems = ["mohawk", "hierfavg"]
seeds = 2
"""
BENCH = """
name = "bench"
controller.address = "127.0.0.1"
[defaults]
ssh_user = "pi"
tags = ["rack1"]
meter.driver = "smartpower2"
"""
HOST = """
[[hosts]]
name = "pi-0{0}"
address = "127.0.0.{0}"
meter.serial = "A{0}"
"""
BIKES = "device,time,lat,lon\n" + "".join(
    f"{bike},2024-03-04T{hour:02d}:00Z,48.{hour + 10},11.{hour + 20}\n" for bike in "ab" for hour in range(24)
)
EXPORTER = """
pi-05:
  NetworkService: { address: 127.0.0.5, username: pi }
"""


def examples() -> Iterator[str]:
    def walked(one: Any) -> Iterator[str]:
        for each in getattr(one, "commands", {}).values():
            if not each.hidden:
                yield from walked(each)
        if not hasattr(one, "commands"):
            yield from [line.strip().removeprefix("roambench ") for line in one.epilog.splitlines()[1:]]

    return walked(command())


def why_not(example: str) -> str:
    return next((why for begin, why in NOT_RUN.items() if f"{example} ".startswith(f"{begin} ")), "")


def outcome(example: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The example and its complaint; empty where it ended well."""
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(example))
    error = capsys.readouterr().err
    return f"{example}: {ended.value.code} {error}" if ended.value.code else ""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Two measured runs, a comparison, and the files that examples name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with tarfile.open(ROOT / "tests/frozen/files/runs/local.tar.xz") as archive:
        archive.extractall(tmp_path / "runs/demo/latest", filter="data")
    for name in "ab":
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"{TINY}')
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "bikes.csv").write_text(BIKES)
    (tmp_path / "bench.toml").write_text(BENCH + HOST.format(1) + HOST.format(3))
    (tmp_path / "exporter.yaml").write_text(EXPORTER)
    shutil.copytree(ROOT / "experiments", tmp_path / "experiments")
    (tmp_path / "inventory").mkdir()
    shutil.copy(ROOT / "inventory/bench36.example.toml", tmp_path / "inventory/bench36.toml")
    assert outcome("ab a.toml b.toml --fleet rehearsal --repeats 2", capsys) == ""
    return tmp_path


@pytest.mark.timeout(600)
def test_examples_that_need_nothing_outside_end_well(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = [example for example in examples() if not why_not(example)]
    # Only measured energy is compared with models; a kept run is an older version's, and no run to check.
    wrong = [outcome(example, capsys) for example in run if example.startswith("compare")]
    shutil.rmtree(there / "runs/demo")
    today = 'run a.toml --fleet simulated --name demo --set \'systems=["mohawk","hierfavg"]\''
    wrong.append(outcome(today, capsys))
    with pytest.raises(SystemExit):
        main(["report", "runs/demo/latest", "--json"])
    (there / "report.json").write_text(capsys.readouterr().out)
    run = [example for example in run if not example.startswith("compare")]
    for example in sorted(run, key=lambda example: example.startswith("resume")):  # after its sweep
        if example.startswith("fleet import"):
            (there / "bench.toml").unlink(missing_ok=True)
        wrong.append(outcome(example, capsys))
        if example == "init my.toml":
            (there / "my.toml").write_text(f'name = "my"{TINY}')
    assert list(filter(None, wrong)) == []
    assert len(run) > 45


def test_each_reason_not_to_run_an_example_is_of_one_that_there_is() -> None:
    known = list(examples())
    assert [begin for begin in NOT_RUN if not any(f"{it} ".startswith(f"{begin} ") for it in known)] == []
