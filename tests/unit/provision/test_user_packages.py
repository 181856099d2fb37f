"""Packages of the user's own on their way to hosts: real wheels by hatchling, some of them through pip."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hatchling.build import build_wheel

from roambench.contract.errors import ConfigError
from roambench.provision.facts import questions_before_a_run
from roambench.provision.facts_probe import probe
from roambench.provision.platforms import Platform
from roambench.provision.subjects.environment import _LOAD, _UNUSABLE
from roambench.provision.wheels.agent_build import AgentBuild
from roambench.provision.wheels.user_packages import (
    UserPackage,
    keep_packages,
    kept_packages,
    refuse_unfit,
    wheel_of,
)
from roambench.provision.wheels.wheel_closure import Wheel
from roambench.provision.wheels.wheelhouse import LOCK, Wheelhouse

_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "Bench_Pack"
version = "{version}"
dependencies = [{needs}]

[project.entry-points."roambench.models"]
flat = "bench_pack:flat"

[tool.hatch.build.targets.wheel]
packages = ["bench_pack"]
"""
Make = Callable[..., UserPackage]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """A project folder's package, built once while no package index can be reached. `by_pip`: of the folder,
    as a user's is; else of the wheel that pip would have hatchling build."""

    @cache
    def made(
        version: str = "0.1",
        needs: str = "",
        code: str = "flat = len\n",
        name: str = "project",
        by_pip: bool = False,
    ) -> UserPackage:
        base = tmp_path_factory.mktemp(name)
        code_folder = base / name / "bench_pack"
        code_folder.mkdir(parents=True)
        (base / name / "pyproject.toml").write_text(_PROJECT.format(version=version, needs=needs))
        (code_folder / "__init__.py").write_text(code)
        if by_pip:
            return wheel_of(base / name, base / "made")
        with contextlib.chdir(base / name):
            return wheel_of(base / "built" / build_wheel(str(base / "built")), base / "made")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        yield made


def _house(tmp_path: Path) -> Wheelhouse:
    numpy = Wheel("numpy", "2.4.6", "numpy.whl", "0" * 64, 1, 1, ())
    return Wheelhouse("aarch64", "3.11", "house", tmp_path / "house.tar", (numpy,))


def _problems(tmp_path: Path, *packages: UserPackage, python: str = "3.11") -> tuple[str, ...]:
    try:
        refuse_unfit(packages, _house(tmp_path), "0.1.0", Platform("aarch64", python))
    except ConfigError as error:
        return error.problems
    return ()


def test_a_folder_becomes_a_wheel_and_the_same_folder_the_same_wheel(tmp_path: Path, make: Make) -> None:
    package, again = make(by_pip=True), make(name="copy", by_pip=True)
    assert package.pin == f"bench-pack==0.1 --hash=sha256:{package.wheel.sha256}"
    assert again.pin == package.pin
    assert make(code="flat = max\n", name="changed", by_pip=True).pin != package.pin


def test_the_build_of_a_host_has_another_hash_with_a_package(tmp_path: Path, make: Make) -> None:
    plain = AgentBuild("code", tmp_path / "r.whl", "0.1.0", _house(tmp_path))
    mine = replace(plain, packages=(make(),))
    newer = replace(plain, packages=(make(version="0.2"),))
    assert len({plain.hash, mine.hash, newer.hash}) == 3


def test_the_bench_keeps_the_newest_choice_alone(tmp_path: Path, make: Make) -> None:
    state = tmp_path / "state"
    assert kept_packages(state) == ()
    first, second = make(), make(version="0.2")
    assert keep_packages(state, [first]) == kept_packages(state)
    keep_packages(state, [second])
    assert [kept.pin for kept in kept_packages(state)] == [second.pin]
    keep_packages(state, [])
    assert kept_packages(state) == ()


def test_what_hosts_have_may_be_needed_and_roambenchs_extras_are_not_asked_of_them(
    tmp_path: Path, make: Make
) -> None:
    assert _problems(tmp_path, make(needs='"roambench[controller]>=0.1", "NumPy>=2"')) == ()


def test_what_hosts_cannot_install_offline_is_refused_with_every_reason(tmp_path: Path, make: Make) -> None:
    package = make(needs='"pandas>=2", "numpy<2", "roambench>=9"')
    file = package.path.name
    assert sorted(_problems(tmp_path, package)) == [
        f"{file}: needs numpy<2, hosts have numpy 2.4.6",
        f"{file}: needs pandas>=2, which hosts do not have ({LOCK}): --with-package its wheel, too, or make "
        "it an extra if only this machine needs it",
        f"{file}: needs roambench>=9, hosts have roambench 0.1.0",
    ]


