"""The wheels that hosts of one kind install, fetched on the server and shipped as one archive.

    state_dir/wheelhouse/MACHINE-PYTHON-KEY/wheelhouse.json   what is in it; written last
    state_dir/wheelhouse/MACHINE-PYTHON-KEY/HASH.tar          the wheels and SHA256SUMS

KEY stands for what was asked (requirements, lock), HASH for what was found. A wheel whose digest is not in
the lock is refused; packages that a platform leaves unlocked are the exception.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from packaging.markers import InvalidMarker, Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from roambench.contract.errors import ConfigError, FleetError
from roambench.contract.json_values import kept_in
from roambench.contract.whole_file import take_place, write_whole
from roambench.provision.platforms import Platform
from roambench.provision.step import ShippedFile
from roambench.provision.wheels.source_tree import base_requirements
from roambench.provision.wheels.wheel_closure import Wheel, closure, followed, is_pin, unmet_text

_INDEX: Final = "wheelhouse.json"
#: Runs out of its wheel, as ensurepip runs it.
_INSTALLER: Final = "pip"
_SUMS: Final = "SHA256SUMS"
#: How pip begins a file whose digest is another one.
_OTHER: Final = re.compile(r"DO NOT MATCH THE HASHES.*?\n +(\S.*?):\n", re.DOTALL)
_PATIENCE_S: Final = 1800.0
#: Of packages that come beside the agent's, these are the agent's: 400 MB, and what is compiled has to fit.
_ONCE: Final = ("torch",)
#: All packages that may be installed, to the last dependency and to the last byte: a requirements file with
#: digests, in the source tree; made by `make lock`.
LOCK: Final = "packaging/lock.txt"
#: A package with the extras that pip is asked for, its version, where it holds, and its digests.
_ENTRY: Final = re.compile(
    r"(?P<pin>(?P<name>[a-z0-9-]+)(?:\[[a-z0-9, -]+\])?==[^\s;]+)(?: ; (?P<marker>.+?))?"
    r"(?P<digests>(?:\s+--hash=sha256:[0-9a-f]{64})+)"
)


@dataclass(frozen=True, slots=True)
class _Index:
    machine: str
    python: str
    hash: str
    wheels: tuple[Wheel, ...]


@dataclass(frozen=True, slots=True)
class Wheelhouse:
    """`hash` is of the wheels' names and contents. All sizes are in bytes."""

    machine: str
    python: str
    hash: str
    archive: Path
    wheels: tuple[Wheel, ...]

    @property
    def shipped(self) -> tuple[ShippedFile, ...]:
        """The files that hosts get: the wheels, and their digests in a separate file."""
        sums = _sums(self.wheels)
        wheels = (ShippedFile(wheel.file, wheel.size_bytes, wheel.sha256) for wheel in self.wheels)
        return (ShippedFile(_SUMS, len(sums), hashlib.sha256(sums).hexdigest()), *wheels)

    @property
    def size_bytes(self) -> int:
        """Bytes of all wheels."""
        return sum(wheel.size_bytes for wheel in self.wheels)

    @property
    def pip(self) -> str:
        """The wheel of the installer itself: a host needs Python alone, neither its pip nor its ensurepip."""
        return next(wheel.file for wheel in self.wheels if wheel.name == _INSTALLER)

    @property
    def unpacked_bytes(self) -> int:
        """Bytes of all wheels once they are installed."""
        return sum(wheel.unpacked_bytes for wheel in self.wheels)


def build_wheelhouse(state_dir: Path, root: Path, platform: Platform, *, refresh: bool = False) -> Wheelhouse:
    """Fetch the wheels, unless they were before; `refresh` asks the index again.

    ConfigError where the lock does not fit, FleetError where pip cannot fetch a wheel that is in it.
    """
    requirements = _requirements(root)
    folder = _folder(state_dir, root, platform)
    if not refresh and (kept := _load(folder)) is not None:
        return kept
    wanted = read_lock(root / LOCK, platform.markers)
    unlocked = {
        name: wanted[name].split()[0] + local for name, local in platform.unlocked.items() if name in wanted
    }
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wheels = Path(scratch)

        def fetch(asked: Sequence[str]) -> Iterable[Wheel]:
            before = set(wheels.iterdir())
            names = [canonicalize_name(Requirement(need).name) for need in asked]
            if strangers := [name for name in names if name not in wanted]:
                raise ConfigError([f"{name} is not in it, and is needed: make lock" for name in strangers])
            locked = [wanted[name] for name in names if name not in unlocked]
            _pip_download(locked, platform, wheels, "--require-hashes")
            _pip_download([unlocked[name] for name in names if name in unlocked], platform, wheels)
            return [Wheel.of(path) for path in sorted(set(wheels.iterdir()) - before)]

        try:
            found = closure(requirements, platform.markers, fetch)
        except ConfigError as error:
            raise ConfigError([f"{LOCK}: {problem}" for problem in error.problems]) from None
        return _pack(folder, platform, wheels, found)


