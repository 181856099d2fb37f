"""Another build onto a host and back, by hand and where its agent does not come up."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.card_walk import ROOT
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import Said, roambench
from hosts.test_own_package import write_project
from roambench.provision.inventory.load import load_bench
from roambench.provision.wheels.user_packages import keep_packages, wheel_of

_PACKAGES = ("protos", "agent", "controller")
_SETTINGS = "agent/roambench/agent/settings.py"
_AGENT = "agent/roambench/agent/cli.py"
#: The last layer of the package's model, as the agent's own Python makes it.
_FLAT = (
    "/opt/roambench/current/bin/python -c "
    "'from roambench.learning.models.build import build; print(build(\"flat\", 1, 10)[-1])'"
)


@pytest.fixture
def other_tree(tmp_path: Path) -> Path:
    """A copy of the source tree whose agents know one more setting, as a newer version may."""
    tree = tmp_path / "newer"
    for name in (*_PACKAGES, "packaging", "inventory"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.glob("*.*"):
        if file.is_file():
            shutil.copy(file, tree)
    settings = tree / _SETTINGS
    known = "    ctl_socket: str ="
    assert known in settings.read_text()
    settings.write_text(settings.read_text().replace(known, f'    spirit: str = "newer"\n{known}'))
    return tree


@pytest.fixture
def package(provisioned: BenchHosts, tmp_path: Path) -> Iterator[None]:
    """The bench keeps a package of its user's, as `fleet provision --with-package` would have left it."""
    state_dir = load_bench(provisioned.bench).state_dir
    made = wheel_of(write_project(tmp_path), tmp_path)
    keep_packages(state_dir, (made,))
    yield
    keep_packages(state_dir, ())


def test_a_host_gets_a_newer_build_and_goes_back_to_the_one_before_with_its_settings(
    provisioned: BenchHosts, package: None, other_tree: Path
):
    """The newer build has the bench's package beside it, the one before has none."""
    bench, only = provisioned.bench, ("--only", "pi3")
    before = _runs(provisioned)
    settings = provisioned.inside("pi3", "cat /etc/roambench/agent.json")

    said = _from(other_tree, "fleet", "upgrade", bench, *only)
    assert said.code == 0, said
    newer = _runs(provisioned)
    assert newer != before
    assert said.rows()["pi3"]["runs"].startswith(f"{newer} (")
    assert _settings(provisioned)["spirit"] == "newer"
    assert provisioned.inside("pi3", _FLAT) == "Linear(in_features=1024, out_features=10, bias=True)\n"
    again = _from(other_tree, "fleet", "upgrade", bench, *only)
    assert again.rows()["pi3"]["runs"].endswith(", as before")

    # The older agent would not start with settings that it does not know.
    said = roambench("fleet", "rollback", bench, *only)
    assert said.code == 0, said
    assert said.rows()["pi3"]["state"].endswith(f"instead of {newer}")
    assert _runs(provisioned) == before
    assert provisioned.inside("pi3", "cat /etc/roambench/agent.json") == settings
    again = roambench("fleet", "provision", bench, *only, "--without-packages", "--json")
    unchanged = json.loads(again.out)
    assert [row["state"] for row in unchanged] == ["unchanged"]


@pytest.mark.slow
def test_a_host_never_keeps_a_build_that_does_not_start(provisioned: BenchHosts, other_tree: Path):
    bench, only, before = provisioned.bench, ("--only", "pi3"), _runs(provisioned)
    agent = other_tree / _AGENT
    starts = "return run_agent("
    assert starts in agent.read_text()
    agent.write_text(agent.read_text().replace(starts, 'raise SystemExit("broken")\n    ' + starts))
    said = _from(other_tree, "fleet", "upgrade", bench, *only)
    assert said.code == 1
    row = said.rows()["pi3"]
    assert row["runs"] == ""
    assert row["reason"].endswith(f"; it has build {before} again")
    assert _runs(provisioned) == before
    assert "spirit" not in _settings(provisioned)


def _from(tree: Path, *words: object) -> Said:
    """`roambench WORDS` of another source tree."""
    path = os.pathsep.join(str(tree / name) for name in _PACKAGES)
    os.environ["PYTHONPATH"], before = path, os.environ.get("PYTHONPATH", "")
    try:
        return roambench(*words, timeout_s=580)
    finally:
        os.environ["PYTHONPATH"] = before


def _runs(hosts: BenchHosts) -> str:
    """The build that pi3's agent says it runs."""
    said = hosts.inside("pi3", "/opt/roambench/current/bin/roambench-agent ctl status")
    return str(json.loads(said)["build"])


def _settings(hosts: BenchHosts) -> dict[str, object]:
    found: dict[str, object] = json.loads(hosts.inside("pi3", "cat /etc/roambench/agent.json"))
    return found
