"""A package of the user's own on its way to boards: installed, used by a run, edited, rolled back, missed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import Said, roambench

_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "bench-pack"
version = "0.1"
dependencies = ["roambench[controller]", "numpy"]

[project.entry-points."roambench.models"]
flat = "bench_pack.flat:flat"

[tool.hatch.build.targets.wheel]
packages = ["bench_pack"]
"""
_MODEL = '''
import torch


def flat(channels, classes):
    """A linear layer over all pixels."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * 32 * 32, classes))
'''
_RUN = (
    'learning.model="flat"',
    "fleet.agents=2",
    "energy.idle_baseline_s=3.0",
    'systems=["mohawk"]',
    "trace.steps=2",
)


def write_project(above: Path) -> Path:
    """The folder of a project whose package brings a model, `flat`."""
    folder = above / "project"
    (folder / "bench_pack").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(_PROJECT)
    (folder / "bench_pack/__init__.py").write_text("")
    (folder / "bench_pack/flat.py").write_text(_MODEL)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, installed on this machine by pip, in a folder of PYTHONPATH."""
    folder, here = write_project(tmp_path), tmp_path / "here"
    words = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", f"--target={here}")
    subprocess.run([sys.executable, *words, str(folder)], check=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")]))
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_uses_a_package_on_boards_that_have_it_and_names_those_that_do_not(
    provisioned: BenchHosts, project: Path, tmp_path: Path
):
    bench, (first, second) = provisioned.bench, provisioned.names[:2]
    boards, before = ("--only", first, "--only", second), _runs(provisioned, first)

    lacking = _run(bench, tmp_path, *boards)
    assert lacking.code == 1
    for name in (first, second):
        assert f"{name}: packages: lacks bench-pack 0.1" in lacking.err + lacking.out
    assert not list((tmp_path / "runs").rglob("run.json"))

    said = roambench("fleet", "provision", bench, *boards, "--with-package", project, timeout_s=580)
    assert said.code == 0, said
    newer = _runs(provisioned, first)
    assert newer != before
    again = roambench("fleet", "provision", bench, *boards, "--json", timeout_s=580)
    assert [row["state"] for row in json.loads(again.out)] == ["unchanged", "unchanged"]

    ran = _run(bench, tmp_path, *boards)
    assert ran.code == 0, ran
    (folder,) = (tmp_path / "runs").glob("*/latest/*/")
    (pin,) = json.loads((folder / "bench.json").read_text())["packages"]
    assert pin.startswith("bench-pack==0.1 --hash=sha256:")
    (code,) = json.loads((folder / "run.json").read_text())["code"]
    assert (code["package"], code["version"]) == ("bench-pack", "0.1")
    assert json.loads((folder / "run.json").read_text())["state"] == "finished"

    # What cannot be loaded there never becomes the build that runs, and the bench does not keep it.
    (project / "bench_pack/flat.py").write_text("import no_such_module\n" + _MODEL)
    broken = roambench("fleet", "provision", bench, *boards, "--with-package", project, timeout_s=580)
    assert broken.code == 1
    assert "ModuleNotFoundError: No module named 'no_such_module'" in broken.rows()[first]["reason"]
    assert _runs(provisioned, first) == newer
    again = roambench("fleet", "provision", bench, *boards, "--json", timeout_s=580)
    assert [row["state"] for row in json.loads(again.out)] == ["unchanged", "unchanged"]

    # Edited here, under the same version: no run until the boards have it, too.
    for folder in (project, project.parent / "here"):
        (folder / "bench_pack/flat.py").write_text(_MODEL.replace("A linear layer", "One linear layer"))
    edited = _run(bench, tmp_path, *boards)
    assert edited.code == 1
    unlike = "packages: bench-pack 0.1 has not the bench_pack/flat.py that is here"
    for name in (first, second):
        assert f"{name}: {unlike}" in edited.err + edited.out
    said = roambench("fleet", "provision", bench, *boards, "--with-package", project, timeout_s=580)
    assert said.code == 0, said
    newest = _runs(provisioned, first)
    assert newest not in (before, newer)

    # Back, one board: the run says which one has the older files.
    assert roambench("fleet", "rollback", bench, "--only", first).code == 0
    assert _runs(provisioned, first) == newer
    half = _run(bench, tmp_path, *boards)
    assert half.code == 1
    assert f"{first}: {unlike}" in half.err + half.out
    assert f"{second}: packages" not in half.err + half.out

    without = ("fleet", "provision", bench, *boards, "--without-packages")
    assert roambench(*without, timeout_s=580).code == 0
    assert _runs(provisioned, first) == _runs(provisioned, second) == before


def _run(bench: Path, folder: Path, *only: str) -> Said:
    settings = [word for setting in _RUN for word in ("--set", setting)]
    words = ("run", "experiments/demo.toml", "--fleet", f"bench:{bench}", "--unproven", *only)
    root = Path(__file__).resolve().parents[2]
    return roambench(*words, "--runs-dir", folder / "runs", *settings, timeout_s=580, cwd=root)


def _runs(hosts: BenchHosts, name: str) -> str:
    """The build that a host's agent says it runs."""
    said = hosts.inside(name, "/opt/roambench/current/bin/roambench-agent ctl status")
    return str(json.loads(said)["build"])
