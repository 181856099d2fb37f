"""Steps to do on a host, as values: steps with a reason each, the files that differ there, and what does
not apply to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roambench.provision.facts import Facts
from roambench.provision.ssh.script import Script

_NOTHING: Final = Script("")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as it shall be. `owner` is user:group; a `secret` is never shown."""

    path: str
    content: bytes
    mode: int = 0o644
    owner: str = "root:root"
    secret: bool = False


@dataclass(frozen=True, slots=True)
class ShippedFile:
    """One file of a shipment."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Shipment:
    """Files of a tar archive here that are to be in `folder`.new on the host."""

    archive: Path
    folder: str
    files: tuple[ShippedFile, ...]

    @property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class HostStep:
    """Write `files`, ship the `shipment`, then run `script` as root, which gets `values` as "$1", "$2" and so
    on.

    `reason` says what was found to be missing or different. `explained` tells what an exit code means, and
    what to do about it. After a step that `restarts` the agent has to be started again.
    """

    subject: str
    reason: str
    script: Script = _NOTHING
    values: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    shipment: Shipment | None = None
    timeout_s: float = 60.0
    explained: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    restarts: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """A subject that a host like this does not have."""

    subject: str
    why: str


@dataclass(frozen=True, slots=True)
class HostRefusal:
    """A reason why nothing can be done on this host, and what would help."""

    reason: str
    next_action: str


@dataclass(frozen=True, slots=True)
class HostPlan:
    """In order. A host with refusals is left as it is."""

    steps: tuple[HostStep, ...]
    skips: tuple[Skip, ...]
    refusals: tuple[HostRefusal, ...] = ()


def difference(facts: Facts, file: RemoteFile) -> str:
    """The difference between the file on the host and the wanted one, "" for none."""
    found = facts.files.get(file.path)
    if found is None:
        return f"{file.path} is not there"
    if found.sha256 != hashlib.sha256(file.content).hexdigest():
        return f"{file.path} differs"
    if (found.mode, found.owner) != (file.mode, file.owner):
        return f"{file.path} is {found.mode:04o} {found.owner}, not {file.mode:04o} {file.owner}"
    return ""


def differing(facts: Facts, files: Iterable[RemoteFile]) -> tuple[tuple[RemoteFile, ...], str]:
    """The files that have to be written, and why."""
    doubts = {file: doubt for file in files if (doubt := difference(facts, file))}
    return tuple(doubts), "; ".join(doubts.values())
