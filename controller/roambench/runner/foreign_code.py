"""The code of other packages in an experiment: which it is, and from which of it an error came."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distribution, distributions, packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from roambench.contract.errors import ConfigError
from roambench.contract.sources import source_files
from roambench.experiment import catalogue
from roambench.experiment.rules import NAMED
from roambench.experiment.sections import Experiment
from roambench.learning.local_algorithms import parse_rule
from roambench.provision.facts import PackageFacts
from roambench.runner.world import system_of
from roambench.runs.fleet_kinds import FleetKind
from roambench.systems.peers import is_peer_system

_OURS: Final = "roambench"
#: Of a codec as experiments spell it.
_CODEC_NAME: Final = re.compile(r"(?:^|\+)([^+:]+)")


@dataclass(frozen=True, slots=True)
class ForeignCode:
    """A package that adds a row or a task. `package` is its distribution, or its top module where it is not
    installed; `version` is then "". `modules`: the top modules that were hashed, `sha256` of all their source
    files. `needs`: other installed distributions that they import, "name version"; not roambench's own."""

    package: str
    version: str
    modules: tuple[str, ...]
    sha256: str
    needs: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Its fields as JSON values."""
        return asdict(self)


def foreign_code(experiment: Experiment, fleet: FleetKind, system: str = "") -> list[ForeignCode]:
    """Contributions of other packages to the experiment on that kind of fleet, sorted; read again.

    `system`: of the experiment's systems that one alone. Code counts with every source file of its top
    package and, from there, of all modules that it imports and that belong to the same distribution or none.
    ConfigError for a file that cannot be read and a system that cannot be made.
    """
    tops = {module.partition(".")[0] for module in _modules(experiment, fleet, system)}
    return sorted(
        (_code_of(top) for top in tops if top != _OURS), key=lambda code: (code.package, code.modules)
    )


def needed_on_boards(experiment: Experiment, drivers: Collection[str] = ()) -> dict[str, PackageFacts]:
    """The packages that agents import, by name: of the task, the model, the codecs, the systems' local
    algorithms and the meters' `drivers`. ConfigError for code that is in no package: it cannot come to a
    board."""
    points = [
        *catalogue.table("models").added_by(experiment.learning.model),
        *_codecs(experiment),
        *(point for driver in drivers for point in catalogue.table("meters").added_by(driver)),
        *(point for system in experiment.systems for point in _local_algorithm(experiment, system)),
    ]
    modules = {point.module for point in points} | {experiment.learning.task.partition(":")[0]}
    codes = [_code_of(top) for top in sorted({module.partition(".")[0] for module in modules} - {"", _OURS})]
    if loose := [code.package for code in codes if not code.version]:
        raise ConfigError(
            [
                f"{top}: is in no installed package; boards get packages (fleet provision --with-package)"
                for top in loose
            ]
        )
    files = dict[str, dict[str, str]]()
    for code in codes:
        files.setdefault(_plain(code.package), {}).update(
            (name, hashlib.sha256(_bytes(path)).hexdigest())
            for top in code.modules
            for name, path in _files_of(top)
        )
    versions = {_plain(code.package): code.version for code in codes}
    return {name: PackageFacts(versions[name], files[name]) for name in sorted(files)}


def _codecs(experiment: Experiment) -> list[EntryPoint]:
    """The entry points of codecs that other packages add, in both directions."""
    names = _CODEC_NAME.findall(f"{experiment.links.codec_up}+{experiment.links.codec_down}")
    return [point for name in names for point in catalogue.table("codecs").added_by(name)]


def is_needed_by_us(top: str) -> bool:
    """Return whether a top module is roambench's, or of a distribution that roambench itself needs."""
    # To search the lists of files takes a fifth of the second in which `_distribution` reads all metadata.
    lists = ((owner, f"\n{owner.read_text('RECORD')}") for owner in distributions())
    owners: list[Distribution | None] = [owner for owner, files in lists if f"\n{top}/" in files]
    return top == _OURS or any(
        owner is not None and _plain(owner.name) in own_needs() for owner in owners or [_distribution(top)]
    )


