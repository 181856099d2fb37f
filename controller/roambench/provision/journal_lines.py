"""The lines that a host's agent wrote to the systemd journal."""

from __future__ import annotations

import shlex

from roambench.provision.hosts import HostLink

UNIT = "roambench-agent.service"


def journal(link: HostLink, lines: int, since: str = "") -> list[str]:
    """The newest `lines` of the agent's journal, oldest first; `since` as journalctl understands it."""
    words = [
        "journalctl",
        "--unit",
        UNIT,
        "--no-pager",
        "--quiet",
        "--output",
        "short-iso",
        "--lines",
        str(lines),
    ]
    if since:
        words += ["--since", since]
    return link.must(shlex.join(words), root=True).decode(errors="replace").splitlines()
