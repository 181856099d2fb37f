"""Whether a host has a file as it shall be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from roambench.provision.facts import Facts
from roambench.provision.step import RemoteFile


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
