"""The agent as one wheel, built from this source tree, and the hash that names this build on hosts."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from roambench.contract.errors import FleetError
from roambench.contract.whole_file import take_place
from roambench.provision.bench import Bench
from roambench.provision.platforms import EPOCH, Platform
from roambench.provision.wheels.program_kit import BoardKit, ProgramKit
from roambench.provision.wheels.source_tree import source_root
from roambench.provision.wheels.user_packages import UserPackage, kept_packages, refuse_unfit
from roambench.provision.wheels.wheelhouse import (
    Wheelhouse,
    build_beside,
    build_wheelhouse,
    kept_wheelhouse,
)

_PATIENCE_S: Final = 120.0
#: In the place of a build's hash.
NOT_MADE: Final = "not made yet"


@dataclass(frozen=True, slots=True)
class AgentBuild:
    """`code` is of the wheel's content; `hash` also of all it is installed with, and names the folder on
    the host. `packages`: the user's own, beside it. `kit`: a program, which is no part of the build."""

    code: str
    wheel: Path
    version: str
    wheelhouse: Wheelhouse
    packages: tuple[UserPackage, ...] = ()
    kit: BoardKit | None = None

    @property
    def hash(self) -> str:
        """16 digits over the code and its wheels."""
        whole = [self.code, self.wheelhouse.hash, *(package.pin for package in self.packages)]
        return hashlib.sha256(" ".join(whole).encode()).hexdigest()[:16]


class Builds:
    """The builds of one command, made when the first host of a kind wants one. For several threads."""

    def __init__(
        self, state_dir: Path, packages: tuple[UserPackage, ...], kit: ProgramKit | None = None
    ) -> None:
        self._state_dir = state_dir
        self._packages = packages
        self._kit = kit
        self._lock = threading.Lock()
        self._made: dict[Platform, AgentBuild | Exception] = {}

    def of(self, platform: Platform, fetching: Callable[[], None] = lambda: None) -> AgentBuild:
        """FleetError or ConfigError where it cannot be made, the same one for all hosts. `fetching` is called
        before wheels are fetched, which takes minutes."""
        with self._lock:
            if platform not in self._made:
                try:
                    if kept_wheelhouse(self._state_dir, source_root(), platform) is None:
                        fetching()
                    self._made[platform] = self._make(platform)
                except Exception as error:
                    self._made[platform] = error
            made = self._made[platform]
        if isinstance(made, Exception):
            raise made
        return made

    def _make(self, platform: Platform) -> AgentBuild:
        house = build_wheelhouse(self._state_dir, source_root(), platform)
        build = _build(self._state_dir, house, self._packages)
        refuse_unfit(build.packages, house, build.version, platform)
        if self._kit is None:
            return build
        spec = self._kit.spec
        wheels = build_beside(
            self._state_dir,
            source_root(),
            platform,
            house,
            spec.roots,
            who=spec.name,
            lock=spec.lock,
            alone=spec.alone,
        )
        return replace(build, kit=BoardKit(self._kit, wheels))


def expected_build(bench: Bench, platform: Platform) -> str:
    """The build that a host of this kind should run now.

    NOT_MADE where the source tree asks for other wheels than were ever fetched: no host runs that yet.
    ConfigError or FleetError where there is no source tree or it cannot be built.
    """
    house = kept_wheelhouse(bench.state_dir, source_root(), platform)
    return NOT_MADE if house is None else _build(bench.state_dir, house, kept_packages(bench.state_dir)).hash


def _build(state_dir: Path, house: Wheelhouse, packages: tuple[UserPackage, ...]) -> AgentBuild:
    wheel, code = build_wheel(source_root(), state_dir / "builds")
    return AgentBuild(code, wheel, wheel.name.split("-")[1], house, packages)


def build_wheel(root: Path, folder: Path) -> tuple[Path, str]:
    """The source tree's wheel, kept under `folder` by its hash, and that; FleetError if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
        try:
            ran = subprocess.run(
                command, cwd=root, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            raise FleetError(f"the agent's wheel: no end within {_PATIENCE_S:g} s") from None
        made = list(Path(scratch).glob("*.whl"))
        if ran.returncode != 0 or len(made) != 1:
            raise FleetError(f"the agent's wheel cannot be built: {ran.stderr.strip()[-300:]}")
        content = made[0].read_bytes()
        code = hashlib.sha256(content).hexdigest()[:16]
        wheel = folder / code / made[0].name
        wheel.parent.mkdir(exist_ok=True)
        if not wheel.exists():
            take_place(made[0], wheel)
    return wheel, code
