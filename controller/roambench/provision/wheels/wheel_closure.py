"""All wheels that some requirements need on another machine, found without asking what this machine is."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from roambench.contract.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel file: its digest, its size, and what it takes once it is installed."""

    name: str
    version: str
    file: str
    sha256: str
    size_bytes: int
    unpacked_bytes: int
    requires: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> Wheel:
        """ConfigError for what is no wheel."""
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
                # Some carry other packages' metadata within their own code.
                top = [e for e in entries if e.filename.count("/") == 1]
                (metadata,) = [e for e in top if e.filename.endswith(".dist-info/METADATA")]
                header = BytesHeaderParser().parsebytes(archive.read(metadata))
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise ConfigError([f"{path}: not a wheel ({error})"]) from None
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(
            name=canonicalize_name(header["Name"]),
            version=header["Version"],
            file=path.name,
            sha256=digest,
            size_bytes=path.stat().st_size,
            unpacked_bytes=sum(entry.file_size for entry in entries),
            requires=tuple(header.get_all("Requires-Dist") or ()),
        )


def closure(
    roots: Sequence[str],
    markers: Mapping[str, str],
    fetch: Callable[[Sequence[str]], Iterable[Wheel]],
    who: str = "roambench",
) -> list[Wheel]:
    """The wheels of `roots`, which `who` needs, and of all they need where `markers` hold, by name.

    `fetch` gets requirements without markers, of packages not seen before, and returns their wheels. It
    decides the versions (by constraints); ConfigError lists every requirement that they do not meet.
    """
    wheels, unmet = followed(roots, markers, fetch, who)
    if unmet:
        raise ConfigError(unmet_text(wheels, unmet))
    return sorted(wheels.values(), key=lambda wheel: wheel.name)


def followed(
    roots: Sequence[str],
    markers: Mapping[str, str],
    fetch: Callable[[Sequence[str]], Iterable[Wheel]],
    who: str,
) -> tuple[dict[str, Wheel], list[tuple[str, Requirement]]]:
    """The wheels of a `closure`, and the requirements that they do not meet, each with who has it."""
    met: list[tuple[str, Requirement]] = []
    wheels: dict[str, Wheel] = {}
    frontier = applicable(who, roots, markers, ())
    while frontier:
        met += frontier
        missing = {canonicalize_name(need.name): need for _, need in frontier}
        asked = [_plain(need) for name, need in sorted(missing.items()) if name not in wheels]
        fetched = {wheel.name: wheel for wheel in fetch(asked)} if asked else {}
        wheels.update(fetched)
        frontier = [
            pair
            for _, need in frontier
            for pair in _needs_of(wheels.get(canonicalize_name(need.name)), need, markers)
            if pair not in met
        ]
    return wheels, [
        (whose, need)
        for whose, need in met
        if (found := wheels.get(canonicalize_name(need.name))) is None
        or not need.specifier.contains(Version(found.version), prereleases=True)
    ]


def unmet_text(wheels: Mapping[str, Wheel], unmet: Iterable[tuple[str, Requirement]]) -> list[str]:
    """The requirements that wheels do not meet, as sentences."""
    found = [(who, need, wheels.get(canonicalize_name(need.name))) for who, need in unmet]
    lines = (f"{who} needs {_plain(need)}, got {got.version if got else 'none'}" for who, need, got in found)
    return list(dict.fromkeys(lines))


def _needs_of(
    wheel: Wheel | None, need: Requirement, markers: Mapping[str, str]
) -> list[tuple[str, Requirement]]:
    return applicable(wheel.name, wheel.requires, markers, sorted(need.extras)) if wheel else []


def applicable(
    who: str, texts: Iterable[str], markers: Mapping[str, str], extras: Sequence[str]
) -> list[tuple[str, Requirement]]:
    """The requirements among `texts` that count where `markers` hold, each with `who` has it; ConfigError for
    what is no requirement."""
    found = []
    for text in texts:
        try:
            need = Requirement(text)
        except InvalidRequirement as error:
            raise ConfigError([f"{who} needs {text!r}: {error}"]) from None
        environments = [{**markers, "extra": extra} for extra in ("", *extras)]
        if need.marker is None or any(need.marker.evaluate(environment) for environment in environments):
            found.append((who, need))
    return found


def is_pin(need: Requirement) -> bool:
    """Return whether it names one version alone."""
    return [one.operator for one in need.specifier] == ["=="]


def _plain(need: Requirement) -> str:
    return f"{need.name}{need.specifier}"