def build_beside(
    state_dir: Path,
    root: Path,
    platform: Platform,
    house: Wheelhouse,
    roots: Sequence[str],
    *,
    who: str,
    lock: str,
    alone: Sequence[str],
) -> Wheelhouse:
    """The wheels that `who` needs by `roots` in an environment beside the agent's, where it finds others.

    `lock` is a file of the source tree that goes before LOCK; what is in neither, or does not fit, is the
    newest that the index has and that fits. Packages in `alone` come without what they need. The agent's
    torch stays: a root that pins another, or a package made for another, gives way to one that fits. Kept as
    `build_wheelhouse` keeps its wheels. ConfigError where a range leaves out that torch, FleetError where the
    index has nothing that fits.
    """
    pinned = read_lock(root / lock, platform.markers)
    wanted = {**read_lock(root / LOCK, platform.markers), **pinned}
    there = {wheel.name: wheel for wheel in house.wheels if wheel.name not in pinned}
    asked = [house.hash, *roots, *alone, *wanted.values()]
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
    folder = state_dir / "wheelhouse" / f"beside-{platform.machine}-{platform.python}-{key}"
    if (kept := _load(folder)) is not None:
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wheels = Path(scratch)
        bounds: dict[str, SpecifierSet] = {}
        older = dict[str, str]()  # than a version that was made for another torch
        fetched: dict[str, Wheel] = {}

        def fetch(needs: Sequence[str]) -> Iterable[Wheel]:
            found, locked, free = [], [], []
            for need in map(Requirement, needs):
                name = canonicalize_name(need.name)
                fits = need.specifier & bounds.get(name, SpecifierSet())
                fits &= SpecifierSet(f"<{older[name]}" if name in older else "")
                known = [one for one in (there.get(name), fetched.get(name)) if one is not None]
                usable = [one for one in known if name in _ONCE or fits.contains(one.version, True)]
                if usable:
                    found.append(usable[0])
                elif name in wanted and fits.contains(wanted[name].split()[0].partition("==")[2], True):
                    locked.append(wanted[name])
                else:
                    free.append(f"{name}{fits}")
            before = set(wheels.iterdir())
            _pip_download(locked, platform, wheels, "--require-hashes")
            _pip_download(free, platform, wheels)
            new = [Wheel.of(path) for path in sorted(set(wheels.iterdir()) - before)]
            new = [replace(wheel, requires=()) if wheel.name in alone else wheel for wheel in new]
            fetched.update({wheel.name: wheel for wheel in new})
            return [*found, *new]

        while True:
            found, unmet = followed(roots, platform.markers, fetch, who)
            if not unmet:
                own = [found[name] for name in sorted(found) if found[name] is not there.get(name)]
                return _pack(folder, platform, wheels, own)
            for whose, need in unmet:
                name, ours = canonicalize_name(need.name), whose == who
                if name not in _ONCE:
                    bounds[name] = bounds.get(name, SpecifierSet()) & need.specifier
                    continue
                eased = [_unpinned(text, name if ours else whose) for text in roots]
                if eased == list(roots):
                    if ours or whose in there:
                        raise ConfigError(unmet_text(found, unmet))
                    older[whose] = found[whose].version
                fetched.pop(whose, None)
                roots = eased


def _unpinned(root: str, name: str) -> str:
    """The requirement without its version, if it is of that package and names one alone."""
    need = Requirement(root)
    if canonicalize_name(need.name) == name and is_pin(need):
        need.specifier = SpecifierSet()
    return str(need)


def kept_wheelhouse(state_dir: Path, root: Path, platform: Platform) -> Wheelhouse | None:
    """The wheels that were fetched for what is asked now; None if they were not."""
    return _load(_folder(state_dir, root, platform))


