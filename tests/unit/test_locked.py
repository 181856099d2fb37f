"""The lock has what pyproject.toml asks for, and what is installed is chosen from it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from roambench.provision.platforms import MACHINES, PYTHONS, Platform
from roambench.provision.wheels.wheelhouse import read_lock

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "packaging" / "lock.txt"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
_SPEC = importlib.util.spec_from_file_location("locked", ROOT / "packaging" / "locked.py")
assert _SPEC is not None
assert _SPEC.loader is not None
locked = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(locked)


@pytest.mark.parametrize("extras", [(), ("controller",), ("controller", "test"), ("docs",)])
def test_every_requirement_is_locked_for_each_python_and_machine_in_a_version_that_meets_it(
    extras: tuple[str, ...],
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]
    chosen = locked.locked(extras)
    for platform in (Platform(machine, python) for machine in MACHINES for python in PYTHONS):
        lock = {name: line for name, line in read_lock(LOCK, platform.markers).items() if name in chosen}
        versions = {name: line.split()[0].partition("==")[2] for name, line in lock.items()}
        needs = [Requirement(text) for text in needed]
        assert [n.name for n in needs if versions[canonicalize_name(n.name)] not in n.specifier] == []


def test_what_is_chosen_is_what_was_asked_for_and_what_that_needs() -> None:
    runs, site = locked.locked(["controller"]), locked.locked(["docs"])
    assert {"torch", "sympy", "mpmath", "pynacl", "plotly"} < runs.keys()
    assert not {"pytest", "mkdocs", "pip", "ray"} & runs.keys()
    assert "mkdocs" in site


def test_no_line_of_the_lock_names_a_host_or_brings_cuda() -> None:
    text = LOCK.read_text()
    assert re.findall(r"://|^(?:nvidia|cuda|triton)\S*", text, re.MULTILINE) == []
    assert [entry.split()[0] for entry in locked.locked([])["torch"]] == ["torch==2.9.1", "torch==2.13.0"]


def test_a_python_that_is_too_old_is_named_with_a_way_to_another(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\ncase "$2" in *platform*) echo 3.10.4 ;; *) exit 1 ;; esac\n')
    old.chmod(0o755)
    said = subprocess.run(
        ["sh", ROOT / "packaging/fitting_python.sh", old], capture_output=True, text=True, check=False
    )
    assert said.returncode == 1
    assert said.stderr.startswith(f"roambench needs Python 3.11 to 3.14, and {old} is 3.10.4: ")
    assert "apt-get install python3.11 python3.11-venv" in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize("minor", [10, 11, 12, 13, 14, 15])
def test_every_python_that_fits_is_taken(tmp_path: Path, minor: int) -> None:
    python = tmp_path / "python3"
    shown = f"import sys; sys.version_info = (3, {minor}, 0); exec(sys.argv[1])"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{shown}' \"$2\"\n")
    python.chmod(0o755)
    ran = subprocess.run(
        ["sh", ROOT / "packaging/fitting_python.sh", python], capture_output=True, check=False
    )
    assert ran.returncode == (f"3.{minor}" not in PYTHONS)


def test_torch_with_cuda_is_installed_on_demand_alone(tmp_path: Path) -> None:
    """Its gigabytes came first, the advice against them after."""
    pip, uname = tmp_path / "pip", tmp_path / "uname"
    pip.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\nfor last; do :; done\ncase $last in *+cpu) exit 1; esac\n'
    )
    uname.write_text("#!/bin/sh\necho x86_64\n")
    for program in (pip, uname):
        program.chmod(0o755)

    def install(*words: str) -> tuple[int, str, list[str]]:
        (tmp_path / "asked").write_text("")
        command = ["sh", ROOT / "packaging/torch.sh", pip, *words]
        path = f"{tmp_path}:{os.environ['PATH']}"
        ran = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)
        asked = (tmp_path / "asked").read_text().splitlines()
        return ran.returncode, ran.stderr, [line.split()[-1] for line in asked]

    code, said, asked = install()
    assert (code, set(asked)) == (1, {"torch==2.13.0+cpu"})
    assert "PIP_FIND_LINKS=FOLDER, or take the build with CUDA, gigabytes: make setup CUDA=1" in said
    assert install("CUDA") == (0, "", ["torch===2.13.0"])
