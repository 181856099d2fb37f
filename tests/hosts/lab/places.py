"""Where the lab keeps its things: outside of the repository, on a disk."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """$ROAMBENCH_HOSTS_CACHE, or /var/cache/roambench-hosts: roots are worth keeping over checkouts."""
    folder = Path(os.environ.get("ROAMBENCH_HOSTS_CACHE", "/var/cache/roambench-hosts"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sets() -> Path:
    """Below it one folder per set of hosts, named by its number."""
    folder = cache() / "sets"
    folder.mkdir(exist_ok=True)
    return folder