def test_a_second_package_may_bring_what_the_first_needs(tmp_path: Path, make: Make) -> None:
    package = make(needs='"other"')
    other = UserPackage(
        Path("other-1.0-py3-none-any.whl"), Wheel("other", "1.0", "other-1.0.whl", "1" * 64, 1, 1, ())
    )
    assert len(_problems(tmp_path, package)) == 1
    assert _problems(tmp_path, package, other) == ()


def test_a_wheel_of_another_machine_and_one_that_the_lock_has_are_refused(tmp_path: Path) -> None:
    binary = Path("fast-1-cp311-cp311-manylinux_2_28_x86_64.whl")
    pi = Path("fast-1-cp311-cp311-manylinux_2_28_aarch64.whl")
    newer = Path("fast-1-cp312-cp312-manylinux_2_28_aarch64.whl")
    wheel = Wheel("fast", "1", "", "1" * 64, 1, 1, ())
    reason = "is not for aarch64 with Python 3.11, which hosts have"
    assert _problems(tmp_path, UserPackage(binary, wheel)) == (f"{binary}: {reason}",)
    assert _problems(tmp_path, UserPackage(newer, wheel)) == (f"{newer}: {reason}",)
    assert _problems(tmp_path, UserPackage(pi, wheel)) == ()
    assert _problems(tmp_path, UserPackage(newer, wheel), python="3.12") == ()
    numpy = UserPackage(Path("numpy-9-py3-none-any.whl"), replace(wheel, name="numpy", version="9"))
    assert _problems(tmp_path, numpy) == (
        f"numpy-9-py3-none-any.whl: numpy 2.4.6 is one of the packages that hosts have by {LOCK}",
    )


def test_what_is_no_package_is_one_sentence(tmp_path: Path, make: Make) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"empty: expected a wheel or a folder with a pyproject\.toml"):
        wheel_of(tmp_path / "empty", tmp_path / "made")
    (tmp_path / "text.whl").write_text("no wheel")
    with pytest.raises(ConfigError, match=r"text\.whl: not a wheel"):
        wheel_of(tmp_path / "text.whl", tmp_path / "made")
    with pytest.raises(ConfigError, match=r"no wheel can be built of it: .*[Ee]rror"):
        make(name="broken", version="not a version", by_pip=True)


def test_the_look_at_a_package_on_the_host_and_the_probe_of_a_run_know_it(tmp_path: Path, make: Make) -> None:
    """A real environment, installed into by pip as a host's is, without torch."""
    opt = tmp_path / "root/opt/roambench"
    home = opt / "builds/0123456789abcdef/venv"
    venv.create(home, with_pip=False)
    (opt / "current").symlink_to("builds/0123456789abcdef/venv")

    def asked(*names: str) -> dict[str, Any]:
        questions = json.loads(questions_before_a_run(names).to_json())
        return probe(questions, tmp_path / "root")["python_packages"]

    for version, code, expected in (
        ("0.1", "def flat(channels, classes): ...\n", (0, "")),
        ("0.2", "import no_such_module\n", (_UNUSABLE, "bench-pack bench_pack:flat: ModuleNotFoundError")),
    ):
        package = make(version=version, code=code)
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", f"--python={home}/bin/python", "install", "--quiet"),
                *("--no-index", "--no-deps", "--disable-pip-version-check", str(package.path)),
            ],
            check=True,
            env={**os.environ, "PYTHONPATH": ""},
        )
        ran = subprocess.run(
            [home / "bin/python", "-c", _LOAD, "bench-pack"], capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr[: len(expected[1])]) == expected
        found = asked("bench-pack", "absent")
        sha256 = hashlib.sha256(code.encode()).hexdigest()
        assert found == {"bench-pack": {"version": version, "files": {"bench_pack/__init__.py": sha256}}}
        assert asked() == {}
    # A file that was changed on the board itself is not what came.
    (path,) = home.glob("lib/python3*/site-packages/bench_pack/__init__.py")
    path.write_text("other")
    found = asked("bench-pack")["bench-pack"]["files"]
    assert found == {"bench_pack/__init__.py": hashlib.sha256(b"other").hexdigest()}
