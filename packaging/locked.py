"""locked.py [EXTRA...]: prints the lines of lock.txt that roambench with these extras needs, for
`pip install --require-hashes -r`.

Markers stay in the lines, for pip to judge. torch is printed on aarch64 alone: elsewhere its builds with and
without CUDA share one version, and the digests are those of one (`torch.sh` installs it).
"""

from __future__ import annotations

import platform
import re
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def name_of(requirement: str) -> str:
    """The package's name as the lock spells it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def locked(extras: Collection[str]) -> dict[str, list[str]]:
    """The entries of the lock by package, of the requirements and of all that they need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    entries: dict[str, list[str]] = {}
    needs: dict[str, set[str]] = {}
    for entry in re.split(r"\n(?=[a-z])", (ROOT / "packaging" / "lock.txt").read_text())[1:]:
        pin, _, why = entry.partition("    # via")
        entries.setdefault(name_of(entry), []).append(pin.rstrip())
        for parent in re.findall(r"^ *#? +([a-z][\w.-]*)$", why, re.MULTILINE):
            needs.setdefault(parent, set()).add(name_of(entry))
    found: dict[str, list[str]] = {}
    names = [name_of(requirement) for requirement in wanted]
    while names:
        name = names.pop()
        if name not in found:
            found[name] = entries[name]
            names += needs.get(name, ())
    return dict(sorted(found.items()))


if __name__ == "__main__":
    chosen = locked(sys.argv[1:])
    if platform.machine() != "aarch64":
        del chosen["torch"]
    print("\n".join(line for lines in chosen.values() for line in lines))
