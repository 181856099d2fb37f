"""Commands on this machine: done, or an error that says what the command said."""

from __future__ import annotations

import subprocess


def do(*words: object, timeout_s: float = 60.0) -> str:
    """What the command printed; RuntimeError with its own words when it fails."""
    command = [str(word) for word in words]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=False
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def attempt(*words: object) -> bool:
    """Whether it could be done, for cleaning up what may not be there."""
    try:
        do(*words)
    except RuntimeError:
        return False
    return True
