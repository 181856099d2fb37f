"""The kit of a program that answers messages on boards: its files, and the packages that it imports.

state_dir/programs/NAME.json   the kit that the bench's hosts have of the program NAME
state_dir/programs/NAME.tar    its files
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import kept_in
from roambench.contract.whole_file import write_whole
from roambench.provision import layout
from roambench.provision.wheels.wheel_closure import is_pin
from roambench.provision.wheels.wheelhouse import Wheelhouse

#: Of all files: what is larger is data, which does not come with the code.
_MOST_BYTES: Final = 16 * 2**20
_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class KitSpec:
    """`program` is a name of `agent.orders.programs`; `name` and `version` are what its user calls it.

    `roots` are requirements, `lock` is a file of the source tree with versions and digests for them;
    packages in `alone` come without what they need. `check` is Python that a board runs as the agent's user,
    with the folder of the files as its argument: what cannot be loaded there never becomes what runs.
    """

    program: str
    name: str
    version: str
    roots: tuple[str, ...]
    alone: tuple[str, ...]
    lock: str
    check: str


@dataclass(frozen=True, slots=True)
class ProgramKit:
    """A kit with its files, an uncompressed tar archive."""

    spec: KitSpec
    files: bytes

    @property
    def digest(self) -> str:
        """16 digits over all of it; they name its folder on boards of every kind."""
        about = json.dumps(asdict(self.spec), sort_keys=True).encode()
        return hashlib.sha256(about + b"\0" + self.files).hexdigest()[:16]

    def as_json(self) -> dict[str, str]:
        """Its name, version and digest as JSON values."""
        return {"name": self.spec.name, "version": self.spec.version, "digest": self.digest}

    @property
    def folder(self) -> str:
        """The folder of its files on a board."""
        return f"{layout.PROGRAMS}/{self.digest}/files"

    @property
    def python(self) -> str:
        """The interpreter there that has what it imports."""
        return f"{layout.PROGRAMS}/{self.digest}/venv/bin/python"


@dataclass(frozen=True, slots=True)
class BoardKit:
    """A kit, and the wheels that its kind of host needs for it beside the agent's."""

    kit: ProgramKit
    wheels: Wheelhouse

    def other_versions(self, agent: Wheelhouse) -> list[str]:
        """The pins of its roots that gave way, as words: "torch 2.9.1, not torch==2.8.0"."""
        versions = {wheel.name: wheel.version for wheel in (*agent.wheels, *self.wheels.wheels)}
        needs = [need for need in map(Requirement, self.kit.spec.roots) if is_pin(need)]
        named = [(need, versions.get(canonicalize_name(need.name))) for need in needs]
        return [
            f"{need.name} {version}, not {need.name}{need.specifier}"
            for need, version in named
            if version is not None and not need.specifier.contains(version, prereleases=True)
        ]


def packed(folder: Path, paths: Iterable[Path]) -> bytes:
    """Those files of the folder as an archive, the same for the same contents. ConfigError where they are
    too large to be code."""
    archive, total = io.BytesIO(), 0
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(paths):
            content = path.read_bytes()
            total += len(content)
            if total > _MOST_BYTES:
                raise ConfigError(
                    [f"{folder}: its files are larger than {_MOST_BYTES / 2**20:.0f} MiB with {path.name}"]
                )
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def kept_kit(state_dir: Path) -> ProgramKit | None:
    """The kit that the bench's hosts shall have; None: no program."""
    for path in sorted((state_dir / "programs").glob(f"*{_SUFFIX}")):
        spec = kept_in(KitSpec, path)
        if spec is not None and path.with_suffix(".tar").is_file():
            return ProgramKit(spec, path.with_suffix(".tar").read_bytes())
    return None


def keep_kit(state_dir: Path, kit: ProgramKit | None) -> None:
    """Make this, and no other, the kit that the bench's hosts shall have."""
    home = state_dir / "programs"
    home.mkdir(parents=True, exist_ok=True)
    for path in home.glob(f"*{_SUFFIX}"):
        path.unlink()
    if kit is not None:
        (home / f"{kit.spec.program}.tar").write_bytes(kit.files)
        write_whole(home / f"{kit.spec.program}{_SUFFIX}", json.dumps(asdict(kit.spec), indent=1))


def described(about: dict[str, str]) -> str:
    """A program that a board has, in words."""
    return f"{about.get('name', 'a program')} {about.get('version', '')}".strip()
