"""The user's own packages that hosts install beside the agent: models, data sets, tasks, meters.

state_dir/packages/NAME/WHEEL    one for each package, chosen by `fleet provision --with-package`
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from roambench.contract.errors import ConfigError
from roambench.provision.platforms import EPOCH, Platform
from roambench.provision.wheels.wheel_closure import Wheel, applicable
from roambench.provision.wheels.wheelhouse import LOCK, Wheelhouse

_OURS: Final = "roambench"
_PATIENCE_S: Final = 600.0
#: A wheel is sent in one piece; what is larger is data.
_MOST_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class UserPackage:
    """A wheel, and what it says of itself."""

    path: Path
    wheel: Wheel

    @classmethod
    def of(cls, path: Path) -> UserPackage:
        """ConfigError for what is no wheel, or one that no host could be sent."""
        wheel = Wheel.of(path)
        if wheel.size_bytes > _MOST_BYTES:
            raise ConfigError(
                [
                    f"{path}: {wheel.size_bytes / 1e6:.0f} MB, expected at most {_MOST_BYTES / 1e6:.0f} MB: "
                    "code comes to hosts in a wheel, data does not"
                ]
            )
        if wheel.name == _OURS:
            raise ConfigError([f"{path}: is roambench itself, which hosts get from this source tree"])
        with zipfile.ZipFile(path) as archive:
            if any(name.startswith(f"{_OURS}/") for name in archive.namelist()):
                raise ConfigError(
                    [f"{path}: has files in roambench's own package, expected a package of another name"]
                )
        return cls(path, wheel)

    @property
    def pin(self) -> str:
        """The package, its version and its wheel's digest, as a requirement."""
        return f"{self.wheel.name}=={self.wheel.version} --hash=sha256:{self.wheel.sha256}"


def wheel_of(source: Path, folder: Path) -> UserPackage:
    """`source` itself where it is a wheel, else the wheel of that project folder, made in `folder`."""
    if source.is_file():
        return UserPackage.of(source)
    if not (source / "pyproject.toml").is_file() and not (source / "setup.py").is_file():
        raise ConfigError([f"--with-package {source}: expected a wheel or a folder with a pyproject.toml"])
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--wheel-dir", str(folder)]
    # What builds it may be here already: then it needs no package index.
    offline = ["--no-build-isolation", "--check-build-dependencies"]
    for options in (offline, []):
        ran = subprocess.run(
            [*command, *options, str(source.resolve())],
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
        )
        if ran.returncode == 0 and len(made := list(folder.glob("*.whl"))) == 1:
            return UserPackage.of(made[0])
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    why = next((line for line in reversed(lines) if "rror" in line), "pip wheel gives no reason").strip()
    raise ConfigError([f"--with-package {source}: no wheel can be built of it: {why}"])


def kept_packages(state_dir: Path) -> tuple[UserPackage, ...]:
    """The packages that the bench's hosts shall have, by name."""
    return tuple(UserPackage.of(path) for path in sorted((state_dir / "packages").glob("*/*.whl")))


def keep_packages(state_dir: Path, packages: Sequence[UserPackage]) -> tuple[UserPackage, ...]:
    """Make these, and no others, the packages that the bench's hosts shall have."""
    home = state_dir / "packages"
    state_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=state_dir) as scratch:
        for package in packages:
            folder = Path(scratch) / "packages" / package.wheel.name
            folder.mkdir(parents=True)
            shutil.copyfile(package.path, folder / package.path.name)
        if home.exists():
            home.rename(Path(scratch) / "before")
        if packages:
            (Path(scratch) / "packages").rename(home)
    return tuple(replace(package, path=home / package.wheel.name / package.path.name) for package in packages)


def refuse_unfit(
    packages: Sequence[UserPackage], house: Wheelhouse, version: str, platform: Platform
) -> None:
    """ConfigError with every reason why hosts of that kind cannot install the packages beside roambench
    `version`: offline, they have the wheels of the lock and these."""
    wheels = {wheel.name: wheel.version for wheel in house.wheels}
    own = {package.wheel.name: package.wheel.version for package in packages}
    problems = [
        problem
        for package in packages
        for problem in (
            *_of_another_kind(package, platform),
            *_already_there(package, wheels),
            *_unmet(package, {**wheels, **own, _OURS: version}, platform),
        )
    ]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _of_another_kind(package: UserPackage, platform: Platform) -> Iterator[str]:
    try:
        _, _, _, tags = parse_wheel_filename(package.path.name)
    except InvalidWheelFilename as error:
        yield str(error)
        return
    if not tags & _tags(platform):
        yield f"{package.path.name}: is not for {platform}, which hosts have"


def _tags(platform: Platform) -> set[Tag]:
    major, minor = map(int, platform.python.split("."))
    return {
        *cpython_tags((major, minor), platforms=platform.tags),
        *compatible_tags((major, minor), f"cp{major}{minor}", platform.tags),
    }


def _already_there(package: UserPackage, wheels: dict[str, str]) -> Iterator[str]:
    name = package.wheel.name
    if name in wheels:
        yield f"{package.path.name}: {name} {wheels[name]} is one of the packages that hosts have by {LOCK}"


def _unmet(package: UserPackage, there: dict[str, str], platform: Platform) -> Iterator[str]:
    wheel = package.wheel
    for _, need in applicable(wheel.name, wheel.requires, platform.markers, ()):
        found = there.get(canonicalize_name(need.name))
        asked = f"{need.name}{need.specifier}"
        if found is None:
            yield (
                f"{package.path.name}: needs {asked}, which hosts do not have ({LOCK}): "
                "--with-package its wheel, too, or make it an extra if only this machine needs it"
            )
        elif not need.specifier.contains(Version(found), prereleases=True):
            yield f"{package.path.name}: needs {asked}, hosts have {need.name} {found}"