def digest_of(codes: Sequence[ForeignCode]) -> str:
    """One digest of all of it, "" for none."""
    if not codes:
        return ""
    described = json.dumps([code.as_json() for code in codes], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def blame(error: BaseException) -> str:
    """The sentence about an error that another package's code raised: package, function, file and line. ""
    where the error comes from no code but roambench's and what roambench itself needs."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = [
        (top, frame)
        for frame in traceback.extract_tb(error.__traceback__)
        if (top := _top_module_at(Path(frame.filename)))
    ]
    if not frames:
        return ""
    called = _package(frames[0][0])  # roambench called it; what it needs in turn is its own affair
    frame = [frame for top, frame in frames if _package(top) == called][-1]
    text = " ".join([f"{type(error).__name__}:", *str(error).split()]).removesuffix(":")
    return f"{' '.join(called).strip()}: {frame.name} fails with {text} ({frame.filename}:{frame.lineno})"


def _modules(experiment: Experiment, fleet: FleetKind, system: str) -> Iterator[str]:
    """The modules that the experiment's rows of other packages, and its task, come from."""
    for path, kinds in NAMED.items():
        value: Any = experiment
        for part in path:
            value = getattr(value, part)
        if path == ("systems",) and system:
            value = system
        for name in (value,) if isinstance(value, str) else value:
            points = (point for kind in kinds for point in catalogue.table(kind).added_by(name))
            yield from (point.module for point in points)
    for name in (system,) if system else experiment.systems:
        yield from (point.module for point in _local_algorithm(experiment, name))
    yield from (point.module for point in _codecs(experiment))
    if experiment.learning.task:
        yield experiment.learning.task.partition(":")[0]
    if fleet.emulates:
        from roambench.emulation.drivers import foreign_modules

        yield from foreign_modules(experiment.local.meter_profile)
        for meter in experiment.local.meters.values():
            yield from (point.module for point in catalogue.table("meters").added_by(meter.driver))


def _local_algorithm(experiment: Experiment, system: str) -> list[EntryPoint]:
    """The entry points of the local algorithm that a system trains with; [] for one of ours."""
    if is_peer_system(system) or experiment.is_program_alone:
        return []
    algorithm, _ = parse_rule(system_of(experiment, system).training.objective, "objective")
    return catalogue.table("local").added_by(algorithm)


def _code_of(top: str) -> ForeignCode:
    package, version = _package(top)
    found, waiting, needs = dict[str, list[Path]](), [top], set[str]()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = source_files(name)
        for path in found[name]:
            for imported in _imports(path):
                owner = _installed(imported)
                if owner is None or owner.name == package:
                    waiting.append(imported)
                elif _plain(owner.name) not in own_needs():
                    needs.add(f"{owner.name} {owner.version}")
    modules = tuple(sorted(name for name, files in found.items() if files))
    content = hashlib.sha256()
    for name in modules:
        for path in found[name]:
            _, _, below = path.as_posix().rpartition(f"/{name}/")
            content.update(f"{name} {below or path.name} ".encode() + hashlib.sha256(_bytes(path)).digest())
    return ForeignCode(package, version, modules, content.hexdigest(), tuple(sorted(needs)))


def _files_of(top: str) -> Iterator[tuple[str, Path]]:
    """All files of a top module but byte code, with their paths in a wheel."""
    spec = find_spec(top)
    if spec is None or spec.submodule_search_locations is None:
        yield from ((path.name, path) for path in source_files(top))
        return
    for folder in map(Path, spec.submodule_search_locations):
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                yield f"{top}/{path.relative_to(folder).as_posix()}", path


def _imports(path: Path) -> set[str]:
    """The top modules that a file imports from elsewhere, the standard library's and roambench's left out."""
    if path.suffix != ".py":
        return set()
    try:
        tree = ast.parse(_bytes(path))
    except (SyntaxError, ValueError):
        return set()  # importing it fails in time
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {_OURS}


def _package(top: str) -> tuple[str, str]:
    """(distribution, version) of a top module, (the module, "") of one that is not installed."""
    owner = _distribution(top)
    return (top, "") if owner is None else (owner.name, owner.version)


def _installed(top: str) -> Distribution | None:
    """The distribution whose files are copies of a version: not one installed for editing, nor none."""
    owner = _distribution(top)
    return None if owner is None or _origin(owner).get("dir_info", {}).get("editable") else owner


def _distribution(top: str) -> Distribution | None:
    names = _distributions(tuple(sys.path)).get(top, ())
    return distribution(names[0]) if names else _edited(top)


def _edited(top: str) -> Distribution | None:
    """The distribution that was installed for editing from the folder in which the module lies; of two the
    inner one. Such installations list no modules."""
    files = source_files(top)
    found = [
        (len(folder), owner)
        for folder, owner in _edited_folders(tuple(sys.path))
        if files and files[0].as_posix().startswith(f"{folder}/")
    ]
    return max(found, key=lambda one: one[0])[1] if found else None


@cache
def _edited_folders(_path: tuple[str, ...]) -> tuple[tuple[str, Distribution], ...]:
    """Folders from which distributions were installed for editing, roambench's own left out."""
    found = []
    for owner in distributions():
        origin = _origin(owner)
        folder = unquote(urlsplit(str(origin.get("url", ""))).path).rstrip("/")
        if origin.get("dir_info", {}).get("editable") and _plain(owner.name) != _OURS:
            found.append((Path(folder).resolve().as_posix(), owner))
    return tuple(found)


def _origin(owner: Distribution) -> dict[str, Any]:
    """Return where pip had it from, {} where that is not known."""
    try:
        origin = json.loads(owner.read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return origin if isinstance(origin, dict) else {}


@cache
def _distributions(_path: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Top module -> distributions, on that sys.path; reading all of them can take a second."""
    return packages_distributions()


@cache
def own_needs() -> frozenset[str]:
    """Distributions that roambench itself asks for, and what they ask for in turn."""
    found, waiting = set[str](), [_OURS]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        try:
            asked = distribution(name).requires or ()
        except ImportError:
            continue  # an extra that is not installed
        waiting += [_plain(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in asked]
    return frozenset(found)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _top_module_at(path: Path) -> str:
    """The top module of a file that is neither roambench's, the standard library's nor of a distribution that
    roambench needs; "" for any of these."""
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == str(path):
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names or top in (_OURS, "__main__"):
                return ""
            owner = _distribution(top)
            return "" if owner is not None and _plain(owner.name) in own_needs() else top
    return ""


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None