def _folder(state_dir: Path, root: Path, platform: Platform) -> Path:
    asked = [sorted(_requirements(root)), sorted(platform.unlocked.items()), (root / LOCK).read_text("utf-8")]
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
    return state_dir / "wheelhouse" / f"{platform.machine}-{platform.python}-{key}"


def _requirements(root: Path) -> list[str]:
    return [*base_requirements(root), _INSTALLER]


def _load(folder: Path) -> Wheelhouse | None:
    """The wheels fetched before, None if they are not whole."""
    index = kept_in(_Index, folder / _INDEX)
    if index is None or not (archive := folder / f"{index.hash}.tar").is_file():
        return None
    return Wheelhouse(index.machine, index.python, index.hash, archive, index.wheels)


def _pip_download(lines: Sequence[str], platform: Platform, folder: Path, *options: str) -> None:
    """Without dependencies: pip decides them by this machine's markers, which pulls in gigabytes of CUDA."""
    if not lines:
        return
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={platform.python}"]
    command += [f"--platform={tag}" for tag in platform.tags]
    command += ["--dest", str(folder), *options, "--requirement", "/dev/stdin"]
    text = "\n".join(lines)
    try:
        ran = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise FleetError(f"pip download: no end within {_PATIENCE_S:g} s") from None
    if ran.returncode != 0 and (other := _OTHER.search(ran.stderr)):
        raise FleetError(
            f"pip download for {platform}: {' '.join(other[1].split())} is none of the files that"
            f" {LOCK} names: find out who changed it"
        )
    if ran.returncode != 0:
        named = (line for line in ran.stderr.splitlines() if "ResolutionImpossible" not in line)
        lines = [line for line in named if line.startswith("ERROR")]
        why = (lines or [ran.stderr.strip()])[-1]
        if platform.unlocked and "torch" in why:
            why += (
                ": let pip look there, too: export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu"
            )
        raise FleetError(f"pip download for {platform}: {why}")


def _pack(folder: Path, platform: Platform, source: Path, wheels: Sequence[Wheel]) -> Wheelhouse:
    sums = _sums(wheels)
    digest = hashlib.sha256(sums).hexdigest()[:16]
    archive = folder / f"{digest}.tar"
    fresh = source / "fresh.tar"
    with tarfile.open(fresh, "w") as tar:  # not compressed: wheels are
        entry = tarfile.TarInfo(_SUMS)
        entry.size, entry.mode = len(sums), 0o644
        tar.addfile(entry, io.BytesIO(sums))
        for wheel in wheels:
            tar.add(source / wheel.file, arcname=wheel.file, filter=_anonymous)
    take_place(fresh, archive)
    index = _Index(platform.machine, platform.python, digest, tuple(wheels))
    write_whole(folder / _INDEX, json.dumps(asdict(index), indent=1))
    return Wheelhouse(index.machine, index.python, index.hash, archive, index.wheels)


def _sums(wheels: Iterable[Wheel]) -> bytes:
    """Return the sums as `sha256sum` prints them."""
    ordered = sorted(wheels, key=lambda wheel: wheel.file)
    return "".join(f"{wheel.sha256}  {wheel.file}\n" for wheel in ordered).encode()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def read_lock(path: Path, markers: Mapping[str, str]) -> dict[str, str]:
    """By package, what pip is to be asked for where `markers` hold: its version and the digests of all its
    files.

    ConfigError for every line that is neither such a requirement nor a comment, and for one without a digest.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from None
    found: dict[str, str] = {}
    problems = []
    number = 0
    for entry in re.split(r"(?<!\\)\n", text):
        number, line = number + 1 + entry.count("\n"), number + 1
        if not entry.strip() or entry.lstrip().startswith("#"):
            continue
        parts = _ENTRY.fullmatch(entry.replace("\\\n", " ").strip())
        try:
            if parts is None:
                raise InvalidMarker
            if not parts["marker"] or Marker(parts["marker"]).evaluate(dict(markers)):
                found[parts["name"]] = " ".join((parts["pin"], *parts["digests"].split()))
        except InvalidMarker:
            problems.append(
                f"{path}:{line}: expected NAME==VERSION [; MARKER] --hash=sha256:..., got {entry[:60]!r}"
            )
    if problems:
        raise ConfigError(problems)
    return found
