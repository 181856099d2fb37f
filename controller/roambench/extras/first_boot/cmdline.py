"""The kernel's command line on a card: one line of words, of which only ours are touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from roambench.contract.errors import ConfigError

#: Without it the kernel of Raspberry Pi OS limits no unit's memory, and the agent's MemoryMax does nothing.
MEMORY_LIMITS: Final = "cgroup_enable=memory"
#: A line may have several words with this key.
_LISTED: Final = "cgroup_enable"


def read_cmdline(content: bytes, name: str) -> str:
    """The line, without the blanks around it; ConfigError that begins with `name` for what is no line."""
    try:
        lines = [line.strip() for line in content.decode("ascii").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ConfigError([f"{name}: not ASCII text"]) from None
    if len(lines) != 1:
        raise ConfigError(
            [f"{name}: expected one line, got {len(lines)}; the firmware reads the first alone"]
        )
    return lines[0]


def with_words(line: str, words: Sequence[str]) -> str:
    """`line` with each of `words` (key=value); others with the keys of these go."""
    keys = {word.partition("=")[0] for word in words} - {_LISTED}
    kept = [word for word in line.split(" ") if word in words or word.partition("=")[0] not in keys]
    return " ".join([*kept, *(word for word in words if word not in kept)])
